"""Recognising what a request wants to be answered with, and filling it in."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codelab_local.demo_model.instance import Prefer, instance
from codelab_local.demo_model.merging import Schema


@dataclass(frozen=True)
class Tool:
    """A callable tool and the JSON Schema of its arguments (`root` resolves its references)."""

    name: str
    parameters: Schema
    root: Schema
    discriminator: str = ""

    def arguments(self, given: Mapping[str, Any], prefer: Prefer | None = None) -> dict[str, Any]:
        """What the schema insists on: those `given` that it knows, null or an instance for the others."""
        parameters = resolve(self.parameters, self.root)
        required = parameters.get("required", ())
        filled: dict[str, Any] = {}
        for name, schema in parameters.get("properties", {}).items():
            if name == self.discriminator:
                filled[name] = self.name
            elif given.get(name) is not None:
                filled[name] = given[name]
            elif name in required:
                filled[name] = None if nullable(schema, self.root) else self._made(name, schema, prefer)
        return filled

    def _made(self, name: str, schema: Any, prefer: Prefer | None) -> Any:
        if isinstance(schema, Mapping) and "default" in schema:
            return schema["default"]
        whole = {"type": "object", "properties": {name: schema}, "required": [name]}
        definitions = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        return instance({**whole, **definitions}, prefer)[name]


@dataclass(frozen=True)
class TurnSchema:
    """An agent's turn: `message`, then `calls` of the tools below, perhaps a `title`; the rest is filled in."""

    schema: Schema
    tools: tuple[Tool, ...]
    max_calls: int = 16


def resolve(schema: Any, root: Schema) -> dict[str, Any]:
    """`schema` with its own `$ref` followed (references inside stay)."""
    for _ in range(20):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return dict(schema)
        target: Any = root
        for part in reference[1:].strip("/").split("/"):
            if part:
                target = (
                    target.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(target, Mapping) else {}
                )
        schema = target
    return {}


def nullable(schema: Any, root: Schema) -> bool:
    """True if null is a valid value."""
    schema = resolve(schema, root)
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds and None in schema.get("enum", [None])):
        return True
    return any(nullable(sub, root) for key in ("anyOf", "oneOf") for sub in schema.get(key, ()))


def _array_of(schema: Any, root: Schema) -> dict[str, Any] | None:
    found = resolve(schema, root)
    kinds = found.get("type")
    if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
        return found
    for sub in [*found.get("anyOf", ()), *found.get("oneOf", ())]:
        array = _array_of(sub, root)
        if array is not None:
            return array
    return None


def turn_schema(schema: Any) -> TurnSchema | None:
    """`schema` as an agent's turn, or None when it is something else."""
    if not isinstance(schema, Mapping):
        return None
    root = schema
    top = resolve(schema, root)
    properties = top.get("properties")
    if not isinstance(properties, Mapping) or "message" not in properties or "calls" not in properties:
        return None
    array = _array_of(properties["calls"], root)
    if array is None:
        return None
    tools = []
    for option in _options(array.get("items", {}), root):
        named = _tool_name(option, root)
        if named:
            tools.append(Tool(named[1], option, root, discriminator=named[0]))
    limit = array.get("maxItems")
    return TurnSchema(top, tuple(tools), limit if isinstance(limit, int) else 16)


def _options(items: Any, root: Schema) -> Iterable[dict[str, Any]]:
    items = resolve(items, root)
    options = items.get("anyOf") or items.get("oneOf")
    if options is None:
        yield items
        return
    for option in options:
        yield from _options(option, root)


def _tool_name(option: Schema, root: Schema) -> tuple[str, str] | None:
    for name, schema in option.get("properties", {}).items():
        schema = resolve(schema, root)
        values = [schema["const"]] if "const" in schema else schema.get("enum", [])
        if len(values) == 1 and isinstance(values[0], str) and name in {"_tool", "tool", "name"}:
            return name, values[0]
    return None


def fill_turn(turn: TurnSchema, message: str, calls: Sequence[dict[str, Any]], title: str) -> dict[str, Any]:
    """The answer object in the schema's order of keys."""
    whole: dict[str, Any] = {}
    tool = Tool("", turn.schema, turn.schema)
    for name in turn.schema["properties"]:
        if name == "message":
            whole[name] = message
        elif name == "calls":
            whole[name] = list(calls)
        elif name == "title" and title:
            whole[name] = title
        elif name in turn.schema.get("required", ()):
            whole[name] = tool.arguments({}).get(name)
    return whole


_SCHEMA_WORDS = frozenset({"type", "properties", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "items", "$defs"})


def schema_in_text(texts: Sequence[str]) -> Schema | None:
    """The JSON Schema in a prompt: an agent's turn if there is one, else the longest in the last text with any."""
    decoder = json.JSONDecoder()
    best: tuple[int, Schema] | None = None
    for text in reversed(texts):
        at = text.find("{")
        while at != -1:
            try:
                value, end = decoder.raw_decode(text, at)
            except ValueError:
                at = text.find("{", at + 1)
                continue
            schema = _unwrapped(value)
            if schema is not None and turn_schema(schema) is not None:
                return schema
            if schema is not None and (best is None or end - at > best[0]):
                best = (end - at, schema)
            at = text.find("{", end)
        if best is not None:
            return best[1]
    return None


def _unwrapped(value: Any) -> Schema | None:
    """The schema in `{"name", "schema"}`, in `{"json_schema": …}` or the object itself, if it reads like a schema."""
    if not isinstance(value, Mapping):
        return None
    for key in ("json_schema", "schema", "parameters"):
        if isinstance(value.get(key), Mapping) and value.get("type") in (None, "json_schema", "function"):
            inner = _unwrapped(value[key])
            if inner is not None:
                return inner
    kind = value.get("type")
    known = isinstance(kind, list) or kind in {
        "object",
        "array",
        "string",
        "number",
        "integer",
        "boolean",
        "null",
        None,
    }
    return value if known and _SCHEMA_WORDS & value.keys() else None
