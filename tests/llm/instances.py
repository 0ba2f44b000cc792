"""Makes instances of arbitrary schemas: guesses a value and keeps it if it is valid.

It does not use the codec, because the codec is tested with it.
"""

from __future__ import annotations

import random
from importlib import import_module
from typing import Any
from urllib.parse import unquote

from codelab.llm.schema.validation import compile_validator

sre: Any = import_module("re._constants")
sre_parser: Any = import_module("re._parser")

_WORDS = (
    "",
    "a",
    "red",
    "two words",
    "Ünïcödé 漢字 😀",
    'q"uote\\',
    "line\nbreak",
    "5",
    "null",
    "true",
    "{}",
    "[1]",
    "x-y",
)
_FORMATS = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "duration": "P1D",
    "email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "https://example.com/a",
    "uri-reference": "/a",
    "regex": "^a$",
    "json-pointer": "/a",
}


class Maker:
    """Guesses for one document."""

    def __init__(self, document: Any, rng: random.Random, *, extra_keys: float = 0.1) -> None:
        self.document = document
        self.rng = rng
        self.extra_keys = extra_keys

    def valid(self, wanted: int, tries: int = 30) -> list[Any]:
        """Up to `wanted` different valid instances."""
        validator = compile_validator(self.document)
        out: list[Any] = []
        for _ in range(tries):
            try:
                value = self.guess(self.document, 0)
            except RecursionError:
                continue
            if validator.is_valid(value) and value not in out:
                out.append(value)
                if len(out) >= wanted:
                    break
        return out

    def guess(self, schema: Any, depth: int) -> Any:
        rng = self.rng
        if not isinstance(schema, dict):
            return self.anything(depth)
        if depth > 14:
            return self.smallest(schema)
        if isinstance(schema.get("$ref"), str):
            target = self.target(schema["$ref"])
            merged = {key: value for key, value in schema.items() if key != "$ref"}
            if isinstance(target, dict):
                merged = {**target, **merged} if any(k in merged for k in ("properties", "type")) else target
            return self.guess(merged if isinstance(target, dict) else target, depth + 1)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return rng.choice(schema["enum"])
        base = {k: v for k, v in schema.items() if k not in ("allOf", "anyOf", "oneOf", "if", "then", "else")}
        chosen = [part for part in schema.get("allOf", ()) if isinstance(part, dict)]
        for keyword in ("anyOf", "oneOf"):
            options = schema.get(keyword)
            if isinstance(options, list) and options:
                chosen.append(rng.choice(options))
        if "if" in schema and rng.random() < 0.5:
            chosen += [schema["if"], schema.get("then", True)]
        elif "if" in schema:
            chosen.append(schema.get("else", True))
        if chosen:
            return self.guess(self.merged([base, *chosen]), depth + 1)
        kinds = schema.get("type")
        if isinstance(kinds, list) and kinds:
            kinds = rng.choice(kinds)
        if not isinstance(kinds, str):
            kinds = self.implied(schema)
        return getattr(self, f"_{kinds}", self._any)(schema, depth)

    def merged(self, parts: list[Any]) -> Any:
        out: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("$ref"), str):
                target = self.target(part["$ref"])
                part = {**target, **{k: v for k, v in part.items() if k != "$ref"}} if isinstance(target, dict) else {}
            if not isinstance(part, dict):
                continue
            for key, value in part.items():
                if key in ("properties", "patternProperties") and isinstance(value, dict):
                    known = out.setdefault(key, {})
                    for name, child in value.items():
                        known = {**known, name: self.merged([known[name], child]) if name in known else child}
                    out[key] = known
                elif (key == "required" and isinstance(value, list)) or (key == "allOf" and isinstance(value, list)):
                    out[key] = [*out.get(key, []), *value]
                else:
                    out[key] = value
        return out

    def target(self, reference: str) -> Any:
        node: Any = self.document
        if not reference.startswith("#"):
            return {}
        for part in reference[1:].split("/")[1:]:
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(part)] if isinstance(node, list) else node[part]
            except (KeyError, IndexError, ValueError, TypeError):
                return {}
        return node

    def smallest(self, schema: dict[str, Any]) -> Any:
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        return {"object": {}, "array": [], "string": "a", "integer": 1, "number": 1, "boolean": True}.get(str(kind))

    def implied(self, schema: dict[str, Any]) -> str:
        for kind, keywords in (
            ("object", ("properties", "required", "additionalProperties", "patternProperties", "minProperties")),
            ("array", ("items", "prefixItems", "minItems", "contains", "uniqueItems")),
            ("string", ("pattern", "minLength", "maxLength", "format")),
            ("number", ("minimum", "maximum", "multipleOf", "exclusiveMinimum")),
        ):
            if any(keyword in schema for keyword in keywords):
                return kind
        return "any"

    def anything(self, depth: int) -> Any:
        rng = self.rng
        kind = rng.randrange(7 if depth < 4 else 5)
        if kind == 5:
            return [self.anything(depth + 2) for _ in range(rng.randrange(3))]
        if kind == 6:
            return {rng.choice(_WORDS): self.anything(depth + 2) for _ in range(rng.randrange(3))}
        return (None, rng.random() < 0.5, rng.randrange(-5, 50), round(rng.uniform(-9, 9), 2), rng.choice(_WORDS))[kind]

    def _any(self, schema: dict[str, Any], depth: int) -> Any:
        return self.anything(depth)

    def _null(self, schema: dict[str, Any], depth: int) -> Any:
        return None

    def _boolean(self, schema: dict[str, Any], depth: int) -> Any:
        return self.rng.random() < 0.5

    def _integer(self, schema: dict[str, Any], depth: int) -> Any:
        return int(self._number(schema, depth, whole=True))

    def _number(self, schema: dict[str, Any], depth: int, whole: bool = False) -> Any:
        low, high = schema.get("minimum"), schema.get("maximum")
        low = low if isinstance(low, (int, float)) else None
        high = high if isinstance(high, (int, float)) else None
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if above is True and low is not None:
            low += 1
        elif isinstance(above, (int, float)) and above is not True and above is not False:
            low = above + (1 if whole else 0.25)
        if below is True and high is not None:
            high -= 1
        elif isinstance(below, (int, float)) and below is not True and below is not False:
            high = below - (1 if whole else 0.25)
        if low is None:
            low = (high - 20) if high is not None else -10
        if high is None:
            high = low + 100
        value = self.rng.uniform(float(low), float(max(low, high)))
        value = round(value) if whole or self.rng.random() < 0.5 else round(value, 2)
        step = schema.get("multipleOf")
        if isinstance(step, (int, float)) and step:
            value = round(value / step) * step
        return value

    def _string(self, schema: dict[str, Any], depth: int) -> Any:
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            try:
                return self._matching(sre_parser.parse(pattern))
            except Exception:
                return "a"
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        word = self.rng.choice(_WORDS)
        least, most = schema.get("minLength"), schema.get("maxLength")
        if isinstance(least, int) and len(word) < least:
            word += "z" * min(2000, least - len(word))
        return word[:most] if isinstance(most, int) else word

    def _matching(self, parsed: Any) -> str:
        rng, out = self.rng, ""
        for op, argument in parsed:
            if op is sre.LITERAL:
                out += chr(argument)
            elif op is sre.NOT_LITERAL:
                out += "b" if argument == ord("a") else "a"
            elif op is sre.ANY:
                out += rng.choice("aZ 9")
            elif op is sre.IN:
                out += self._in_class(argument)
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
                least, most, inner = argument
                for _ in range(rng.randint(least, max(least, min(int(most), least + 3)))):
                    out += self._matching(inner)
            elif op is sre.SUBPATTERN:
                out += self._matching(argument[-1])
            elif op is sre.BRANCH:
                out += self._matching(rng.choice(argument[1]))
        return out

    def _in_class(self, members: Any) -> str:
        rng = self.rng
        if members and members[0][0] is sre.NEGATE:
            return rng.choice("aZ9_ é-")
        op, argument = rng.choice(members)
        if op is sre.RANGE:
            return chr(rng.randint(argument[0], min(argument[1], argument[0] + 60)))
        if op is sre.CATEGORY:
            return rng.choice({sre.CATEGORY_DIGIT: "0359", sre.CATEGORY_SPACE: " "}.get(argument, "aZ9_"))
        return chr(argument)

    def _array(self, schema: dict[str, Any], depth: int) -> Any:
        rng = self.rng
        items = schema.get("items")
        prefix = schema.get("prefixItems", items if isinstance(items, list) else [])
        rest = schema.get("additionalItems", True) if isinstance(items, list) else (True if items is None else items)
        least, most = _number(schema, "minItems", 0), _number(schema, "maxItems", 10**6)
        size = rng.randint(least, max(least, min(most, least + 3))) if least < 50 else least
        out = []
        for index in range(size):
            if index < len(prefix):
                out.append(self.guess(prefix[index], depth + 1))
            elif rest is False:
                break
            else:
                out.append(self.guess(rest, depth + 1))
        if "contains" in schema and rng.random() < 0.9:
            out.append(self.guess(schema["contains"], depth + 1))
        return out

    def _object(self, schema: dict[str, Any], depth: int) -> Any:
        rng = self.rng
        out: dict[str, Any] = {}
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        patterns = schema.get("patternProperties")
        patterns = patterns if isinstance(patterns, dict) else {}
        additional = schema.get("additionalProperties")
        likely = 0.5 if len(properties) < 12 and depth < 6 else 4 / max(4, len(properties)) if depth < 8 else 0.02
        for name, child in properties.items():
            if child is not False and (name in required or rng.random() < likely):
                out[name] = self.guess(child, depth + 1)
        for name in required:
            if isinstance(name, str) and name not in out:
                out[name] = self.guess(additional if isinstance(additional, dict) else True, depth + 1)
        for pattern, child in patterns.items():
            for _ in range(rng.randrange(3)):
                key = self._string({"pattern": pattern}, depth)
                if child is not False:
                    out.setdefault(key, self.guess(child, depth + 1))
        names = schema.get("propertyNames")
        free = isinstance(additional, dict) or additional is True
        bare = additional is None and not properties and not patterns
        chance = 0.7 if free or bare else self.extra_keys if additional is None else 0
        least = _number(schema, "minProperties", 0)
        while rng.random() < chance or (len(out) < least and (free or bare)):
            key = (
                self.guess(names, depth + 1) if isinstance(names, dict) else rng.choice(_WORDS) + str(rng.randrange(9))
            )
            if not isinstance(key, str):
                break
            out.setdefault(key, self.guess(additional if isinstance(additional, dict) else True, depth + 1))
            chance *= 0.6
            if len(out) > 40:
                break
        return out


def _number(schema: dict[str, Any], keyword: str, otherwise: int) -> int:
    found = schema.get(keyword)
    return found if isinstance(found, int) else otherwise
