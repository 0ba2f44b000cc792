"""Which keywords strict mode has, and how to describe the others in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from codelab.llm.schema.nodes import linear_matcher

TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

_OBJECT = ("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
           "maxProperties", "dependencies", "dependentRequired", "dependentSchemas",
           "unevaluatedProperties")  # fmt: skip
_ARRAY = ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains",
          "maxContains", "unevaluatedItems")  # fmt: skip
_STRING = ("pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType")
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

# The type that each keyword is about: a schema without a type is read as if it named these types.
IMPLIED_TYPES: dict[str, str] = (
    dict.fromkeys(_OBJECT, "object")
    | dict.fromkeys(_ARRAY, "array")
    | dict.fromkeys(_STRING, "string")
    | dict.fromkeys(_NUMBER, "number")
)
# Keywords that combine schemas.
APPLICATORS = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "dependencies",
               "dependentSchemas")  # fmt: skip
CONSTRAINTS = frozenset(IMPLIED_TYPES) | {"type", "enum", "const", "not"} | set(APPLICATORS)

# By type, the keywords that strict mode does not have. The description states them instead.
_IN_WORDS = {
    "string": ("minLength", "maxLength", "contentEncoding", "contentMediaType"),
    "object": ("minProperties", "maxProperties", "propertyNames", "dependentRequired", "dependencies"),
    "array": ("uniqueItems", "contains", "minContains", "maxContains"),
    "number": (),
    "integer": (),
    "boolean": (),
}
_ALWAYS_IN_WORDS = ("not", "default", "examples")
_MAX_WORDS_CHARS = 160

_UNSAFE_PATTERN = re.compile(
    r"\(\?(?!:)"  # look-around, flags, named groups
    r"|\\[1-9]|\\k|\\[bBcGAZzpPuxX]|\\[a-zA-Z](?<!\\[dDwWsSnrtfv])"  # back references, word boundaries, dialects
    r"|\[\^?\]"  # an empty class, only in JavaScript
    r"|\[[^\]]*\["  # a bracket in a class, which engines read differently
    r"|&&|--|~~"
    r"|[^\x00-\x7f]"
)
_COMPACT_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_REPEAT = re.compile(r"\{(\d*),?(\d*)\}")


def safe_pattern(pattern: Any) -> bool:
    """Whether all grammar engines read a pattern in the same way: no look-around, no anchor in the middle."""
    if not isinstance(pattern, str) or len(pattern) > 300 or _UNSAFE_PATTERN.search(pattern):
        return False
    skeleton = re.sub(r"\\.", "x", pattern, flags=re.DOTALL)
    skeleton = re.sub(r"\[[^\]]*\]", "x", skeleton)
    if "^" in skeleton[1:] or "$" in skeleton[:-1]:
        return False
    if "|" in skeleton and ("^" in skeleton or "$" in skeleton):
        depth = 0
        for char in skeleton:
            depth += (char == "(") - (char == ")")
            if char == "|" and depth == 0:
                return False  # `^a|b$`: each anchor belongs to one alternative
    for repeat in _REPEAT.finditer(skeleton):
        if any(part and int(part) > 256 for part in repeat.groups()):
            return False
    if re.search(r"\{(?!\d+(,\d*)?\})", skeleton) or re.search(r"(?<!\{)(?<![\d,])\}", skeleton):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return linear_matcher(pattern) is not None


def number(value: Any) -> Any:
    """The value if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def count(value: Any) -> int | None:
    """The value if it is a whole number from 0, else None."""
    value = number(value)
    return int(value) if value is not None and value >= 0 and float(value).is_integer() else None


def in_words(raw: Mapping[str, Any], type_: str) -> list[str]:
    """The keywords that strict mode does not have, in words."""
    phrases = []
    for keyword in _IN_WORDS.get(type_, ()) + _ALWAYS_IN_WORDS:
        if keyword in raw:
            value = raw[keyword]
            if keyword == "uniqueItems":
                if value is True:
                    phrases.append("items are unique")
                continue
            if keyword == "dependencies" and not isinstance(value, dict):
                continue
            phrases.append(f"{keyword}: {short_json(value)}")
    return phrases


def short_json(value: Any) -> str:
    """Compact JSON, cut if it is long."""
    text = ""
    try:
        for piece in _COMPACT_JSON.iterencode(value):
            text += piece
            if len(text) > _MAX_WORDS_CHARS:
                return text[:_MAX_WORDS_CHARS] + "…"
    except (TypeError, ValueError, RecursionError):
        return "…"
    return text
