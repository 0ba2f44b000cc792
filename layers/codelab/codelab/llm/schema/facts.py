"""What a schema says about one place.

Several schemas apply to a place: its own, those it refers to, its `allOf`, the branch of a union. `gather` lists them;
`Facts` is their conjunction, keyword by keyword.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codelab.llm.schema.keywords import (
    CONSTRAINTS,
    FORMATS,
    IMPLIED_TYPES,
    TYPES,
    count,
    in_words,
    number,
    safe_pattern,
    short_json,
)
from codelab.llm.schema.nodes import identity, json_type
from codelab.llm.schema.references import References
from codelab.llm.schema.strict import StepCounter

#: A schema as it was given, an object or a boolean; and several that apply to the same value.
Raw = Any
Raws = tuple[Raw, ...]


class Conjunction:
    """The schemas of a place.

    plain: those that apply. groups: their unions. hints: schemas that only suggest properties. false: whether one
    allows nothing.
    """

    __slots__ = ("false", "groups", "hints", "plain")

    def __init__(self) -> None:
        self.plain: list[dict[str, Any]] = []
        self.groups: list[tuple[str, list[Raws]]] = []
        self.hints: list[Raw] = []
        self.false = False


def gather(
    raws: Iterable[Raw], references: References, legacy: bool, steps: StepCounter, base: Conjunction | None = None
) -> Conjunction:
    """List the schemas that apply, following references and `allOf`. The unions stay groups of branches."""
    conjunction = base or Conjunction()
    visited_ids = {id(raw) for raw in conjunction.plain}
    stack = [*raws][::-1]
    while stack:
        raw = stack.pop()
        steps.spend()
        if raw is False:
            conjunction.false = True
            continue
        if not isinstance(raw, dict) or id(raw) in visited_ids:
            continue
        visited_ids.add(id(raw))
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in raw:
                target = references.target(raw, keyword)
                if target is not None:
                    stack.append(target)
        if legacy and "$ref" in raw:
            continue
        conjunction.plain.append(raw)
        parts = raw.get("allOf")
        if isinstance(parts, list):
            stack.extend(reversed(parts))
        for keyword in ("anyOf", "oneOf"):
            branches = raw.get(keyword)
            if isinstance(branches, list) and branches:
                conjunction.groups.append((keyword, [(branch,) for branch in branches]))
        condition = raw.get("if")
        if condition is not None and ("then" in raw or "else" in raw):
            then_schema, else_schema = raw.get("then", True), raw.get("else", True)
            conjunction.groups.append(("if", [(condition, then_schema), (else_schema,)]))
        for keyword in ("dependentSchemas", "dependencies"):
            schemas = raw.get(keyword)
            if isinstance(schemas, dict):
                conjunction.hints.extend(schema for schema in schemas.values() if isinstance(schema, dict))
    return conjunction


def constrains(raw: Raw) -> bool:
    """Whether a schema constrains the value, beyond describing it."""
    return raw is False or (isinstance(raw, dict) and not CONSTRAINTS.isdisjoint(raw))


class Part:
    """The object keywords of one schema. They stay together because `additionalProperties` depends on the others."""

    __slots__ = ("additional", "patterns", "properties")

    def __init__(self, properties: dict[str, Raw], patterns: dict[str, Raw], additional: Raw) -> None:
        self.properties = properties
        self.patterns = patterns
        self.additional = additional  # None without the keyword


class Facts:
    """The conjunction of the schemas of one place."""

    __slots__ = (
        "bounds", "closed_items", "format", "implied_types", "item_max", "item_min", "items", "key_max", "key_min",
        "keys", "own_description", "parts", "pattern", "prefix", "raws", "required", "types",
        "unevaluated_schema", "values",
    )  # fmt: skip

    def __init__(self, raws: list[dict[str, Any]]) -> None:
        self.raws = raws
        self.types: set[str] | None = None
        self.implied_types: list[str] = []
        self.values: list[Any] | None = None
        self.bounds: dict[str, Any] = {}
        self.pattern: str | None = None
        self.format: str | None = None
        self.items: list[Raw] = []
        self.prefix: list[list[Raw]] = []
        self.closed_items = False
        self.item_min = 0
        self.item_max: int | None = None
        self.parts: list[Part] = []
        self.required: dict[str, None] = {}
        self.keys: list[Raw] = []
        self.key_min = 0
        self.key_max: int | None = None
        self.unevaluated_schema: Raw = None
        self.own_description: str = ""
        for raw in raws:
            self._add(raw)
        if self.item_max is not None and self.item_max < self.item_min:
            self._lose("array")
        if self.key_max is not None and self.key_max < self.key_min:
            self._lose("object")
        if self.bounds and self._empty_range():
            self._lose("integer", "number")

    def _lose(self, *types: str) -> None:
        """Exclude these types: they have no value left."""
        self.types = (set(TYPES) if self.types is None else self.types) - set(types)

    def _empty_range(self) -> bool:
        bounds = self.bounds
        low = max((bounds[k] for k in ("minimum", "exclusiveMinimum") if k in bounds), default=None)
        high = min((bounds[k] for k in ("maximum", "exclusiveMaximum") if k in bounds), default=None)
        if low is None or high is None:
            return False
        open_end = bounds.get("exclusiveMinimum") == low or bounds.get("exclusiveMaximum") == high
        return bool(low > high or (low == high and open_end))

    def _add(self, raw: dict[str, Any]) -> None:
        for keyword, value in raw.items():
            handler = _HANDLERS.get(keyword)
            if handler is not None:
                handler(self, keyword, value, raw)
            implied_type = IMPLIED_TYPES.get(keyword)
            if implied_type is not None and implied_type not in self.implied_types:
                self.implied_types.append(implied_type)
        if "properties" in raw or "patternProperties" in raw or "additionalProperties" in raw:
            properties, patterns = raw.get("properties"), raw.get("patternProperties")
            additional = raw.get("additionalProperties")
            self.parts.append(
                Part(
                    properties if isinstance(properties, dict) else {},
                    patterns if isinstance(patterns, dict) else {},
                    additional if isinstance(additional, (dict, bool)) else None,
                )
            )

    def _type(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        types = {name for name in names if isinstance(name, str) and name in TYPES}
        if not types or len(types) < len(names):
            return  # an unknown type, such as "any", says nothing
        if "number" in types:
            types.add("integer")
        self.types = types if self.types is None else self.types & types

    def _values(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if not isinstance(value, list):
            return
        if self.values is None:
            self.values = value
        else:
            keep = set(map(identity, value))
            self.values = [item for item in self.values if identity(item) in keep]

    def _const(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        self._values(keyword, [value], raw)

    def _bound(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        value = number(value)
        if value is None:
            return
        exclusive_keyword = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}.get(keyword, keyword)
        if raw.get(exclusive_keyword) is True:  # draft 4
            keyword = exclusive_keyword
        bound = self.bounds.get(keyword)
        tighten = max if keyword.endswith("inimum") else min
        self.bounds[keyword] = value if bound is None else tighten(bound, value)

    def _multiple(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        value = number(value)
        if value is not None and value > 0 and "multipleOf" not in self.bounds:
            self.bounds["multipleOf"] = value

    def _pattern(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if self.pattern is None and safe_pattern(value):
            self.pattern = value

    def _format(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if self.format is None and isinstance(value, str) and value in FORMATS:
            self.format = value

    def _items(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if isinstance(value, list):
            self.prefix.append(value)
            self._rest(raw.get("additionalItems"))
        elif value is not None:
            self._rest(value)

    def _rest(self, value: Any) -> None:
        if value is False:
            self.closed_items = True
        elif isinstance(value, dict):
            self.items.append(value)

    def _prefix(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if isinstance(value, list):
            self.prefix.append(value)

    def _unevaluated_items(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        # Other keywords may evaluate items; it only closes the array if none of them can.
        if value is False and self.prefix and not self.items and "contains" not in raw:
            self.closed_items = True

    def _minimum(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        name = "item_min" if keyword == "minItems" else "key_min"
        setattr(self, name, max(getattr(self, name), count(value) or 0))

    def _maximum(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        new_maximum = count(value)
        if new_maximum is not None:
            name = "item_max" if keyword == "maxItems" else "key_max"
            maximum = getattr(self, name)
            setattr(self, name, new_maximum if maximum is None else min(maximum, new_maximum))

    def _required(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if isinstance(value, list):
            self.required.update(dict.fromkeys(name for name in value if isinstance(name, str)))

    def _keys(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if isinstance(value, (dict, bool)):
            self.keys.append(value)

    def _unevaluated(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if isinstance(value, (dict, bool)):
            self.unevaluated_schema = value

    def _description(self, keyword: str, value: Any, raw: dict[str, Any]) -> None:
        if not self.own_description and isinstance(value, str):
            self.own_description = value

    def description(self, type_: str) -> str:
        """The description of a value of one type, with the keywords that strict mode does not have."""
        notes: list[str] = []
        for raw in self.raws:
            notes += in_words(raw, type_)
            if type_ == "string":
                pattern, format_ = raw.get("pattern"), raw.get("format")
                if pattern is not None and pattern != self.pattern:
                    notes.append(f"pattern: {short_json(pattern)}")
                if format_ is not None and format_ != self.format:
                    notes.append(f"format: {short_json(format_)}")
        if not notes:
            return self.own_description
        extra = "; ".join(dict.fromkeys(notes))
        return f"{self.own_description} ({extra})" if self.own_description else extra

    def allowed_values(self) -> list[Any] | None:
        """The values of `enum` and `const` that the types allow, without duplicates; None for any value."""
        if self.values is None:
            return None
        types = self.types
        values, keys = [], set()
        for value in self.values:
            if types is not None and json_type(value) not in types:
                continue
            key = identity(value)
            if key not in keys:
                keys.add(key)
                values.append(value)
        return values


_HANDLERS: dict[str, Any] = {
    "type": Facts._type,
    "enum": Facts._values,
    "const": Facts._const,
    "minimum": Facts._bound,
    "maximum": Facts._bound,
    "exclusiveMinimum": Facts._bound,
    "exclusiveMaximum": Facts._bound,
    "multipleOf": Facts._multiple,
    "pattern": Facts._pattern,
    "format": Facts._format,
    "items": Facts._items,
    "prefixItems": Facts._prefix,
    "unevaluatedItems": Facts._unevaluated_items,
    "minItems": Facts._minimum,
    "maxItems": Facts._maximum,
    "required": Facts._required,
    "propertyNames": Facts._keys,
    "minProperties": Facts._minimum,
    "maxProperties": Facts._maximum,
    "unevaluatedProperties": Facts._unevaluated,
    "description": Facts._description,
}
