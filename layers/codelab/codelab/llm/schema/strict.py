"""The parts of a strict schema while it is being built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from codelab.llm.schema.nodes import Link, Node, Null, Union

Schema = dict[str, Any]
NULL: Schema = {"type": "null"}
JSON_TEXT = "JSON text"  # begins the description of a place that is JSON text because of a limit
EXTRA = "_extra"  # the property, and the definition, of further keys


class Unsatisfiable(Exception):
    """No value fits."""


class NeedsWrapping(Exception):
    """The root must be wrapped in an object, which needs one level more than is left."""


class TooLarge(Exception):
    """The schema exceeds all limits."""


@dataclass(slots=True)
class StepCounter:
    """The steps left for a schema. Work that a small schema can cause any number of times costs steps."""

    remaining: int

    def spend(self, steps: int = 1) -> None:
        """Raise TooLarge if no steps are left."""
        self.remaining -= steps
        if self.remaining < 0:
            raise TooLarge


@dataclass(frozen=True, slots=True)
class Settings:
    """How much of a schema to write out; the rest is JSON text. The codec tries the most detailed settings first.

    levels: below this depth everything is JSON text. width: properties per object. branches: combinations of unions.
    values and characters: of all enums. places: in all.
    """

    levels: int = 10
    width: int = 5_000
    branches: int = 16
    values: int = 900
    characters: int = 100_000
    places: int = 10_000


@dataclass(slots=True)
class Definition:
    """A place that others may refer to. It gets a name with the first reference."""

    depth: int
    hint: str
    link: Link = field(default_factory=Link)
    is_root: bool = False
    name: str = ""
    null_name: str = ""
    schema: Schema | None = None
    is_done: bool = False
    is_cut: bool = False
    height: int = 0
    size: int = 0
    references: list[Schema] = field(default_factory=list)
    # Whether a branch was left out because it leads back to a surrounding union of the same value. The schema is then
    # only correct inside that union.
    is_partial: bool = False


@dataclass(slots=True)
class Branch:
    """One way to write a value: the strict schema, the node that converts it, and its strict JSON type."""

    schema: Schema
    node: Node
    kind: str | None
    height: int = 0
    size: int = 0
    definition: Definition | None = None


@dataclass(slots=True)
class Place:
    """A converted place: its branches other than null, and whether null is one.

    is_cut: whether a part of it is JSON text because a limit left no room.
    """

    branches: list[Branch]
    null: bool = False
    description: str = ""
    title: str = ""
    is_cut: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.branches and not self.null

    @property
    def height(self) -> int:
        """Levels below this place."""
        child_height = max((branch.height for branch in self.branches), default=0)
        return child_height + (len(self.branches) > 1)

    @property
    def size(self) -> int:
        """Properties at this place and below, without those of definitions."""
        return sum(branch.size for branch in self.branches)

    @property
    def node(self) -> Node:
        if len(self.branches) == 1 and not self.null:
            return self.branches[0].node
        branches: list[tuple[str | None, Node]] = [(branch.kind, branch.node) for branch in self.branches]
        if self.null:
            branches.append(("null", Null()))
        return Union(branches)


def combine(place: Place, null: bool) -> Schema:
    """The schema of a place whose branches are not references. `null` adds null."""
    schemas = [branch.schema for branch in place.branches]
    if not schemas:
        return dict(NULL)
    if len(schemas) == 1:
        return annotated(nullable(schemas[0]) if null else schemas[0], place)
    return annotated({"anyOf": [*schemas, dict(NULL)] if null else schemas}, place)


def annotated(schema: Schema, place: Place) -> Schema:
    """The schema with the description and title of the place, unless it has its own or is a reference."""
    if "$ref" in schema:
        return schema
    if place.description and "description" not in schema:
        schema = {**schema, "description": place.description}
    if place.title and "title" not in schema:
        schema = {**schema, "title": place.title}
    return schema


def nullable(schema: Schema) -> Schema:
    """The schema or null."""
    if "anyOf" in schema:
        if any(branch.get("type") == "null" for branch in schema["anyOf"]):
            return schema
        return {**schema, "anyOf": [*schema["anyOf"], dict(NULL)]}
    kind = schema.get("type")
    if kind == "null" or isinstance(kind, list):
        return schema
    if not isinstance(kind, str) or "$ref" in schema:
        return {"anyOf": [schema, dict(NULL)]}
    result = {**schema, "type": [kind, "null"]}
    if "const" in result:
        result = {key: value for key, value in result.items() if key != "const"} | {"enum": [schema["const"], None]}
    elif "enum" in result:
        result["enum"] = [*schema["enum"], None]
    return result


def describe(schema: Schema, description: str) -> Schema:
    """Set the description, if there is one."""
    if description:
        schema["description"] = description
    return schema


def closed_object(properties: Schema, description: str = "") -> Schema:
    """The schema of an object with exactly these properties."""
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return describe(schema, description)
