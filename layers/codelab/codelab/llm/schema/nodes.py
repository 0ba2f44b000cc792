"""Convert values between their original and their strict form, with one node per place in the schema.

`decode` restores the original form. With `exact` it raises Mismatch if the value does not have the node's strict form,
so that a union finds the right branch. Without `exact` it restores what it can, because a provider may enforce nothing;
the original schema decides whether the result is valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs

from codelab.llm.scanner import DECODER


class Mismatch(Exception):
    """The value does not have the strict form of this node."""


#: What unions have decoded so far, by the ids of union and value. The branches of a union decode the same parts in
#: turn: without this, the work would double at each level.
Memo = dict[tuple[int, int], tuple[Any, Any]]
# Returned, never raised: an exception that is raised repeatedly keeps the frames of every raise.
MISMATCH = Mismatch()
# The size of one compiled pattern.
_AUTOMATON_BYTES = 1 << 20


class Node:
    """One place. lenient: whether it also restores values of other forms."""

    __slots__ = ()
    lenient = False

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        raise NotImplementedError


def json_type(value: Any) -> str:
    """The JSON type of a Python value. Whole numbers are integers, even as floats."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return "array" if isinstance(value, list) else "object"


def identity(value: Any) -> Any:
    """A hashable key that is equal for equal JSON values, although 1 == True in Python."""
    if value is True or value is False:
        return ("boolean", value)
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(identity, value)))
    return value


class Plain(Node):
    """A value of one JSON type that keeps its form.

    allowed_values: the only values. keywords: further strict keywords.
    """

    __slots__ = ("_keywords", "_validator", "allowed_values", "type")

    def __init__(
        self, type_: str, allowed_values: Sequence[Any] | None = None, keywords: dict[str, Any] | None = None
    ) -> None:
        self.type = type_
        self.allowed_values = None if allowed_values is None else frozenset(map(identity, allowed_values))
        self._keywords = keywords
        self._validator: Any = None

    def fits(self, value: Any) -> bool:
        value_type = json_type(value)
        if value_type != self.type and not (value_type == "integer" and self.type == "number"):
            return False
        if self.allowed_values is not None:
            return identity(value) in self.allowed_values
        if not self._keywords:
            return True
        if self._validator is None:
            self._validator = strict_validator(self._keywords)
        return bool(self._validator.is_valid(value))

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if exact and not self.fits(value):
            raise Mismatch
        return value


class JsonText(Node):
    """Any value, as JSON text in a string."""

    __slots__ = ()
    lenient = True

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if not isinstance(value, str):
            if exact:
                raise Mismatch
            return value
        try:
            return DECODER.decode(value)
        except (ValueError, RecursionError):
            return value  # the model forgot the quotes: the string itself is the value


class Labels(Node):
    """One of a few objects or arrays, written as its JSON text."""

    __slots__ = ("labels",)

    def __init__(self, values: Sequence[Any]) -> None:
        self.labels = frozenset(map(label, values))

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if isinstance(value, str) and value in self.labels:
            return json.loads(value)
        if exact:
            raise Mismatch
        return value


def label(value: Any) -> str:
    """A JSON value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Link(Node):
    """A node that is still being made, as the target of a recursive reference."""

    __slots__ = ("node",)

    def __init__(self) -> None:
        self.node: Node | None = None

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        assert self.node is not None
        return self.node.decode(value, exact, memo)


class NullText(Node):
    """Null, written as the string "null" because null itself means absent."""

    __slots__ = ()

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if exact and value != "null":
            raise Mismatch
        return None if value == "null" else value


class Null(Node):
    """Null."""

    __slots__ = ()

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        if exact and value is not None:
            raise Mismatch
        return value


# The Python types of each strict JSON type.
_PYTHON: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "object": dict,
    "array": list,
    "boolean": bool,
    "null": type(None),
    "integer": (int, float),
    "number": (int, float),
}


class Union(Node):
    """One of several branches, tried in order. Each has the strict JSON type of its values, or None for any."""

    __slots__ = ("branches",)

    def __init__(self, branches: Sequence[tuple[str | None, Node]]) -> None:
        self.branches = [(_PYTHON.get(kind) if kind else None, node) for kind, node in branches]

    def decode(self, value: Any, exact: bool, memo: Memo) -> Any:
        result = self._exactly(value, memo)
        if result is not MISMATCH:
            return result
        if exact:
            raise Mismatch
        for python, node in self.branches:
            if python is None or isinstance(value, python):
                return node.decode(value, False, memo)
        for _, node in self.branches:
            if node.lenient:
                return node.decode(value, False, memo)
        return value

    def _exactly(self, value: Any, memo: Memo) -> Any:
        """The value decoded by the first branch whose form it has, or MISMATCH."""
        key = (id(self), id(value))
        if key in memo:
            return memo[key][0]
        result: Any = MISMATCH
        for python, node in self.branches:
            if python is None or isinstance(value, python):
                try:
                    result = node.decode(value, True, memo)
                    break
                except Mismatch:
                    continue
        if isinstance(value, (dict, list)):
            memo[key] = result, value  # keeps the value alive, so that no other gets its id
        return result


def strict_validator(schema: Any) -> Any:
    """A validator of strict keywords that matches patterns in linear time."""
    options = jsonschema_rs.RegexOptions(size_limit=_AUTOMATON_BYTES, dfa_size_limit=_AUTOMATON_BYTES)
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, pattern_options=options)


def matcher(pattern: str) -> Callable[[str], bool]:
    """A matcher of a JSON Schema pattern. Unknown syntax matches everything: the original schema decides."""
    return linear_matcher(pattern) or (lambda key: True)


@lru_cache(maxsize=64)
def linear_matcher(pattern: str) -> Callable[[str], bool] | None:
    """A matcher of a JSON Schema pattern in linear time; None if the pattern does not allow that."""
    try:
        matches: Callable[[str], bool] = strict_validator({"pattern": pattern}).is_valid
    except ValueError:
        return None
    return matches
