"""Plain values and DynamoDB's attribute values."""

from collections.abc import Callable, Iterable
from typing import Any


def to_dynamodb(values: dict[str, Any]) -> dict[str, Any]:
    """`values` (strings, integers, booleans, None, lists, maps) as DynamoDB attribute values.

    Raises TypeError for anything else.
    """
    return {name: (_TAGGING.get(type(value)) or _tagging(value))(value) for name, value in values.items()}


def from_dynamodb(item: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `to_dynamodb`. Raises KeyError for an attribute value of another type."""
    # Every event converts hundreds of values, most of them without calling a function of Python's.
    return {name: _PLAIN[kind](value) for name, tagged_value in item.items() for kind, value in tagged_value.items()}


def items_to_dynamodb(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """`to_dynamodb` of several items."""
    return [to_dynamodb(item) for item in items]


def items_from_dynamodb(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """`from_dynamodb` of several items."""
    return [from_dynamodb(item) for item in items]


#: By the exact type of a value, how it becomes an attribute value.
_TAGGING: dict[type, Callable[[Any], dict[str, Any]]] = {
    str: lambda value: {"S": value},
    bool: lambda value: {"BOOL": value},
    int: lambda value: {"N": int.__repr__(value)},  # also of a derived type, whose `str` may be a name
    type(None): lambda _: {"NULL": True},
    dict: lambda value: {"M": to_dynamodb(value)},
    list: lambda value: {"L": [(_TAGGING.get(type(inner)) or _tagging(inner))(inner) for inner in value]},
}
_TAGGING[tuple] = _TAGGING[list]
#: By the type of an attribute value, how it becomes plain.
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "S": str,
    "BOOL": bool,
    "N": int,
    "NULL": lambda _: None,
    "M": from_dynamodb,
    "L": lambda attribute_values: [_PLAIN[kind](value) for inner in attribute_values for kind, value in inner.items()],
}


def _tagging(value: Any) -> Callable[[Any], dict[str, Any]]:
    """The function for a value of a derived type, such as an enumeration of strings."""
    for kind, tagging in _TAGGING.items():
        if isinstance(value, kind):
            return tagging
    raise TypeError(f"DynamoDB does not store a {type(value).__name__} here")
