"""Does a value have the form of an example? The values may differ."""

from typing import Any


def like(example: Any, found: Any) -> bool:
    """Does `found` have all fields of `example` with the same types, also in lists?"""
    if isinstance(example, dict):
        return isinstance(found, dict) and all(
            name in found and like(value, found[name]) for name, value in example.items()
        )
    if isinstance(example, list):
        return isinstance(found, list) and all(any(like(entry, other) for other in found) for entry in example)
    return type(example) is type(found)
