"""What a schema from outside may cost: one budget of places for every schema that enters.

A schema is a program that runs over every answer. A small one may mean any amount of steps, through references that
double, patterns that repeat, or enumerations: so places are counted as they are written, as one value meets them, and
with all references followed. What is refused is named by its JSON Pointer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from codelab.llm.errors import InvalidRequest, json_pointer
from codelab.llm.schema.references import References

#: Keywords by what their value holds: schemas of the same value, then of values inside it.
_SAME_ONE = ("not", "if", "then", "else")
_SAME_LIST = ("allOf", "anyOf", "oneOf")
_SAME_MAP = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_INNER_ONE = ("additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems",
              "unevaluatedItems", "contains", "contentSchema")  # fmt: skip
_INNER_LIST = ("prefixItems", "items")
_INNER_MAP = ("properties", "patternProperties")

#: Of all patterns together, as compiled automata, in bytes; and of one of them.
_AUTOMATA_BYTES, _AUTOMATON_BYTES = 4 << 20, 1 << 20


@dataclass(frozen=True, slots=True)
class SchemaBudget:
    """nbytes: as JSON. places: JSON values in it. depth: how deep they are nested. enum: values of one enumeration.
    patterns, pattern_chars: how many different ones, and how long. at_once: places that one value meets, with the
    references followed. chain: how many of these one behind the other. followed: places with all references followed,
    which forbids recursion; None allows it.
    """

    nbytes: int = 200_000
    places: int = 10_000
    depth: int = 100
    enum: int = 5_000
    patterns: int = 250
    pattern_chars: int = 2_000
    at_once: int = 1_000
    chain: int = 50
    followed: int | None = None


REQUEST = SchemaBudget()


def check_schema(schema: Any, budget: SchemaBudget = REQUEST, pointer: str = "/schema") -> None:
    """Raise InvalidRequest for a schema that is over the budget, or has a pattern that cannot be matched in linear
    time (look-around, back references). Whether it is valid otherwise is not looked at."""
    if not isinstance(schema, (dict, bool)):
        raise InvalidRequest("the schema is neither an object nor a boolean", pointer)
    if isinstance(schema, bool):
        return
    written = _Written(schema, budget, pointer)
    if len(json.dumps(schema, ensure_ascii=False).encode("utf-8", "replace")) > budget.nbytes:
        raise InvalidRequest(f"the schema has more than {budget.nbytes} bytes", pointer)
    options = linear(len(written.patterns))
    for pattern, place in written.patterns.items():
        if not _compiles(pattern, options):
            raise InvalidRequest("the pattern cannot be matched in linear time, or repeats too much", place())
    _Followed(schema, budget, written).check()


def linear(patterns: int) -> jsonschema_rs.RegexOptions:
    """Automata instead of backtracking, so small that so many of them stay within bounds."""
    size = max(4096, min(_AUTOMATON_BYTES, _AUTOMATA_BYTES // max(1, patterns)))
    return jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=size)


def depth_of(value: Any, most: int) -> int:
    """How deep a JSON value is nested; beyond `most` it is not looked at."""
    level, depth = [value], 0
    while level and depth <= most:
        level = [item for node in level for item in _items(node)]
        depth += bool(level)
    return depth


def inner(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas of the values inside the value that a schema is about."""
    return _under(schema, _INNER_ONE, _INNER_LIST, _INNER_MAP)


def same(schema: dict[str, Any], references: References) -> Iterator[Any]:
    """The schemas that apply to the very value which a schema is about."""
    for keyword in _REFERENCES:
        if keyword in schema:
            yield references.target(schema, keyword)
    yield from _under(schema, _SAME_ONE, _SAME_LIST, _SAME_MAP)


def _under(
    schema: Mapping[str, Any], one: Iterable[str], several: Iterable[str], named: Iterable[str]
) -> Iterator[Any]:
    """The schemas under keywords that have one, a list of them, or some by name."""
    for keyword in one:
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword]
    for keyword in several:
        if isinstance(schema.get(keyword), list):
            yield from schema[keyword]
    for keyword in named:
        if isinstance(schema.get(keyword), dict):
            yield from schema[keyword].values()


def _items(node: Any) -> Collection[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _compiles(pattern: str, options: jsonschema_rs.RegexOptions) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True


class _Place:
    """Where a node stands, as a way back to the root: pointers are made of the few that are refused."""

    __slots__ = ("name", "parent")

    def __init__(self, parent: _Place | None, name: str) -> None:
        self.parent = parent
        self.name = name

    def __call__(self) -> str:
        parts: list[str] = []
        place: _Place | None = self
        while place is not None:
            parts.append(place.name if place.parent is None else json_pointer(place.name))
            place = place.parent
        return "".join(reversed(parts))[:500]


class _Written:
    """A schema as it is written: `places` of its objects by identity, and its `patterns` with the first place of each.

    Raises InvalidRequest.
    """

    def __init__(self, schema: dict[str, Any], budget: SchemaBudget, pointer: str) -> None:
        self.places: dict[int, _Place] = {}
        self.patterns: dict[str, _Place] = {}
        self._budget = budget
        stack: list[tuple[Any, _Place, int]] = [(schema, _Place(None, pointer), 0)]
        count = 0
        while stack:
            node, place, depth = stack.pop()
            count += 1
            if count > budget.places:
                raise InvalidRequest(f"the schema has more than {budget.places} places", place())
            if depth > budget.depth:
                raise InvalidRequest(f"the schema is nested more than {budget.depth} levels deep", place())
            if isinstance(node, dict):
                self.places[id(node)] = place
                self._look(node, place)
                stack.extend((item, _Place(place, str(name)), depth + 1) for name, item in node.items())
            elif isinstance(node, list):
                stack.extend((item, _Place(place, str(index)), depth + 1) for index, item in enumerate(node))

    def _look(self, node: dict[str, Any], place: _Place) -> None:
        budget, values = self._budget, node.get("enum")
        if isinstance(values, list) and len(values) > budget.enum:
            raise InvalidRequest(f"an enumeration may have {budget.enum} values", _Place(place, "enum")())
        if isinstance(node.get("pattern"), str):
            self._add(node["pattern"], _Place(place, "pattern"))
        if isinstance(node.get("patternProperties"), dict):
            for pattern in node["patternProperties"]:
                self._add(pattern, _Place(_Place(place, "patternProperties"), pattern))

    def _add(self, pattern: str, place: _Place) -> None:
        self.patterns.setdefault(pattern, place)
        if len(pattern) > self._budget.pattern_chars:
            raise InvalidRequest(f"a pattern may have {self._budget.pattern_chars} characters", place())
        if len(self.patterns) > self._budget.patterns:
            raise InvalidRequest(f"there are more than {self._budget.patterns} patterns", place())


class _Followed:
    """A schema with its references followed. What has been counted once is not counted again."""

    def __init__(self, schema: dict[str, Any], budget: SchemaBudget, written: _Written) -> None:
        self._budget = budget
        self._written = written
        self._root = schema
        self._references = References(schema)
        self._met: dict[int, tuple[int, int]] = {}  # places that one value meets, how many one behind the other
        self._all: dict[int, int] = {}

    def check(self) -> None:
        """Raise InvalidRequest for a place that means too many."""
        self._meets(self._root, 0, set())
        stack, seen = [self._root], {id(self._root)}
        while stack:
            node = stack.pop()
            self._meets(node, 0, set())
            for child in (*inner(node), *same(node, self._references)):
                if isinstance(child, dict) and id(child) not in seen:
                    seen.add(id(child))
                    stack.append(child)
        if self._budget.followed is not None:
            self._expand(self._root, 0, set())

    def _meets(self, node: dict[str, Any], depth: int, active: set[int]) -> tuple[int, int]:
        """How many places a value of `node` meets, and the longest chain of them. A circle has no end of them."""
        known = self._met.get(id(node))
        if known is not None:
            return known
        if id(node) in active:
            raise self._refused(node, "the schema applies itself to one and the same value")
        if depth > self._budget.chain:
            raise self._refused(node, f"more than {self._budget.chain} schemas one behind the other apply to one value")
        active.add(id(node))
        count, longest = 1, 0
        for child in same(node, self._references):
            if isinstance(child, dict):
                more, chain = self._meets(child, depth + 1, active)
                count, longest = count + more, max(longest, chain + 1)
        active.discard(id(node))
        if count > self._budget.at_once:
            raise self._refused(node, f"more than {self._budget.at_once} schemas apply to one value")
        if longest > self._budget.chain:
            raise self._refused(node, f"more than {self._budget.chain} schemas one behind the other apply to one value")
        self._met[id(node)] = count, longest
        return count, longest

    def _expand(self, node: dict[str, Any], depth: int, active: set[int]) -> int:
        """How many places there are at and below `node`."""
        known = self._all.get(id(node))
        if known is not None:
            return known
        assert self._budget.followed is not None
        if id(node) in active:
            raise self._refused(node, "the schema is recursive")
        if depth > self._budget.depth:
            raise self._refused(node, f"the schema is nested more than {self._budget.depth} levels deep")
        active.add(id(node))
        count = 1
        for child in (*same(node, self._references), *inner(node)):
            count += self._expand(child, depth + 1, active) if isinstance(child, dict) else 1
        active.discard(id(node))
        if count > self._budget.followed:
            raise self._refused(node, "the schema is too large, with its references followed")
        self._all[id(node)] = count
        return count

    def _refused(self, node: dict[str, Any], why: str) -> InvalidRequest:
        place = self._written.places.get(id(node))
        return InvalidRequest(why, place() if place else "")
