"""The budget of a schema from outside the program.

A schema is a program that runs over each answer. A small one can cause any amount of work, through references that
double, patterns that repeat, or enumerations. This module therefore counts places (subschemas) as they are written, as
they apply to one value, and with all references followed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from codelab.llm.errors import InvalidRequest, json_pointer
from codelab.llm.schema.references import References

#: Keywords by what they hold: schemas of the same value, then of values inside it; one, a list or a map of them.
_SAME_ONE = ("not", "if", "then", "else")
_SAME_LIST = ("allOf", "anyOf", "oneOf")
_SAME_MAP = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_INNER_ONE = ("additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems",
              "unevaluatedItems", "contains", "contentSchema")  # fmt: skip
_INNER_LIST = ("prefixItems", "items")
_INNER_MAP = ("properties", "patternProperties")

#: The size of all compiled patterns together, and of one of them, in bytes.
_AUTOMATA_BYTES, _AUTOMATON_BYTES = 4 << 20, 1 << 20


@dataclass(frozen=True, slots=True)
class SchemaBudget:
    """The limits on a schema.

    nbytes: bytes as JSON. places: JSON values. depth: levels of nesting. enum: values of one enumeration. patterns:
    different patterns. pattern_chars: characters of each. per_value: subschemas that apply to one value, with
    references followed. chain: how many of these in a row. expanded_places: places with all references followed, which
    forbids recursion; None allows it.
    """

    nbytes: int = 200_000
    places: int = 10_000
    depth: int = 100
    enum: int = 5_000
    patterns: int = 250
    pattern_chars: int = 2_000
    per_value: int = 1_000
    chain: int = 50
    expanded_places: int | None = None


#: For the schemas of Requests from outside.
REQUEST = SchemaBudget()


def check_schema(schema: Any, budget: SchemaBudget = REQUEST, pointer: str = "/schema") -> None:
    """Raise InvalidRequest for a schema that exceeds the budget, or whose patterns cannot be matched in linear time.

    Patterns with look-around or back references cannot. pointer: where the schema is in the input. Does not check
    whether the schema is valid.
    """
    if not isinstance(schema, (dict, bool)):
        raise InvalidRequest("the schema is neither an object nor a boolean", pointer)
    if isinstance(schema, bool):
        return
    index = _SchemaIndex(schema, budget, pointer)
    if len(json.dumps(schema, ensure_ascii=False).encode("utf-8", "replace")) > budget.nbytes:
        raise InvalidRequest(f"the schema has more than {budget.nbytes} bytes", pointer)
    options = linear_patterns(len(index.patterns))
    for pattern, place in index.patterns.items():
        if not _compiles(pattern, options):
            raise InvalidRequest("the pattern cannot be matched in linear time, or repeats too much", place())
    _PlaceCounter(schema, budget, index).check()


def linear_patterns(patterns: int) -> jsonschema_rs.RegexOptions:
    """Options to match patterns in linear time, with a size limit that leaves room for this many of them."""
    size = max(4096, min(_AUTOMATON_BYTES, _AUTOMATA_BYTES // max(1, patterns)))
    return jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=size)


def depth_of(value: Any, max_depth: int) -> int:
    """How deeply a JSON value is nested. Stops counting beyond `max_depth`."""
    level, depth = [value], 0
    while level and depth <= max_depth:
        level = [item for node in level for item in _items(node)]
        depth += bool(level)
    return depth


def inner_values(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The subschemas for values inside the schema's value."""
    return _under(schema, _INNER_ONE, _INNER_LIST, _INNER_MAP)


def same_value(schema: dict[str, Any], references: References) -> Iterator[Any]:
    """The subschemas and references for the schema's value itself."""
    for keyword in _REFERENCES:
        if keyword in schema:
            yield references.target(schema, keyword)
    yield from _under(schema, _SAME_ONE, _SAME_LIST, _SAME_MAP)


def _under(
    schema: Mapping[str, Any], single_keywords: Iterable[str], list_keywords: Iterable[str], map_keywords: Iterable[str]
) -> Iterator[Any]:
    """The schemas under keywords with one schema, a list or a map."""
    for keyword in single_keywords:
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword]
    for keyword in list_keywords:
        if isinstance(schema.get(keyword), list):
            yield from schema[keyword]
    for keyword in map_keywords:
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
    """The place of a node. A call returns its JSON Pointer, which is only needed for an error."""

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


class _SchemaIndex:
    """The places of a schema's objects by id, and its patterns with the first place of each.

    Raises InvalidRequest if the schema exceeds the budget.
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


class _PlaceCounter:
    """Counts the places of a schema with references followed, each once."""

    def __init__(self, schema: dict[str, Any], budget: SchemaBudget, index: _SchemaIndex) -> None:
        self._budget = budget
        self._index = index
        self._root = schema
        self._references = References(schema)
        self._known_applied: dict[
            int, tuple[int, int]
        ] = {}  # by id: places that apply to one value, and how many in a row
        self._known_sizes: dict[int, int] = {}

    def check(self) -> None:
        """Raise InvalidRequest if the schema exceeds the budget."""
        self._applied(self._root, 0, set())
        stack, visited_ids = [self._root], {id(self._root)}
        while stack:
            node = stack.pop()
            self._applied(node, 0, set())
            for child in (*inner_values(node), *same_value(node, self._references)):
                if isinstance(child, dict) and id(child) not in visited_ids:
                    visited_ids.add(id(child))
                    stack.append(child)
        if self._budget.expanded_places is not None:
            self._expand(self._root, 0, set())

    def _applied(self, node: dict[str, Any], depth: int, ancestor_ids: set[int]) -> tuple[int, int]:
        """How many places apply to a value of `node`, and the longest chain of them."""
        cached_counts = self._known_applied.get(id(node))
        if cached_counts is not None:
            return cached_counts
        if id(node) in ancestor_ids:
            raise self._error(node, "the schema applies itself to the same value")
        if depth > self._budget.chain:
            raise self._error(node, f"more than {self._budget.chain} schemas in a row apply to one value")
        ancestor_ids.add(id(node))
        count, longest = 1, 0
        for child in same_value(node, self._references):
            if isinstance(child, dict):
                child_count, chain = self._applied(child, depth + 1, ancestor_ids)
                count, longest = count + child_count, max(longest, chain + 1)
        ancestor_ids.discard(id(node))
        if count > self._budget.per_value:
            raise self._error(node, f"more than {self._budget.per_value} schemas apply to one value")
        if longest > self._budget.chain:
            raise self._error(node, f"more than {self._budget.chain} schemas in a row apply to one value")
        self._known_applied[id(node)] = count, longest
        return count, longest

    def _expand(self, node: dict[str, Any], depth: int, ancestor_ids: set[int]) -> int:
        """How many places are at and below `node`."""
        cached_count = self._known_sizes.get(id(node))
        if cached_count is not None:
            return cached_count
        assert self._budget.expanded_places is not None
        if id(node) in ancestor_ids:
            raise self._error(node, "the schema is recursive")
        if depth > self._budget.depth:
            raise self._error(node, f"the schema is nested more than {self._budget.depth} levels deep")
        ancestor_ids.add(id(node))
        count = 1
        for child in (*same_value(node, self._references), *inner_values(node)):
            count += self._expand(child, depth + 1, ancestor_ids) if isinstance(child, dict) else 1
        ancestor_ids.discard(id(node))
        if count > self._budget.expanded_places:
            raise self._error(node, "the schema is too large, with its references followed")
        self._known_sizes[id(node)] = count
        return count

    def _error(self, node: dict[str, Any], message: str) -> InvalidRequest:
        place = self._index.places.get(id(node))
        return InvalidRequest(message, place() if place else "")
