"""Untrusted descriptions of tools: taken out of the schema, with invisible characters made visible.

A model obeys texts in the schema of its answers like instructions of its user. So the schema of a tool that a
repository or another program describes keeps only names and rules; the texts are passed as data.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from codelab.protocol.paths import INVISIBLE

#: Characters of one text, and of all texts of a tool.
_TEXT_CHARS, _ALL_CHARS = 2_000, 4_000
#: Keywords whose values are rules without words.
_RULES = frozenset(
    {
        *("type", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength"),
        *("maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "minContains"),
        *("format", "$ref"),
    }
)
#: Keywords with schemas: one, a list of them, or several by name. Not those with which a schema that allows more makes
#: the whole allow less, such as `not`.
_SCHEMA_KEYWORDS = frozenset({"items", "additionalProperties", "contains"})
_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf", "prefixItems": "prefixItems"}
_SCHEMA_MAPS = frozenset({"properties", "$defs", "definitions"})
#: A name or a value that is no sentence.
_PLAIN_WORD = re.compile(r"[\w.$:/@+*#<>=~%-]{0,64}")
#: Categories of characters that control something, end a line, or are half a character.
_CONTROL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_BLANK = "\u2800"


def visible(text: str) -> str:
    """The text with every character made visible that a reader would not see; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"<U+{ord(char):04X}>" if _is_hidden(char) else char for char in text.replace("\r\n", "\n"))


def _is_hidden(character: str) -> bool:
    if character in "\n\t":
        return False
    return bool(unicodedata.category(character) in _CONTROL or INVISIBLE.match(character) or character == _BLANK)


def _is_plain(text: str) -> bool:
    return bool(_PLAIN_WORD.fullmatch(text)) and visible(text) == text


def without_words(schema: Any) -> Any:
    """A JSON Schema with names and rules only. It may allow more than the whole one, and never less.

    A name or a value that could be a sentence is left out with the rule that it belongs to.
    """
    if not isinstance(schema, Mapping):
        return schema if isinstance(schema, bool) else {}
    rules: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _SCHEMA_KEYWORDS:
            rules[keyword] = without_words(value)
        elif keyword in _LISTS and isinstance(value, list):
            rules[_LISTS[keyword]] = [without_words(child) for child in value]
        elif keyword in _SCHEMA_MAPS and isinstance(value, Mapping):
            rules[keyword] = {name: without_words(child) for name, child in value.items() if _is_plain(name)}
        elif keyword in _RULES and all(_is_plain(text) for _, text in _texts(value, "")):
            rules[keyword] = value
    if isinstance(required := rules.get("required"), list):
        rules["required"] = [name for name in required if name in rules.get("properties", {})]
    if len(rules.get("properties", ())) < len(schema.get("properties", ())):
        rules["additionalProperties"] = True
    return {**rules, **_values(schema)}


def _values(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a schema allows; if one could be a sentence, only that they are texts."""
    rules: dict[str, Any] = {}
    for keyword in ("enum", "const"):
        if keyword in schema:
            values = schema[keyword] if isinstance(schema[keyword], list) else [schema[keyword]]
            if all(_is_plain(text) for _, text in _texts(values, "")):
                rules[keyword] = schema[keyword]
            elif all(isinstance(value, str) for value in values):
                rules["type"] = "string"
    return rules


def words_of(description: str, schema: Any) -> str:
    """The description of a tool, and what its schema says in words, each with its place. Bounded and visible."""
    lines = [visible(description[:_TEXT_CHARS])]
    lines += [f"{visible(place)}: {visible(text[:_TEXT_CHARS])}" for place, text in _sentences(schema)]
    return "\n".join(lines)[:_ALL_CHARS]


def _sentences(schema: Any) -> Iterator[tuple[str, str]]:
    """All texts of a schema that are more than names."""
    return ((place, text) for place, text in _texts(schema, "") if not _is_plain(text))


def _texts(node: Any, place: str) -> Iterator[tuple[str, str]]:
    """All texts in a value, names of members too, each with its place."""
    if isinstance(node, str):
        yield place[-120:], node
    elif isinstance(node, list):
        for value in node:
            yield from _texts(value, place)
    elif isinstance(node, Mapping):
        for name, value in node.items():
            member_place = f"{place}.{name}" if place else name
            yield place[-120:], name
            yield from _texts(value, member_place)
