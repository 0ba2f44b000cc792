"""The strict forms of strings, numbers, booleans and enumerations."""

from __future__ import annotations

from typing import Any

from codelab.llm.schema.conversion import Conversion
from codelab.llm.schema.facts import Facts
from codelab.llm.schema.limits import LONG_ENUM, MAX_LONG_ENUM_CHARACTERS
from codelab.llm.schema.nodes import JsonText, Labels, NullText, Plain, json_type, label
from codelab.llm.schema.strict import Branch, Place, Schema, describe

SCALARS = ("string", "integer", "number", "boolean")
_BOUNDS = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIMPLE = frozenset({"type", "description", "title"})
_PLAIN_NODES = {kind: Plain(kind) for kind in SCALARS}


def plain_scalar(raw: dict[str, Any], kind: str) -> Place | None:
    """The place of a schema with a type, a title and a description only, as most are; None for any other.

    Faster than `branches_of`.
    """
    node = _PLAIN_NODES.get(kind)
    if node is None or not raw.keys() <= _SIMPLE:
        return None
    description, title = raw.get("description"), raw.get("title")
    schema: Schema = {"type": kind}
    if isinstance(title, str):
        schema["title"] = title
    if isinstance(description, str):
        schema["description"] = description
    else:
        description = ""
    return Place([Branch(schema, node, "number" if kind == "integer" else kind)], description=description)


def string(conversion: Conversion, facts: Facts) -> Branch:
    """The strict form of a string."""
    schema: Schema = {"type": "string"}
    if facts.pattern is not None and "pattern" not in conversion.excluded_keywords:
        schema["pattern"] = facts.pattern
    elif facts.format is not None and "format" not in conversion.excluded_keywords:
        schema["format"] = facts.format
    keywords = dict(schema) if len(schema) > 1 else None
    return Branch(describe(schema, facts.description("string")), Plain("string", keywords=keywords), "string")


def number(conversion: Conversion, facts: Facts, kind: str) -> Branch:
    """The strict form of a number. kind: "number" or "integer"."""
    schema: Schema = {"type": kind}
    for keyword in _BOUNDS:
        if keyword in facts.bounds and keyword not in conversion.excluded_keywords:
            schema[keyword] = facts.bounds[keyword]
    keywords = dict(schema) if len(schema) > 1 else None
    return Branch(describe(schema, facts.description(kind)), Plain(kind, keywords=keywords), "number")


def enumeration(conversion: Conversion, facts: Facts, values: list[Any]) -> Place:
    """The place of an enumeration: one branch per type; objects and arrays become labels."""
    groups: dict[str, list[Any]] = {}
    for value in values:
        kind = json_type(value)
        groups.setdefault("compound" if kind in ("object", "array") else kind, []).append(value)
    null = groups.pop("null", None) is not None
    if "integer" in groups and "number" in groups:
        groups["number"] = [value for value in values if json_type(value) in ("integer", "number")]
        del groups["integer"]
    branches = []
    for kind, members in groups.items():
        node: Plain | Labels | JsonText
        if kind == "compound":
            node, kind = Labels(members), "string"
            members = [label(member) for member in members]
        else:
            node = Plain(kind, members)
        schema: Schema = {"type": kind}
        words = facts.description(kind)
        if kind == "boolean" and len(members) == 2:
            pass
        elif not _affordable(conversion, members):
            # Too many to list: any value of the type, and the original schema decides.
            words = (
                (f"{words} " if words else "") + "One of many values, for example " + ", ".join(map(str, members[:5]))
            )
            node = JsonText() if isinstance(node, Labels) else Plain(kind)
        elif len(members) == 1 and "const" not in conversion.excluded_keywords:
            schema["const"] = members[0]
        else:
            schema["enum"] = members
        branches.append(Branch(describe(schema, words), node, "number" if kind == "integer" else kind))
    return Place(branches, null)


def _affordable(conversion: Conversion, members: list[Any]) -> bool:
    characters = sum(len(str(member)) for member in members)
    if len(members) >= conversion.values_left or characters >= conversion.characters_left:
        return False
    if len(members) >= LONG_ENUM and characters > MAX_LONG_ENUM_CHARACTERS:
        return False
    conversion.values_left -= len(members) + 1
    conversion.characters_left -= characters + 4
    return True


def null_as_text() -> Branch:
    """The branch for null itself where null means absent."""
    return Branch({"type": "string", "const": "null", "description": "null itself"}, NullText(), "string")
