"""A generator of hostile schemas, each with answers that exploit it."""

import random
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

_PATTERNS = (
    "^(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){25}", "(?=(a+)+$)b", "(a*)*\\1", "[ab]*a[ab]{3000}",
    "((a{0,100}){0,100}){0,100}", "^.{0,4000}$", "(\\p{L}{50}){20}", "(?<!a)b", "^(?!x).*$", "[", "(", "a{9999999}",
    "\\w{1,255}@\\w{1,255}", "(x+x+)+y", "^(\\d+)*$", "(?i)(a+)+$", "[^\\s]*" * 40, "a?" * 60 + "a" * 60, "\\u0061+",
)  # fmt: skip


class Hostile:
    """A schema and its answers, generated from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.kind, make = self._random.choice(_KINDS)
        self.schema: Schema = make(self)
        self._twist()
        self.answers = [self._answer() for _ in range(2)]

    def size(self, most: int) -> int:
        """From 1 to `most`, with small numbers as likely as large ones."""
        return max(1, int(most ** self._random.random()))

    def leaf(self) -> Schema:
        return dict(self._random.choice(({"type": "integer"}, {"type": "string"}, {"const": 1}, {}, {"minLength": 3})))

    def pattern(self) -> str:
        return self._random.choice(_PATTERNS)

    # The kinds.

    def deep(self) -> Schema:
        node, depth = self.leaf(), self.size(700)
        for level in range(depth):
            keyword = self._random.choice(("properties", "items", "anyOf", "allOf", "not", "additionalProperties"))
            if keyword == "properties":
                node = {"type": "object", "properties": {"a": node}, "required": ["a"] if level % 2 else []}
            elif keyword in ("anyOf", "allOf"):
                node = {keyword: [node]}
            else:
                node = {keyword: node}
        return node

    def wide(self) -> Schema:
        names = [f"p{n}" for n in range(self.size(8_000))]
        return {"type": "object", "properties": {name: self.leaf() for name in names}, "required": names[::2]}

    def doubling(self) -> Schema:
        """Each definition uses the next one several times, in various ways."""
        depth, width = self.size(60), self._random.choice((2, 2, 2, 3, 8, 30))
        ways = self._random.sample(_WAYS, self._random.randint(1, 3))
        definitions: Schema = {f"d{depth}": self.leaf()}
        for n in range(depth):
            way = self._random.choice(ways)
            definitions[f"d{n}"] = way([{"$ref": f"#/$defs/d{n + 1}"} for _ in range(width)], n)
        return {"$ref": "#/$defs/d0", "$defs": definitions}

    def cyclic(self) -> Schema:
        count, width = self.size(40), self.size(12)
        ways = self._random.sample(_WAYS, self._random.randint(1, 3))

        def targets() -> list[Schema]:
            return [{"$ref": f"#/$defs/d{self._random.randrange(count)}"} for _ in range(width)] + [self.leaf()]

        definitions = {f"d{n}": self._random.choice(ways)(targets(), n) for n in range(count)}
        return {"$ref": "#/$defs/d0", "$defs": definitions}

    def chain(self) -> Schema:
        count = self.size(9_000)
        definitions: Schema = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(count)}
        return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{count}": self.leaf()}}

    def enums(self) -> Schema:
        values: list[Any] = [self._random.choice((n, f"value {n}", [n], {"a": n})) for n in range(self.size(12_000))]
        parts = [{"enum": values[n:] + values[:n]} for n in range(self.size(40))]
        return {self._random.choice(("allOf", "anyOf", "oneOf")): parts}

    def patterns(self) -> Schema:
        made = [f"{self.pattern()}{n or ''}" for n in range(self.size(400))]
        if self._random.random() < 0.5:
            return {"type": "object", "patternProperties": {pattern: self.leaf() for pattern in made}}
        parts: list[Schema] = [{"pattern": pattern} for pattern in made]
        return {"properties": {"a": {"allOf": parts}}, "propertyNames": self._random.choice(parts)}

    def unions(self) -> Schema:
        """A product of unions next to other keywords."""

        def union() -> Schema:
            branches = [{"properties": {f"k{n}": {"const": n}}, "required": [f"k{n}"]} for n in range(self.size(20))]
            return {self._random.choice(("anyOf", "oneOf")): branches}

        return {"type": "object", "properties": {"a": self.leaf()}, "allOf": [union() for _ in range(self.size(200))]}

    def unevaluated(self) -> Schema:
        node: Schema = {"type": "object", "properties": {"a": {}}}
        for _ in range(self.size(120)):
            keyword = self._random.choice(("allOf", "anyOf", "oneOf"))
            node = {keyword: [node] * self._random.randint(1, 2), "unevaluatedProperties": False, "minProperties": 9}
        return node

    def conditions(self) -> Schema:
        node = self.leaf()
        for n in range(self.size(120)):
            node = {"if": {"required": [f"k{n}"], "not": node}, "then": node, "else": {"dependentSchemas": {"a": node}}}
            if n > 12:
                node = {"if": node, "then": False}
        return node

    def identified(self) -> Schema:
        """Resources, anchors and references by name."""
        count = self.size(2_500)
        definitions: Schema = {}
        for n in range(count):
            other = self._random.randrange(count)
            definitions[f"d{n}"] = {
                "$id": f"https://example.com/{n}/file{n % 7}.json",
                "$anchor": f"a{n}",
                "$ref": self._random.choice((f"/{other}/file{other % 7}.json", f"nowhere{other}.json", "#a1", "#/x")),
            }
        return {"$id": "https://example.com/root.json", "$ref": "0/file0.json", "$defs": definitions}

    def dynamic(self) -> Schema:
        width = self.size(30)
        tree = {"properties": {"a": {"$dynamicRef": "#t"}}, "required": ["a", "b"], "type": "object"}
        return {"$dynamicAnchor": "t", "anyOf": [{**tree, "minProperties": n} for n in range(width)]}

    def errors(self) -> Schema:
        """Everything is invalid everywhere, and every error quotes the whole value."""
        wrong = [{"minItems": 10**9 + n, "minProperties": 10**9} for n in range(self.size(3_000))]
        return {self._random.choice(("anyOf", "allOf")): wrong, "items": {"anyOf": [{"type": "null"}] * self.size(300)}}

    def words(self) -> Schema:
        text = "x" * self.size(300_000)
        node = {"default": text, "examples": [text] * 2, "description": text, "not": {"const": text}}
        return {"type": "object", "properties": {f"p{n}": {"$ref": "#/$defs/d"} for n in range(self.size(900))},
                "$defs": {"d": node}, "title": text[:50]}  # fmt: skip

    def pointers(self) -> Schema:
        path = "/".join(["$defs", *["a"] * self.size(90)])
        node: Schema = self.leaf()
        for part in reversed(path.split("/")):
            node = {part: node}
        return {**node, "anyOf": [{"$ref": f"#/{path}", "title": str(n)} for n in range(self.size(4_000))]}

    def mixture(self) -> Schema:
        parts = [self._random.choice(_KINDS[:-1])[1](self) for _ in range(self._random.randint(2, 4))]
        definitions: Schema = {}
        for part in parts:
            definitions.update(part.pop("$defs", {}))
        keyword = self._random.choice(("anyOf", "allOf", "properties", "prefixItems"))
        found: Any = {f"p{n}": part for n, part in enumerate(parts)} if keyword == "properties" else parts
        return {keyword: found, "$defs": definitions}

    def _twist(self) -> None:
        """Some have another draft's dialect, or a root like a tool's."""
        if self._random.random() < 0.2:
            draft = self._random.choice(("draft-04", "draft-07"))
            self.schema["$schema"] = f"http://json-schema.org/{draft}/schema#"
        if self._random.random() < 0.5:
            definitions = self.schema.pop("$defs", {})
            self.schema = {"type": "object", "properties": {"a": self.schema}, "$defs": definitions}

    # Answers.

    def _answer(self) -> Any:
        kind = self._random.randrange(7)
        if kind == 0:
            return self._nested(self.size(600), lambda node: {"a": node, "b": 1, "c": 2})
        if kind == 1:
            return self._nested(self.size(600), lambda node: [node])
        if kind == 2:
            return ["a" * self.size(200)] * self.size(6_000)
        if kind == 3:
            return {("a" * n if n < 90 else f"k{n}"): "a" * self.size(60) for n in range(self.size(3_000))}
        if kind == 4:
            return {"a": "a" * self.size(90_000) + "b"}
        if kind == 5:
            return {"a": [{"a": n, f"k{n % 20}": n % 20} for n in range(self.size(2_500))], "p0": {"a": "aaaa"}}
        return self._nested(self.size(16), lambda node: {"a": node, "p0": node, "p1": [node]})

    def _nested(self, depth: int, around: Callable[[Any], Any]) -> Any:
        node: Any = self._random.choice((1, "a", None, {}))
        for _ in range(depth):
            node = around(node)
            if len(str(node)) > 60_000:
                break
        return node


#: Ways to use several schemas in one.
_WAYS: tuple[Callable[[list[Schema], int], Schema], ...] = (
    lambda parts, n: {"anyOf": parts},
    lambda parts, n: {"allOf": parts},
    lambda parts, n: {"oneOf": parts},
    lambda parts, n: {"anyOf": [{"properties": {"a": part}, "required": [f"k{i}"]} for i, part in enumerate(parts)]},
    lambda parts, n: {"anyOf": [{"type": "object", "properties": {"a": part, "b": {"const": i}}}
                                for i, part in enumerate(parts)]},
    lambda parts, n: {"type": "object", "properties": {f"k{i}": part for i, part in enumerate(parts)}},
    lambda parts, n: {"items": {"anyOf": parts}, "contains": parts[0]},
    lambda parts, n: {"not": {"anyOf": parts}},
    lambda parts, n: {"if": parts[0], "then": parts[-1], "else": {"allOf": parts}},
    lambda parts, n: {"anyOf": [{**part, "title": f"{n}.{i}", "minLength": i} for i, part in enumerate(parts)]},
    lambda parts, n: {"additionalProperties": {"oneOf": parts}, "propertyNames": parts[0]},
    lambda parts, n: {"allOf": [{"anyOf": parts}, {"anyOf": parts[::-1]}], "properties": {"a": parts[0]}},
    lambda parts, n: {"dependentSchemas": {"a": {"anyOf": parts}}, "unevaluatedProperties": parts[0]},
)  # fmt: skip

_KINDS: list[tuple[str, Callable[[Hostile], Schema]]] = [
    (name, getattr(Hostile, name))
    for name in ("deep", "wide", "doubling", "doubling", "doubling", "cyclic", "cyclic", "chain", "enums", "patterns",
                 "patterns", "unions", "unevaluated", "conditions", "identified", "dynamic", "errors", "words",
                 "pointers", "mixture")
]  # fmt: skip
