"""The strict codec (first slice): schemas that are strict already are sent as they are."""

from __future__ import annotations

from typing import Any


class Codec:
    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.strict = _is_strict(schema)
        self.wrapped = False

    def decode(self, answer: Any) -> Any:
        return answer

    def decode_item(self, path: tuple[str, ...], value: Any) -> Any:
        return value

    def strict_path(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        return path


def encode(schema: Any, *, open_objects: str = "close", without: frozenset[str] = frozenset()) -> Codec:
    return Codec(schema)


def _is_strict(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return (
            schema.get("additionalProperties") is False
            and set(schema.get("required", ())) == set(properties)
            and all(map(_is_strict, properties.values()))
        )
    if "anyOf" in schema:
        return all(map(_is_strict, schema["anyOf"]))
    if schema.get("type") == "array":
        return _is_strict(schema.get("items"))
    return "type" in schema
