"""What an MCP server wants to ask the user, as a form for the editor. No I/O.

The server's words are not trusted: they are bounded, and what they hide is spelled out.
"""

from collections.abc import Mapping
from typing import Any

from codelab_client.safe_text import exact_line

_MOST_FIELDS = 20
_MOST_CHOICES = 100
_TEXT_CHARS = 1_000
#: By the type of a field, what its value must be, and the limits that it may have.
_TYPES: dict[str, tuple[tuple[type, ...], tuple[str, ...]]] = {
    "string": ((str,), ("minLength", "maxLength", "pattern")),
    "number": ((int, float), ("minimum", "maximum")),
    "integer": ((int,), ("minimum", "maximum")),
    "boolean": ((bool,), ()),
    "array": ((list,), ("minItems", "maxItems")),
}
_FORMATS = ("email", "uri", "date", "date-time")


def form(schema: Any) -> dict[str, Any] | None:
    """The `requestedSchema` for the editor; None if the server's schema is no form of simple fields."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict) or not 0 < len(fields) <= _MOST_FIELDS:
        return None
    properties = {str(name): _field(field) for name, field in fields.items()}
    if any(field is None for field in properties.values()):
        return None
    required = schema.get("required")
    names = [name for name in required if name in properties] if isinstance(required, list) else []
    return {"type": "object", "properties": properties, "required": names}


def answer(content: Any, requested: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the user has answered; None if that does not fit the form."""
    if not isinstance(content, dict):
        return None
    values = {name: value for name, value in content.items() if name in requested["properties"]}
    fits = all(_fits(value, requested["properties"][name]) for name, value in values.items())
    return values if fits and values.keys() >= set(requested["required"]) else None


def _field(field: Any) -> dict[str, Any] | None:
    kind = field.get("type") if isinstance(field, dict) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        return None
    types, limits = _TYPES[kind]
    texts = {name: _text(field[name]) for name in ("title", "description") if isinstance(field.get(name), str)}
    made: dict[str, Any] = {"type": kind, **texts}
    for name in limits:
        value = field.get(name)
        if type(value) in ((str,) if name == "pattern" else (int, float)):
            made[name] = value
    if isinstance(field.get("default"), types) and (kind == "boolean" or not isinstance(field["default"], bool)):
        made["default"] = field["default"]
    if kind == "string" and field.get("format") in _FORMATS:
        made["format"] = field["format"]
    if kind == "array":
        choices = _choices(field.get("items"), "anyOf")
        return None if choices is None else {**made, "items": {"anyOf": choices}}
    if kind == "string" and ("enum" in field or "oneOf" in field):
        choices = _choices(field, "oneOf")
        return None if choices is None else {**made, "oneOf": choices}
    return made


def _choices(field: Any, titled: str) -> list[dict[str, str]] | None:
    """The values to choose from, each with its title."""
    if not isinstance(field, dict):
        return None
    found = field.get(titled) or [{"const": value} for value in field.get("enum") or []]
    if not isinstance(found, list) or not 0 < len(found) <= _MOST_CHOICES:
        return None
    if not all(isinstance(one, dict) and isinstance(one.get("const"), str) for one in found):
        return None
    return [{"const": one["const"], "title": _text(one.get("title") or one["const"])} for one in found]


def _fits(value: Any, field: Mapping[str, Any]) -> bool:
    types, _ = _TYPES[field["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and field["type"] != "boolean"):
        return False
    choices = field.get("oneOf") or field.get("items", {}).get("anyOf")
    if choices is None:
        return True
    values = {one["const"] for one in choices}
    return all(isinstance(one, str) and one in values for one in (value if isinstance(value, list) else [value]))


def _text(text: Any) -> str:
    return exact_line(str(text)[:_TEXT_CHARS])
