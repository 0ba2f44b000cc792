"""Is something in the form of an example? Its values may be others."""

from typing import Any


def like(example: Any, found: Any) -> bool:
    """Does `found` have all fields of `example`, with values of their types; do its lists have such entries?"""
    if isinstance(example, dict):
        return isinstance(found, dict) and all(
            name in found and like(value, found[name]) for name, value in example.items()
        )
    if isinstance(example, list):
        return isinstance(found, list) and all(any(like(entry, other) for other in found) for entry in example)
    return type(example) is type(found)
