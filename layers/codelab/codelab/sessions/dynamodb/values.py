"""Plain values and DynamoDB's attribute values."""

from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize


def to_dynamodb(values: dict[str, Any]) -> dict[str, Any]:
    """`values` (strings, integers, booleans, lists, maps) as DynamoDB attribute values."""
    return {name: _serialize(value) for name, value in values.items()}


def from_dynamodb(item: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `to_dynamodb`; numbers come back as int."""
    return {name: _plain(_deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
