"""Plain values and DynamoDB's attribute values."""

from typing import Any


def to_dynamodb(values: dict[str, Any]) -> dict[str, Any]:
    """`values` (strings, integers, booleans, None, lists, maps) as DynamoDB attribute values.

    Raises TypeError for anything else.
    """
    return {name: _tagged(value) for name, value in values.items()}


def from_dynamodb(item: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `to_dynamodb`."""
    return {name: _plain(value) for name, value in item.items()}


def _tagged(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(int(value))}
    if value is None:
        return {"NULL": True}
    if isinstance(value, dict):
        return {"M": {name: _tagged(inner) for name, inner in value.items()}}
    if isinstance(value, list | tuple):
        return {"L": [_tagged(inner) for inner in value]}
    raise TypeError(f"DynamoDB does not store a {type(value).__name__} here")


def _plain(tagged: dict[str, Any]) -> Any:
    ((kind, value),) = tagged.items()
    if kind in ("S", "BOOL"):
        return value
    if kind == "N":
        return int(value)
    if kind == "M":
        return {name: _plain(inner) for name, inner in value.items()}
    if kind == "L":
        return [_plain(inner) for inner in value]
    if kind == "NULL":
        return None
    raise TypeError(f"an attribute value of type {kind}")
