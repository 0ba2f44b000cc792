"""How much work it is to validate a value, before it is begun: compiled code cannot be interrupted.

The number of places that meet the parts of a value is computed in time that is linear in the pairs of them, where the
validator itself may take exponential time; and explaining what is wrong costs far more than finding that something is.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import jsonschema_rs

from codelab.llm.schema.budget import depth_of, inner, same
from codelab.llm.schema.nodes import matcher
from codelab.llm.schema.references import References

#: Places met that a validator may be asked for (0.1 µs each), and that it may explain (10 µs and more, and kilobytes).
_VISITS, _EXPLAINED = 2_000_000, 4000
#: Pairs of a place and a part of the value that are looked at to know that.
_PAIRS = 60_000
#: Places of a schema, references followed, whose work is in proportion to the value's size.
_PLAIN = 4_000
#: How deep a value may be nested of which is told what is wrong: the validator quotes no deeper ones.
_DEPTH = 200
#: Parts of a value that one error costs as much as another place: each error copies the value that it is about.
_COPIED = 16


class Verdict(Enum):
    """What is known of a value. EXPLAINABLE: it is invalid, and the validator may be asked why."""

    VALID = "valid"
    EXPLAINABLE = "explainable"
    INVALID = "invalid"
    TOO_MUCH = "too much"


class BoundedValidator:
    """A validator, and the schema that it was made of."""

    def __init__(self, schema: Any, validator: jsonschema_rs.Validator) -> None:
        self.validator = validator
        self._schema = schema
        self._references = References(schema)
        self._plain: bool | None = None

    def verdict(self, value: Any) -> Verdict:
        """Whether a JSON value is valid, or would be too much steps."""
        if self._plain is None:
            self._plain = _is_plain(self._schema, self._references)
        effort: tuple[int, int] | None = None
        if not self._plain:
            effort = self._effort(value)
            if effort is None or effort[0] > _VISITS:
                return Verdict.TOO_MUCH
        try:
            if self.validator.is_valid(value):
                return Verdict.VALID
        except ValueError:  # it is nested more deeply than the validator looks
            return Verdict.TOO_MUCH
        if depth_of(value, _DEPTH) > _DEPTH:
            return Verdict.INVALID
        effort = effort or self._effort(value)
        return Verdict.EXPLAINABLE if effort is not None and effort[1] <= _EXPLAINED else Verdict.INVALID

    def _effort(self, value: Any) -> tuple[int, int] | None:
        try:
            return _Effort(self._references).of(self._schema, value)
        except (_TooMuch, RecursionError):
            return None


class _TooMuch(Exception):
    """There are more pairs than are looked at."""


class _Effort:
    """Counts for each pair of a schema and a part of the value: places met, and those with what an error of each would
    copy. A circle of references that comes back to the same value ends there."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self._sizes: dict[int, int] = {}

    def of(self, schema: Any, value: Any) -> tuple[int, int]:
        if not isinstance(schema, dict):
            return 1, 1
        key = (id(schema), id(value))
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= _PAIRS:
            raise _TooMuch
        self._known[key] = 0, 0  # what it is while it is being counted
        options = len(schema.get("enum") or ()) // 16
        visits, explained = 1 + options, _own_errors(schema) * (1 + self._size(value) // _COPIED)
        for child in same(schema, self._references):
            visits, explained = _plus(visits, explained, self.of(child, value))
        for child, part in _applied(schema, value):
            visits, explained = _plus(visits, explained, self.of(child, part))
        self._known[key] = visits, explained
        return visits, explained

    def _size(self, value: Any) -> int:
        if isinstance(value, str):
            return 1 + len(value) // 64
        if not isinstance(value, (dict, list)) or not value:
            return 1
        known = self._sizes.get(id(value))
        if known is None:
            items = value.values() if isinstance(value, dict) else value
            known = self._sizes[id(value)] = 1 + sum(map(self._size, items))
        return known


def _own_errors(schema: dict[str, Any]) -> int:
    """How many errors a schema may have without those of the schemas in it, more or less."""
    lists = [schema.get("required")]
    for keyword in ("dependentRequired", "dependencies"):
        lists += _dict(schema, keyword).values()
    return 1 + sum(len(names) for names in lists if isinstance(names, list))


def _plus(visits: int, explained: int, more: tuple[int, int]) -> tuple[int, int]:
    return visits + more[0], explained + more[1]


def _applied(schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """The schemas that apply to the parts of a value, each with the part."""
    if isinstance(value, dict):
        properties = _dict(schema, "properties")
        for name, part in value.items():
            if name in properties:
                yield properties[name], part
        for pattern, child in _dict(schema, "patternProperties").items():
            matches = matcher(pattern)
            for name, part in value.items():
                if matches(name):
                    yield child, part
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            if isinstance(schema.get(keyword), dict):
                yield from ((schema[keyword], part) for name, part in value.items() if name not in properties)
        if isinstance(schema.get("propertyNames"), dict):
            yield from ((schema["propertyNames"], name) for name in value)
    elif isinstance(value, list):
        for keyword in ("items", "additionalItems", "unevaluatedItems", "contains"):
            if isinstance(schema.get(keyword), dict):
                yield from ((schema[keyword], part) for part in value)
        for keyword in ("prefixItems", "items"):
            if isinstance(schema.get(keyword), list):
                yield from zip(schema[keyword], value, strict=False)


def _dict(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def _is_plain(schema: Any, references: References) -> bool:
    """Whether a schema is not recursive, and small with all its references followed."""
    sizes: dict[int, int | None] = {}

    def size(node: Any) -> int | None:
        """None: recursive, or too large."""
        if not isinstance(node, dict):
            return 1
        if id(node) in sizes:
            return sizes[id(node)]
        sizes[id(node)] = None  # what it is for itself
        total = 1 + len(node.get("enum") or ()) // 16
        for child in (*same(node, references), *inner(node)):
            more = size(child)
            if more is None or total + more > _PLAIN:
                return None
            total += more
        sizes[id(node)] = total
        return total

    try:
        return size(schema) is not None
    except RecursionError:
        return False
