"""What strict mode takes of a keyword, and how what it does not take is said in words instead."""

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

# Which type a keyword speaks about: a schema that names no type is taken to mean those it speaks about.
IMPLIED: dict[str, str] = (
    dict.fromkeys(_OBJECT, "object")
    | dict.fromkeys(_ARRAY, "array")
    | dict.fromkeys(_STRING, "string")
    | dict.fromkeys(_NUMBER, "number")
)
# Keywords that combine schemas.
APPLICATORS = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "dependencies",
               "dependentSchemas")  # fmt: skip
CONSTRAINTS = frozenset(IMPLIED) | {"type", "enum", "const", "not"} | set(APPLICATORS)

# Said in words, where they apply: strict mode has no place for them.
_SAID_OF = {
    "string": ("minLength", "maxLength", "contentEncoding", "contentMediaType"),
    "object": ("minProperties", "maxProperties", "propertyNames", "dependentRequired", "dependencies"),
    "array": ("uniqueItems", "contains", "minContains", "maxContains"),
    "number": (),
    "integer": (),
    "boolean": (),
}
_SAID_ALWAYS = ("not", "default", "examples")
_LONGEST = 160

_UNSAFE_PATTERN = re.compile(
    r"\(\?(?!:)"  # look-around, flags, named groups
    r"|\\[1-9]|\\k|\\[bBcGAZzpPuxX]|\\[a-zA-Z](?<!\\[dDwWsSnrtfv])"  # back references, word boundaries, dialects
    r"|\[\^?\]"  # an empty class: JavaScript's only
    r"|\[[^\]]*\["  # a bracket in a class means different things
    r"|&&|--|~~"
    r"|[^\x00-\x7f]"
)
_BRIEFLY = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_REPEAT = re.compile(r"\{(\d*),?(\d*)\}")


def safe_pattern(pattern: Any) -> bool:
    """Whether a regular expression means the same to every grammar engine: no look-around, no anchor in the middle."""
    if not isinstance(pattern, str) or len(pattern) > 300 or _UNSAFE_PATTERN.search(pattern):
        return False
    bare = re.sub(r"\\.", "x", pattern, flags=re.DOTALL)
    bare = re.sub(r"\[[^\]]*\]", "x", bare)
    if "^" in bare[1:] or "$" in bare[:-1]:
        return False
    if "|" in bare and ("^" in bare or "$" in bare):
        depth = 0
        for char in bare:
            depth += (char == "(") - (char == ")")
            if char == "|" and depth == 0:
                return False  # `^a|b$`: the anchors bind to one alternative each
    for found in _REPEAT.finditer(bare):
        if any(part and int(part) > 256 for part in found.groups()):
            return False
    if re.search(r"\{(?!\d+(,\d*)?\})", bare) or re.search(r"(?<!\{)(?<![\d,])\}", bare):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return linear_matcher(pattern) is not None


def number(value: Any) -> Any:
    """A usable bound, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def count(value: Any) -> int | None:
    """A usable count, or None."""
    value = number(value)
    return int(value) if value is not None and value >= 0 and float(value).is_integer() else None


def in_words(raw: Mapping[str, Any], type_: str) -> list[str]:
    """The keywords of a schema that a strict one has no place for, in words."""
    out = []
    for keyword in _SAID_OF.get(type_, ()) + _SAID_ALWAYS:
        if keyword in raw:
            value = raw[keyword]
            if keyword == "uniqueItems":
                if value is True:
                    out.append("items are unique")
                continue
            if keyword == "dependencies" and not isinstance(value, dict):
                continue
            out.append(f"{keyword}: {short_json(value)}")
    return out


def short_json(value: Any) -> str:
    """Compact JSON, cut when it is long."""
    text = ""
    try:
        for piece in _BRIEFLY.iterencode(value):  # no more of it than is said
            text += piece
            if len(text) > _LONGEST:
                return text[:_LONGEST] + "…"
    except (TypeError, ValueError, RecursionError):
        return "…"
    return text
