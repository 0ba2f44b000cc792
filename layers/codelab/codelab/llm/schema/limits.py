"""The limits of strict mode, and how a strict schema is counted against them.

Levels are counted the careful way, because the vendor does not say how it counts: the root is level 0, and each step
into a property, into items or into a branch of a union is one more, also through references (each entered once).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_ENUM_VALUES = 1_000
MAX_CHARACTERS = 120_000
LONG_ENUM = 250  # an enum of more strings than this …
MAX_PLACES = 20_000  # our own: schemas that are written out wherever they are used may be any number
MAX_LONG_ENUM_CHARACTERS = 15_000  # … may not have more characters than this


@dataclass(slots=True)
class Figures:
    """What a strict schema uses of each limit."""

    properties: int = 0
    levels: int = 0
    enum_values: int = 0
    characters: int = 0
    long_enum_characters: int = 0
    places: int = 0

    def exceeded(self) -> list[str]:
        """The names of the limits that are exceeded."""
        return [
            name
            for name, over in (
                ("properties", self.properties > MAX_PROPERTIES),
                ("levels", self.levels > MAX_LEVELS),
                ("enum values", self.enum_values > MAX_ENUM_VALUES),
                ("characters", self.characters > MAX_CHARACTERS),
                ("size", self.places > MAX_PLACES),
                ("enum characters", self.long_enum_characters > MAX_LONG_ENUM_CHARACTERS),
            )
            if over
        ]


def measure(schema: Mapping[str, Any]) -> Figures:
    """Count a strict schema. Definitions count once, as they stand in the document."""
    figures = Figures()
    definitions = schema.get("$defs", {})
    entered: set[str] = set()
    _count(schema, 0, figures, schema, definitions, entered)
    for name in definitions:
        figures.characters += len(name)
        if f"#/$defs/{name}" not in entered:  # not reachable, but it stands there
            entered.add(f"#/$defs/{name}")
            _count(definitions[name], 1, figures, schema, definitions, entered)
    return figures


def _count(
    node: Any, level: int, figures: Figures, root: Mapping[str, Any], definitions: Mapping[str, Any], entered: set[str]
) -> None:
    figures.places += 1
    if figures.places > MAX_PLACES:
        return
    if level > figures.levels:
        figures.levels = level
    reference = node.get("$ref")
    if reference is not None and reference != "#" and reference not in entered:
        entered.add(reference)
        name = reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
        if name in definitions:
            _count(definitions[name], level, figures, root, definitions, entered)
    values = node.get("enum")
    if values is not None:
        figures.enum_values += len(values)
        characters = sum(len(value) for value in values if isinstance(value, str))
        figures.characters += sum(len(str(value)) for value in values)
        if len(values) > LONG_ENUM:
            figures.long_enum_characters = max(figures.long_enum_characters, characters)
    if "const" in node:
        figures.enum_values += 1
        figures.characters += len(str(node["const"]))
    properties = node.get("properties")
    if properties:
        figures.properties += len(properties)
        for name, child in properties.items():
            figures.characters += len(name)
            _count(child, level + 1, figures, root, definitions, entered)
    if "items" in node:
        _count(node["items"], level + 1, figures, root, definitions, entered)
    for branch in node.get("anyOf", ()):
        _count(branch, level + 1, figures, root, definitions, entered)
