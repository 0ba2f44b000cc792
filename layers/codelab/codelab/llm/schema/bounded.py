"""Validation with bounded work. The work is estimated first, because compiled code cannot be interrupted.

The estimate counts how often a place of the schema applies to a part of the value. It looks at each pair of a place and
a part once, where the validator itself may take exponential time. Explaining an error costs far more than finding one.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import jsonschema_rs

from codelab.llm.schema.budget import depth_of, inner_values, same_value
from codelab.llm.schema.nodes import matcher
from codelab.llm.schema.references import References

#: How often a validator may visit a place (0.1 µs each), and how many errors it may explain (10 µs and more each).
_MAX_VISITS, _MAX_ERRORS = 2_000_000, 4000
#: Pairs of a place and a part of the value that the estimate may look at.
_PAIRS = 60_000
#: A schema with fewer places, with references followed, needs no estimate: its work is proportional to the value.
_PLAIN_PLACES = 4_000
#: The maximum nesting depth of a value to explain: the validator does not quote deeper ones.
_DEPTH = 200
#: An error copies its value: this many parts of the value cost as much as one more error.
_PARTS_PER_ERROR = 16


class Verdict(Enum):
    """What is known about a value. EXPLAINABLE: it is invalid, and the validator can say why at little cost."""

    VALID = "valid"
    EXPLAINABLE = "explainable"
    INVALID = "invalid"
    TOO_MUCH = "too much"


class BoundedValidator:
    """A validator that does not start if it would take too much work. schema: what the validator was made from."""

    def __init__(self, schema: Any, validator: jsonschema_rs.Validator) -> None:
        self.validator = validator
        self._schema = schema
        self._references = References(schema)
        self._plain: bool | None = None

    def verdict(self, value: Any) -> Verdict:
        """Whether a JSON value is valid, or too much work."""
        if self._plain is None:
            self._plain = _is_plain(self._schema, self._references)
        effort: tuple[int, int] | None = None
        if not self._plain:
            effort = self._effort(value)
            if effort is None or effort[0] > _MAX_VISITS:
                return Verdict.TOO_MUCH
        try:
            if self.validator.is_valid(value):
                return Verdict.VALID
        except ValueError:  # nested too deeply for the validator
            return Verdict.TOO_MUCH
        if depth_of(value, _DEPTH) > _DEPTH:
            return Verdict.INVALID
        effort = effort or self._effort(value)
        return Verdict.EXPLAINABLE if effort is not None and effort[1] <= _MAX_ERRORS else Verdict.INVALID

    def _effort(self, value: Any) -> tuple[int, int] | None:
        try:
            return _Effort(self._references).of(self._schema, value)
        except (_TooMuch, RecursionError):
            return None


class _TooMuch(Exception):
    """There are too many pairs to estimate the work."""


class _Effort:
    """Counts, for each pair of a schema and a part of the value, the places visited and the cost to explain errors.

    A cycle of references that returns to the same value is followed once.
    """

    def __init__(self, references: References) -> None:
        self._references = references
        self._efforts: dict[tuple[int, int], tuple[int, int]] = {}
        self._sizes: dict[int, int] = {}

    def of(self, schema: Any, value: Any) -> tuple[int, int]:
        if not isinstance(schema, dict):
            return 1, 1
        key = (id(schema), id(value))
        cached_effort = self._efforts.get(key)
        if cached_effort is not None:
            return cached_effort
        if len(self._efforts) >= _PAIRS:
            raise _TooMuch
        self._efforts[key] = 0, 0  # until it is counted
        options = len(schema.get("enum") or ()) // 16
        visits, errors = 1 + options, _own_errors(schema) * (1 + self._size(value) // _PARTS_PER_ERROR)
        for child in same_value(schema, self._references):
            visits, errors = _plus(visits, errors, self.of(child, value))
        for child, part in _applied(schema, value):
            visits, errors = _plus(visits, errors, self.of(child, part))
        self._efforts[key] = visits, errors
        return visits, errors

    def _size(self, value: Any) -> int:
        if isinstance(value, str):
            return 1 + len(value) // 64
        if not isinstance(value, (dict, list)) or not value:
            return 1
        size = self._sizes.get(id(value))
        if size is None:
            items = value.values() if isinstance(value, dict) else value
            size = self._sizes[id(value)] = 1 + sum(map(self._size, items))
        return size


def _own_errors(schema: dict[str, Any]) -> int:
    """Roughly how many errors a schema can have, without those of its subschemas."""
    lists = [schema.get("required")]
    for keyword in ("dependentRequired", "dependencies"):
        lists += _dict(schema, keyword).values()
    return 1 + sum(len(names) for names in lists if isinstance(names, list))


def _plus(visits: int, errors: int, effort: tuple[int, int]) -> tuple[int, int]:
    return visits + effort[0], errors + effort[1]


def _applied(schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """The subschemas for parts of a value, each with the part."""
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
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def _is_plain(schema: Any, references: References) -> bool:
    """Whether a schema is not recursive, and small with all references followed."""
    sizes: dict[int, int | None] = {}

    def size(node: Any) -> int | None:
        """The size, or None if recursive or too large."""
        if not isinstance(node, dict):
            return 1
        if id(node) in sizes:
            return sizes[id(node)]
        sizes[id(node)] = None  # while it is being counted: recursive
        total = 1 + len(node.get("enum") or ()) // 16
        for child in (*same_value(node, references), *inner_values(node)):
            child_size = size(child)
            if child_size is None or total + child_size > _PLAIN_PLACES:
                return None
            total += child_size
        sizes[id(node)] = total
        return total

    try:
        return size(schema) is not None
    except RecursionError:
        return False
