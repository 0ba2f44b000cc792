"""Pieces of a strict schema while it is being made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from codelab.llm.schema.nodes import Link, Node, Null, Union

Schema = dict[str, Any]
NULL: Schema = {"type": "null"}
CUT = "JSON text"  # how the description of a place begins that is JSON text for want of room
EXTRA = "_extra"  # the property, and the definition, of further keys


class Unsatisfiable(Exception):
    """No value fits."""


class Wrapped(Exception):
    """The root must be wrapped in an object, and there is a level too few for that."""


class TooLarge(Exception):
    """The schema is growing beyond what any limit allows."""


@dataclass(slots=True)
class Work:
    """The steps that are left for a schema. They are counted where a small schema can ask for any number of them."""

    left: int

    def do(self, steps: int = 1) -> None:
        """Raises TooLarge when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise TooLarge


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is spelled out. Tried from generous to frugal until the result is within the limits.

    levels: below this depth, JSON text. width: properties of one object. branches: combinations of unions that are
    multiplied out. values: enum values in all. nodes: places in all.
    """

    levels: int = 10
    width: int = 5_000
    branches: int = 16
    values: int = 900
    characters: int = 100_000
    nodes: int = 10_000


@dataclass(slots=True)
class Slot:
    """A place that others may refer to. It gets a name when somebody does."""

    depth: int
    hint: str
    link: Link = field(default_factory=Link)
    is_root: bool = False
    name: str = ""
    null_name: str = ""
    schema: Schema | None = None
    null: bool = False
    done: bool = False
    cut: bool = False
    height: int = 0
    size: int = 0
    references: list[Schema] = field(default_factory=list)
    # Whether a cycle without any step in between was cut inside: only right where it was made.
    partial: bool = False


@dataclass(slots=True)
class Branch:
    """One way to write a value: the strict schema, the node that converts, the strict JSON type."""

    schema: Schema
    node: Node
    kind: str | None
    height: int = 0
    size: int = 0
    slot: Slot | None = None


@dataclass(slots=True)
class Made:
    """A place, encoded: its branches beside null, and whether null is one."""

    branches: list[Branch]
    null: bool = False
    described: str = ""
    title: str = ""
    cut: bool = False

    @property
    def height(self) -> int:
        """Levels below this place."""
        highest = max((branch.height for branch in self.branches), default=0)
        return highest + (len(self.branches) > 1)

    @property
    def size(self) -> int:
        """Properties written out at this place and below, without definitions."""
        return sum(branch.size for branch in self.branches)

    @property
    def node(self) -> Node:
        if len(self.branches) == 1 and not self.null:
            return self.branches[0].node
        found: list[tuple[str | None, Node]] = [(branch.kind, branch.node) for branch in self.branches]
        if self.null:
            found.append(("null", Null()))
        return Union(found)


def combine(made: Made, null: bool) -> Schema:
    """The schema of a place, with null beside its own branches where wanted. References are left to the encoder."""
    schemas = [branch.schema for branch in made.branches]
    if not schemas:
        return dict(NULL)
    if len(schemas) == 1:
        schema = nullable(schemas[0]) if null else schemas[0]
        return annotated(schema, made)
    return annotated({"anyOf": [*schemas, dict(NULL)] if null else schemas}, made)


def annotated(schema: Schema, made: Made) -> Schema:
    """With the description and title of the place, unless the schema has its own or is a bare reference."""
    if "$ref" in schema:
        return schema
    if made.described and "description" not in schema:
        schema = {**schema, "description": made.described}
    if made.title and "title" not in schema:
        schema = {**schema, "title": made.title}
    return schema


def nullable(schema: Schema) -> Schema:
    """The same or null."""
    if "anyOf" in schema:
        if any(branch.get("type") == "null" for branch in schema["anyOf"]):
            return schema
        return {**schema, "anyOf": [*schema["anyOf"], dict(NULL)]}
    kind = schema.get("type")
    if kind == "null":
        return schema
    if not isinstance(kind, str) or "$ref" in schema:
        return schema if isinstance(kind, list) else {"anyOf": [schema, dict(NULL)]}
    out = {**schema, "type": [kind, "null"]}
    if "const" in out:
        out = {key: value for key, value in out.items() if key != "const"} | {"enum": [schema["const"], None]}
    elif "enum" in out:
        out["enum"] = [*schema["enum"], None]
    return out


def worded(schema: Schema, words: str) -> Schema:
    """The schema, described."""
    if words:
        schema["description"] = words
    return schema


def closed(properties: Schema, words: str = "") -> Schema:
    """An object of exactly these properties."""
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return worded(schema, words)
