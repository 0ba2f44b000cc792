"""The limits of strict mode, and how much of them a strict schema uses.

The vendor does not say how it counts levels, so this counts conservatively: the root is level 0, and each step into a
property, into items or into a branch of a union is one more, also through references (each followed once).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_ENUM_VALUES = 1_000
MAX_CHARACTERS = 120_000
#: An enum with more than LONG_ENUM values may have at most MAX_LONG_ENUM_CHARACTERS characters.
LONG_ENUM, MAX_LONG_ENUM_CHARACTERS = 250, 15_000
#: A limit of our own, because the strict schema may repeat a place any number of times.
MAX_PLACES = 20_000


@dataclass(slots=True)
class SchemaSize:
    """How much a strict schema uses of each limit."""

    properties: int = 0
    levels: int = 0
    enum_values: int = 0
    characters: int = 0
    long_enum_characters: int = 0
    places: int = 0

    def exceeded(self) -> list[str]:
        """The names of the exceeded limits."""
        limits = {
            "properties": (self.properties, MAX_PROPERTIES),
            "levels": (self.levels, MAX_LEVELS),
            "enum values": (self.enum_values, MAX_ENUM_VALUES),
            "characters": (self.characters, MAX_CHARACTERS),
            "size": (self.places, MAX_PLACES),
            "enum characters": (self.long_enum_characters, MAX_LONG_ENUM_CHARACTERS),
        }
        return [name for name, (amount, limit) in limits.items() if amount > limit]


def measure(schema: Mapping[str, Any]) -> SchemaSize:
    """The size of a strict schema. Each definition counts once."""
    size = SchemaSize()
    definitions = schema.get("$defs", {})
    visited_references: set[str] = set()

    def count(node: Any, level: int) -> None:
        size.places += 1
        if size.places > MAX_PLACES:
            return
        size.levels = max(size.levels, level)
        reference = node.get("$ref")
        if reference is not None and reference != "#" and reference not in visited_references:
            visited_references.add(reference)
            name = reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
            if name in definitions:
                count(definitions[name], level)
        values = node.get("enum")
        if values is not None:
            size.enum_values += len(values)
            size.characters += sum(len(str(value)) for value in values)
            if len(values) > LONG_ENUM:
                characters = sum(len(value) for value in values if isinstance(value, str))
                size.long_enum_characters = max(size.long_enum_characters, characters)
        if "const" in node:
            size.enum_values += 1
            size.characters += len(str(node["const"]))
        properties = node.get("properties", {})
        size.properties += len(properties)
        size.characters += sum(map(len, properties))
        for child in properties.values():
            count(child, level + 1)
        if "items" in node:
            count(node["items"], level + 1)
        for branch in node.get("anyOf", ()):
            count(branch, level + 1)

    count(schema, 0)
    for name in definitions:
        size.characters += len(name)
        if f"#/$defs/{name}" not in visited_references:  # nothing refers to it, but it is part of the schema
            visited_references.add(f"#/$defs/{name}")
            count(definitions[name], 1)
    return size
