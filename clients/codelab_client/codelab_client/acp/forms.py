"""What an MCP server wants to ask the user, as a form for the editor. No I/O.

The server's words are not trusted: they are bounded, and what they hide is spelled out.
"""

import math
from collections.abc import Mapping
from typing import Any

from codelab_client.safe_text import exact_line

_MOST_FIELDS = 20
_MOST_CHOICES = 100
_TEXT_CHARS = 1_000
#: By the type of a field, what its value must be, and the limits that it may have: no pattern, which may take any time.
_TYPES: dict[str, tuple[tuple[type, ...], tuple[str, ...]]] = {
    "string": ((str,), ("minLength", "maxLength")),
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
    properties = {str(name): _field(str(name), field) for name, field in fields.items()}
    if any(field is None for field in properties.values()):
        return None
    required = schema.get("required")
    names = [name for name in required if name in properties] if isinstance(required, list) else []
    return {"type": "object", "properties": properties, "required": names}


def answer(content: Any, form_schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the user has answered; None if that does not fit the form."""
    if not isinstance(content, dict):
        return None
    values = {name: value for name, value in content.items() if name in form_schema["properties"]}
    fits = all(_fits(value, form_schema["properties"][name]) for name, value in values.items())
    return values if fits and values.keys() >= set(form_schema["required"]) else None


def _field(name: str, field: Any) -> dict[str, Any] | None:
    kind = field.get("type") if isinstance(field, dict) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        return None
    types, limits = _TYPES[kind]
    title, description = field.get("title"), field.get("description")
    result: dict[str, Any] = {"type": kind, "title": _text(title if isinstance(title, str) and title else name)}
    if isinstance(description, str):
        result["description"] = _text(description)
    result |= {limit: field[limit] for limit in limits if _is_number(field.get(limit))}
    default = field.get("default")
    if kind == "boolean" and isinstance(default, bool):
        result["default"] = default
    elif kind == "string" and isinstance(default, str):
        result["default"] = default[:_TEXT_CHARS]
    elif kind in ("integer", "number") and isinstance(default, types) and _is_number(default):
        result["default"] = default
    if kind == "string" and field.get("format") in _FORMATS:
        result["format"] = field["format"]
    if kind == "array":
        choices = _choices(field.get("items"), "anyOf")
        return None if choices is None else {**result, "items": {"anyOf": choices}}
    if kind == "string" and ("enum" in field or "oneOf" in field):
        choices = _choices(field, "oneOf")
        return None if choices is None else {**result, "oneOf": choices}
    return result


def _choices(field: Any, keyword: str) -> list[dict[str, str]] | None:
    """The values to choose from, each with its title."""
    if not isinstance(field, dict):
        return None
    enum = field.get("enum")
    candidates = field.get(keyword) or [{"const": value} for value in (enum if isinstance(enum, list) else [])]
    if not isinstance(candidates, list) or not 0 < len(candidates) <= _MOST_CHOICES:
        return None
    if not all(isinstance(choice, dict) and isinstance(choice.get("const"), str) for choice in candidates):
        return None
    return [{"const": choice["const"], "title": _text(choice.get("title") or choice["const"])} for choice in candidates]


def _fits(value: Any, field: Mapping[str, Any]) -> bool:
    types, _ = _TYPES[field["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and field["type"] != "boolean"):
        return False
    choices = field.get("oneOf") or field.get("items", {}).get("anyOf")
    if choices is None:
        return True
    values = {choice["const"] for choice in choices}
    return all(
        isinstance(choice, str) and choice in values for choice in (value if isinstance(value, list) else [value])
    )


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _text(text: Any) -> str:
    return exact_line(str(text)[:_TEXT_CHARS])
