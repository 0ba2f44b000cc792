"""An instance of any JSON Schema: made by walking the schema, kept if it validates, else made again otherwise.

jsonschema-rs brings the schema into its canonical form first, in which little but `type`, `anyOf`, `$ref` and bounds is
left. What the walk does not take into account (`not`, a look-ahead in a pattern) is left to the next attempts.
"""

import math
import random
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import rstr

_ATTEMPTS = 60
#: Deeper or larger than this, only what the schema insists on, and of alternatives the flattest one.
_DEEP, _LARGE = 4, 80
_ENDLESS, _LEVELS = 99, 30
_FORMATS = {
    "date-time": "2025-01-02T12:00:00Z", "date": "2025-01-02", "time": "12:00:00Z", "duration": "P1D",
    "email": "demo@example.com", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
    "uri": "https://example.com/demo", "iri": "https://example.com/demo", "regex": "^demo$",
    "uuid": "00000000-0000-4000-8000-000000000001", "json-pointer": "/demo", "relative-json-pointer": "1/demo",
}  # fmt: skip


def instance(schema: Any, preset: Any = None, wishes: tuple[str, ...] = ()) -> Any:
    """A valid instance with all of `preset` in it, the same one each time.

    preset: a part of the instance, to which what is missing is added; without it if there is none with it. wishes:
    values to prefer wherever the schema lets choose, in this order. If none is found, an invalid one is made, or None
    for a schema without end. Raises jsonschema_rs.ValidationError or ValueError if `schema` is no JSON Schema.
    """
    is_valid = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
    plain = jsonschema_rs.canonicalize(schema, validate_formats=True).to_json_schema()
    if _Maker(plain, wishes, 0).height(plain) >= _ENDLESS:
        return None
    attempts = (_Maker(plain, wishes, attempt).value(plain, preset) for attempt in range(_ATTEMPTS))
    first = next(attempts)
    valid_instance = first if is_valid(first) else next(filter(is_valid, attempts), None)
    return valid_instance if is_valid(valid_instance) else first if preset is None else instance(schema, None, wishes)


class _Maker:
    """One attempt. The first takes all that is optional and the first of all alternatives, the others go by chance."""

    def __init__(self, root: Any, wishes: tuple[str, ...], attempt: int) -> None:
        self.root, self.wishes, self.attempt = root, wishes, attempt
        self.chance = random.Random(attempt)
        self.patterns = rstr.Rstr(self.chance)
        self.size = 0
        self.resolver = jsonschema_rs.Registry([("urn:root", root)]).resolver("urn:root")
        self.targets: dict[str, Any] = {}
        self.heights: dict[tuple[int, int], tuple[Any, int]] = {}

    def value(self, schema: Any, preset: Any = None, depth: int = 0, name: str = "") -> Any:
        self.size += 1
        schema = self.flat(schema, preset, depth)
        if "const" in schema:
            return schema["const"]
        if preset is not None and not isinstance(preset, dict | list):
            return preset
        if "enum" in schema:
            wishes = [wish for wish in self.wishes if wish in schema["enum"]]
            return wishes[0] if wishes and self.attempt == 0 else self.pick(schema["enum"])
        kinds = [_kind(preset)] if preset is not None else _kinds(schema)
        candidates = [kind for kind in kinds if kind != "null"] or kinds
        kind = "null" if "null" in kinds and self.small(depth) else self.pick(candidates)
        if kind == "object":
            return self.object(schema, preset or {}, depth)
        if kind == "array":
            return self.array(schema, preset, depth, name)
        if kind in ("integer", "number"):
            return self.number(schema, kind == "integer")
        return self.string(schema, name) if kind == "string" else None if kind == "null" else self.pick([True, False])

    def pick(self, options: list[Any]) -> Any:
        return options[0] if self.attempt == 0 else self.chance.choice(options)

    def small(self, depth: int) -> bool:
        return depth > _DEEP or self.size > _LARGE

    def target(self, reference: str) -> Any:
        if reference not in self.targets:
            self.targets[reference] = self.resolver.lookup(reference).contents
        return self.targets[reference]

    def flat(self, schema: Any, preset: Any, depth: int) -> dict[str, Any]:
        """`schema` without `$ref`, `allOf`, `anyOf` and `oneOf`: one alternative of each is merged into it."""
        flat: dict[str, Any] = schema if isinstance(schema, dict) else {} if schema else {"const": None}
        for key in [key for key in ("$ref", "allOf", "anyOf", "oneOf") if key in flat]:
            parts = flat[key]
            if key == "$ref":
                parts = [self.target(parts)]
            elif key != "allOf":
                fitting = [part for part in parts if preset is None or self.fits(part, preset, depth)] or parts
                heights = [self.height(part) for part in fitting]
                max_height = min(heights) if self.small(depth) else max(min(heights), _ENDLESS - 1)
                parts = [
                    self.pick([part for part, height in zip(fitting, heights, strict=True) if height <= max_height])
                ]
            flat = {name: value for name, value in flat.items() if name != key}
            for part in parts:
                for name, value in self.flat(part, preset, depth).items():
                    present = flat.get(name)
                    if isinstance(present, dict) and isinstance(value, dict):
                        value = {**present, **value}
                    flat[name] = [*present, *value] if name == "required" and present else value
        return flat

    def fits(self, option: Any, preset: Any, depth: int) -> bool:
        """Whether `preset` may be a part of an instance of `option`, by its kind and its constants."""
        schema = self.flat(option, preset, depth)
        if "const" in schema or "enum" in schema:
            return preset in schema.get("enum", [schema.get("const")])
        if not isinstance(preset, dict) or "object" not in _kinds(schema):
            return _kind(preset) in _kinds(schema)
        return all(
            self.fits(part, preset[name], depth)
            for name, part in schema.get("properties", {}).items()
            if name in preset and not isinstance(preset[name], dict | list)
        )

    def height(self, schema: Any, levels: int = _LEVELS) -> int:
        """How many levels the flattest instance has; _ENDLESS for one without end."""
        if not isinstance(schema, dict) or levels == 0:
            return _ENDLESS if schema is False or levels == 0 else 0
        key = id(schema), levels
        if key not in self.heights:  # with the schema itself, so that no other one gets its id
            self.heights[key] = schema, _ENDLESS
            self.heights[key] = schema, min(_ENDLESS, max(self.parts(schema, levels), default=0))
        return self.heights[key][1]

    def parts(self, schema: dict[str, Any], levels: int) -> Iterator[int]:
        """The heights of what an instance must have."""
        if "$ref" in schema:
            yield self.height(self.target(schema["$ref"]), levels)
        yield from (self.height(part, levels) for part in schema.get("allOf", ()))
        for key in ("anyOf", "oneOf"):
            if key in schema:
                yield min(self.height(part, levels) for part in schema[key])
        inner = [schema.get("properties", {}).get(name, True) for name in schema.get("required", ())]
        inner += [*schema.get("prefixItems", ()), schema.get("items", True)][: schema.get("minItems", 0)]
        if "object" in _kinds(schema) or "array" in _kinds(schema):
            yield from (1 + self.height(part, levels - 1) for part in inner)

    def object(self, schema: dict[str, Any], preset: Any, depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        max_size = schema.get("maxProperties", math.inf)
        optional = not preset and not self.small(depth) and self.pick([True, False])
        value: dict[str, Any] = {}
        for key in dict.fromkeys([*preset, *schema.get("properties", {}), *required]):
            part = self.property(schema, key)
            room = len(value) + sum(key not in value for key in required) < max_size and self.height(part) < _ENDLESS
            if key in preset and self.may_have(schema, key):
                value[key] = self.value(part, preset[key], depth + 1, key)
            elif key in required and preset and self.attempt == 0 and self.nullable(part):
                value[key] = None
            elif key in required or (optional and room):
                value[key] = self.value(part, None, depth + 1, key)
        for index in range(200):
            if len(value) >= schema.get("minProperties", 0):
                break
            key = self.new_name(schema, index)
            value.setdefault(key, self.value(self.property(schema, key), None, depth + 1, key))
        return value

    def nullable(self, part: Any) -> bool:
        definitions = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        return jsonschema_rs.is_valid({**definitions, "allOf": [part]}, None)

    def may_have(self, schema: dict[str, Any], key: str) -> bool:
        return self.property(schema, key) is not False and jsonschema_rs.is_valid(
            schema.get("propertyNames", True), key
        )

    def property(self, schema: dict[str, Any], key: str) -> Any:
        """The schema of the property `key`."""
        patterns = schema.get("patternProperties", {}).items()
        schemas = [part for pattern, part in patterns if jsonschema_rs.is_valid({"pattern": pattern}, key)]
        schemas += [schema["properties"][key]] if key in schema.get("properties", {}) else []
        return (
            schemas[0]
            if len(schemas) == 1
            else {"allOf": schemas}
            if schemas
            else schema.get("additionalProperties", True)
        )

    def new_name(self, schema: dict[str, Any], index: int) -> str:
        """A name of a property, other than those for other indexes if that can be."""
        names = schema.get("propertyNames", True)
        name = str(_Maker(names, (), index).value(names, name="key")) if isinstance(names, dict) else "key"
        return f"{name}{index}" if jsonschema_rs.is_valid(names, f"{name}{index}") else name

    def array(self, schema: dict[str, Any], preset: Any, depth: int, name: str) -> list[Any]:
        prefix, items = schema.get("prefixItems", []), schema.get("items", True)
        low, high = schema.get("minItems", 0), schema.get("maxItems", 10**6)
        if preset is not None:
            return [self.value(items, item, depth + 1, name) for item in preset[:high]]
        size = low if self.small(depth) or not self.pick([True, False]) else max(low, len(prefix), 1)
        size = min(size, high, max(low, len(prefix)) if self.height(items) >= _ENDLESS else high)
        parts = [*prefix, *[items] * size][:size]
        if "contains" in schema:
            need = schema.get("minContains", 1)
            parts = [*parts[: max(0, high - need)], *[{"allOf": [items, schema["contains"]]}] * need]
        value: list[Any] = []
        before = self.attempt
        for part in parts:
            for self.attempt in range(before, before + 40):
                item = self.value(part, None, depth + 1, name)
                if not schema.get("uniqueItems") or item not in value:
                    break
            value.append(item)
        self.attempt = before
        return value

    def number(self, schema: dict[str, Any], integer: bool) -> float:
        """One of some numbers at the bounds and between them that the schema allows."""
        bounds = [value for key, value in schema.items() if "imum" in key or "Minimum" in key or "Maximum" in key]
        step = schema.get("multipleOf", 1)
        near = [
            1,
            *bounds,
            *(bound + self.chance.choice([-1, 1]) * self.chance.randrange(100) for bound in [1, *bounds]),
        ]
        candidates = [step * (math.floor(number / step) + shift) for number in near for shift in (0, 1, -1)]
        candidates += (
            []
            if integer
            else [sum(bounds) / max(1, len(bounds)), *(bound + shift for bound in bounds for shift in (0.25, -0.25))]
        )
        valid = [number for number in candidates if jsonschema_rs.is_valid(schema, number)]
        number = self.pick(valid or candidates)
        return int(number) if float(number).is_integer() else number

    def string(self, schema: dict[str, Any], name: str) -> str:
        low, high = schema.get("minLength", 0), schema.get("maxLength", 10**6)
        if "pattern" in schema:
            strings = [self.matching(schema["pattern"]) for _ in range(20)]
            return min(strings, key=lambda text: (not low <= len(text) <= high, len(text) < low, len(text)))
        text = _FORMATS.get(schema.get("format", ""), "")
        if not text or self.attempt % 3 == 2:
            text = f"demonstration {name}".strip() if self.attempt == 0 else f"{name} {self.chance.randrange(1000)}"
        return text.ljust(low, "x")[:high] if len(text) <= high else text[len(text) - high :]

    def matching(self, pattern: str) -> str:
        try:
            return self.patterns.xeger(pattern.replace("\\p{L}", "[a-z]").replace("\\p{N}", "[0-9]"))
        except Exception:  # what rstr cannot do fails in many ways
            return "x"


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type", ["string", "integer", "boolean", "array", "object", "null"])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _kind(value: Any) -> str:
    names = {bool: "boolean", str: "string", list: "array", dict: "object", type(None): "null", int: "integer"}
    return names.get(type(value), "number")
