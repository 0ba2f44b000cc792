"""A valid, deterministic instance of a JSON Schema.

The walk is bounded by construction: every schema node has a smallest height (how deep its smallest instance is),
found before anything is generated; beyond a depth or size limit only the smallest alternative is taken. What one walk
gets wrong (`oneOf`, `not`, `if`, conflicting `allOf`) is caught by validating the whole and walking again with other
choices.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from codelab_local.demo_model import strings
from codelab_local.demo_model.merging import Schema, both, merge

Prefer = Callable[[str, tuple[Any, ...]], Any]

_INFINITE = 10**6
_DEEP = 4
_LARGE = 80
_TRIES = 24


def instance(schema: Any, prefer: Prefer | None = None) -> Any:
    """An instance of `schema`. `prefer(property name, choices)` may pick an enum value, or a text (no choices).

    The best effort is returned when nothing valid was found (an unsatisfiable schema, a pattern beyond us).
    """
    try:
        valid = jsonschema_rs.validator_for(schema).is_valid
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError):
        valid = None
    first: Any = None
    for attempt in range(_TRIES if valid else 1):
        try:
            value = _Walk(schema, prefer, attempt).run()
        except RecursionError:
            continue
        if valid is None or valid(value):
            return value
        if attempt == 0:
            first = value
    return first


@dataclass
class _Walk:
    root: Any
    prefer: Prefer | None
    attempt: int
    size: int = 0

    def run(self) -> Any:
        self.heights: dict[int, int] = {}
        self.ids = frozenset(id(node) for node in _subschemas(self.root))
        self._settle_heights()
        return self._value(self.root, 0, "")

    # -- references and heights

    def _target(self, reference: str) -> Any:
        if reference in {"#", ""}:
            return self.root
        node = self.root
        if not reference.startswith("#/"):
            wanted = reference.removeprefix("#")
            return next((sub for sub in _subschemas(self.root) if wanted in (sub.get("$anchor"), sub.get("$id"))), True)
        for part in reference[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~").replace("%25", "%")
            try:
                node = node[int(part)] if isinstance(node, list) else node[part]
            except (KeyError, IndexError, ValueError, TypeError):
                return True
        return node

    def _settle_heights(self) -> None:
        nodes = list(_subschemas(self.root))
        for _ in range(len(nodes) + 1):
            changed = False
            for node in nodes:
                height = self._height_once(node)
                if height < self.heights.get(id(node), _INFINITE):
                    self.heights[id(node)] = height
                    changed = True
            if not changed:
                return

    def _height(self, node: Any) -> int:
        if not isinstance(node, Mapping):
            return _INFINITE if node is False else 1
        known = self.heights.get(id(node))
        return self._height_once(node) if known is None and id(node) not in self.ids else known or _INFINITE

    def _height_once(self, node: Schema) -> int:
        if "const" in node or "enum" in node:
            return 1
        parts = [1]
        if isinstance(node.get("$ref"), str):
            parts.append(self._height(self._target(node["$ref"])))
        parts += [self._height(sub) for sub in node.get("allOf", ())]
        for key in ("anyOf", "oneOf"):
            if node.get(key):
                parts.append(min(self._height(sub) for sub in node[key]))
        kinds = _kinds(node)
        if "object" in kinds and len(kinds) == 1:
            properties = node.get("properties", {})
            parts += [1 + self._height(properties[name]) for name in node.get("required", ()) if name in properties]
        if "array" in kinds and len(kinds) == 1 and node.get("minItems", 0) > 0:
            tuple_items = node.get("prefixItems", ())
            parts += [1 + self._height(sub) for sub in tuple_items[: node["minItems"]]]
            if node["minItems"] > len(tuple_items) and isinstance(node.get("items"), Mapping):
                parts.append(1 + self._height(node["items"]))
        return min(_INFINITE, max(parts))

    # -- values

    def _small(self, depth: int) -> bool:
        return depth > _DEEP or self.size > _LARGE

    def _choose(self, options: list[Any], depth: int) -> Any:
        possible = [option for option in options if self._height(option) < _INFINITE] or options
        if self._small(depth):
            return min(possible, key=self._height)
        return possible[(self.attempt // 2) % len(possible)]

    def _value(self, node: Any, depth: int, name: str) -> Any:
        self.size += 1
        if not isinstance(node, Mapping):
            return None if node is False else f"demonstration {name}".strip()
        node = self._flat(node, depth)
        if "const" in node:
            return node["const"]
        if node.get("enum"):
            return self._enum(node, name)
        kinds = _kinds(node)
        if not kinds:
            kinds = ["string"]
        informative = [kind for kind in kinds if kind != "null"] or kinds
        small = self._small(depth) and "null" in kinds
        kind = "null" if small else informative[(self.attempt // 2) % len(informative)]
        make: dict[str, Callable[[Schema, int, str], Any]] = {
            "object": self._object, "array": self._array, "string": self._string,
        }  # fmt: skip
        if kind in make:
            return make[kind](node, depth, name)
        if kind in {"integer", "number"}:
            return number(node, kind == "integer", self.attempt)
        return None if kind == "null" else self.attempt % 4 != 3

    def _flat(self, node: Schema, depth: int) -> Schema:
        """`node` with references, allOf and one alternative of each union folded in."""
        for _ in range(50):
            if isinstance(node.get("$ref"), str):
                target = self._target(node["$ref"])
                rest = {key: value for key, value in node.items() if key not in {"$ref", "$defs", "definitions"}}
                node = merge(target, rest) if isinstance(target, Mapping) else rest
                if target is False:
                    return {"enum": [None]}
            elif node.get("allOf"):
                rest = {key: value for key, value in node.items() if key != "allOf"}
                for sub in node["allOf"]:
                    if isinstance(sub, Mapping):
                        rest = merge(rest, sub)
                node = rest
            elif node.get("anyOf") or node.get("oneOf"):
                key = "anyOf" if node.get("anyOf") else "oneOf"
                chosen = self._choose(list(node[key]), depth)
                rest = {other: value for other, value in node.items() if other != key}
                node = merge(rest, chosen) if isinstance(chosen, Mapping) else rest
            elif isinstance(node.get("if"), Mapping):
                rest = {key: value for key, value in node.items() if key not in {"if", "then", "else"}}
                yes = self.attempt % 2 == 0
                branch = node.get("then" if yes else "else", True)
                node = merge(rest, node["if"]) if yes else rest
                node = merge(node, branch) if isinstance(branch, Mapping) else node
            else:
                break
        return node

    def _enum(self, node: Schema, name: str) -> Any:
        kinds = _kinds(node) if "type" in node else []
        values = [value for value in node["enum"] if not kinds or _is_kind(value, kinds)] or list(node["enum"])
        if self.prefer is not None and self.attempt == 0:
            chosen = self.prefer(name, tuple(values))
            if any(chosen is value or (chosen == value and type(chosen) is type(value)) for value in values):
                return chosen
        return values[self.attempt % len(values)]

    def _string(self, node: Schema, depth: int, name: str) -> str:
        wanted = None
        if self.prefer is not None and not ({"pattern", "format", "maxLength"} & node.keys()):
            wanted = self.prefer(name, ())
        text = wanted if isinstance(wanted, str) else f"demonstration {name}".strip()
        return strings.string(node, text, self.attempt)

    def _object(self, node: Schema, depth: int, name: str) -> dict[str, Any]:
        properties: Mapping[str, Any] = node.get("properties", {})
        required = list(node.get("required", ()))
        for cause, effects in node.get("dependentRequired", {}).items():
            if cause in required:
                required += [effect for effect in effects if effect not in required]
        limit = node.get("maxProperties", _INFINITE)
        everything = self.attempt % 2 == 0 and not self._small(depth)
        value: dict[str, Any] = {}
        for key, sub in properties.items():
            wanted = key in required or (everything and len(required) < limit and len(value) < limit)
            if wanted and (key in required or (sub is not False and self._height(sub) < _INFINITE)):
                if key not in required and len(value) + sum(one not in value for one in required) >= limit:
                    continue
                value[key] = self._value(self._with_patterns(node, key, sub), depth + 1, key)
        for key in required:
            if key not in value:
                value[key] = self._value(self._other(node, key), depth + 1, key)
        for index in range(1, 200):
            if len(value) >= node.get("minProperties", 0):
                break
            key = self._new_name(node, index)
            if key not in value:
                value[key] = self._value(self._other(node, key), depth + 1, key)
        return value

    def _with_patterns(self, node: Schema, key: str, sub: Any) -> Any:
        for pattern, extra in node.get("patternProperties", {}).items():
            if _matches(pattern, key):
                sub = both(sub, extra)
        return sub

    def _other(self, node: Schema, key: str) -> Any:
        matched = [sub for pattern, sub in node.get("patternProperties", {}).items() if _matches(pattern, key)]
        if not matched:
            return node.get("additionalProperties", True)
        result = matched[0]
        for sub in matched[1:]:
            result = both(result, sub)
        return result

    def _new_name(self, node: Schema, index: int) -> str:
        names = node.get("propertyNames")
        if isinstance(names, Mapping) and names:
            flat = self._flat(names, 0)
            if flat.get("enum"):
                return str(flat["enum"][(index - 1) % len(flat["enum"])])
            return strings.string(flat, f"key{index}", index)
        if node.get("additionalProperties") is False and node.get("patternProperties"):
            pattern = list(node["patternProperties"])[index % len(node["patternProperties"])]
            return strings.string({"pattern": pattern}, f"key{index}", index)
        return f"key{index}"

    def _array(self, node: Schema, depth: int, name: str) -> list[Any]:
        prefix = list(node.get("prefixItems", ()))
        items = node.get("items", True)
        if isinstance(items, list):  # draft 7's tuples
            prefix, items = items, node.get("additionalItems", True)
        low = node.get("minItems", 0)
        contains = node.get("contains")
        count = low if self._small(depth) or self.attempt % 2 else max(low, len(prefix) or 1)
        if isinstance(items, Mapping) and self._height(items) >= _INFINITE:
            count = low
        if items is False:
            count = min(count, len(prefix))
        count = min(count, node.get("maxItems", _INFINITE))
        value = [
            self._value(prefix[index] if index < len(prefix) else items, depth + 1, name) for index in range(count)
        ]
        if isinstance(contains, Mapping):
            matching = both(items, contains) if isinstance(items, Mapping) else contains
            need = node.get("minContains", 1)
            value = value[: max(0, node.get("maxItems", _INFINITE) - need)]
            value += [self._value(matching, depth + 1, name) for _ in range(need)]
        if node.get("uniqueItems"):
            value = self._unique(value, prefix, items, depth, name)
        return value

    def _unique(self, value: list[Any], prefix: list[Any], items: Any, depth: int, name: str) -> list[Any]:
        unique: list[Any] = []
        before = self.attempt
        for index, candidate in enumerate(value):
            for shift in range(1, 80):
                if not any(_same(candidate, other) for other in unique):
                    break
                self.attempt = before + shift
                candidate = self._value(prefix[index] if index < len(prefix) else items, depth + 1, name)
            unique.append(candidate)
        self.attempt = before
        return unique


def number(node: Schema, integer: bool, attempt: int) -> int | float:
    """A number within `node`'s bounds, a multiple of what it asks for."""
    low = node.get("minimum", -math.inf)
    high = node.get("maximum", math.inf)
    step = node.get("multipleOf")
    open_low, open_high = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    if isinstance(open_low, bool):  # draft 4
        open_low, low = (low, -math.inf) if open_low else (None, low)
    if isinstance(open_high, bool):
        open_high, high = (high, math.inf) if open_high else (None, high)
    smallest = 1 if integer else min(1.0, _gap(low, open_low, high, open_high))
    if open_low is not None:
        low = max(low, math.floor(open_low) + 1 if integer else open_low + smallest)
    if open_high is not None:
        high = min(high, math.ceil(open_high) - 1 if integer else open_high - smallest)
    start: float = 1 + attempt
    if not low <= start <= high:
        start = low + attempt if low + attempt <= high else low if low > -math.inf else high
    if step:
        start = math.ceil(start / step) * step
        if start > high:
            start = math.floor(high / step) * step
    if integer or float(start).is_integer():
        return math.ceil(start) if start < high or float(start).is_integer() else math.floor(start)
    return start


def _gap(low: float, open_low: float | None, high: float, open_high: float | None) -> float:
    bottom = max(low, open_low if open_low is not None else -math.inf)
    top = min(high, open_high if open_high is not None else math.inf)
    return (top - bottom) / 4 if math.isfinite(top) and math.isfinite(bottom) else 1.0


def _kinds(node: Schema) -> list[str]:
    kinds = node.get("type")
    if isinstance(kinds, str):
        return [kinds]
    if isinstance(kinds, list):
        return [str(kind) for kind in kinds]
    if {"properties", "required", "patternProperties", "minProperties", "propertyNames"} & node.keys():
        return ["object"]
    if {"items", "prefixItems", "minItems", "contains"} & node.keys():
        return ["array"]
    if {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"} & node.keys():
        return ["number"]
    return ["string"] if {"pattern", "format", "minLength", "maxLength"} & node.keys() else []


def _is_kind(value: Any, kinds: list[str]) -> bool:
    actual = {bool: "boolean", str: "string", type(None): "null", list: "array", dict: "object"}.get(
        type(value), "number"
    )
    if actual == "number":
        return "number" in kinds or ("integer" in kinds and float(value).is_integer())
    return actual in kinds


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return False


def _subschemas(root: Any) -> Iterator[Mapping[str, Any]]:
    """Every object under `root`, schemas and what is not one alike: too many do no harm."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
