"""Random hard schemas, with everything that real schemas have and strict modes do not support."""

from __future__ import annotations

import random
from typing import Any

STRING: Any = {"type": "string"}
INTEGER: Any = {"type": "integer"}


def obj(**properties: Any) -> dict[str, Any]:
    """An object that needs all these properties."""
    return {**optional(**properties), "required": list(properties)}


def optional(**properties: Any) -> dict[str, Any]:
    """An object that needs none of them."""
    return {"type": "object", "properties": properties}


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The same object without any further properties."""
    return {**schema, "additionalProperties": False}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_NAMES = (
    "a", "b", "name", "kind", "type", "id", "value", "key", "items", "$ref", "properties", "_extra", "entries", "",
    "ünï", "漢字", "😀", "with space", "dots.in.name", "slash/tilde~", "0", "1", "rest", 'quo"te', "new\nline",
    " ", "required",
)  # fmt: skip
_PATTERNS = (
    "^x-",
    "^[a-z]+$",
    "^\\d{2,4}$",
    "a|b",
    "^(?!no)",
    "^(foo|bar)$",
    "[A-Z]",
    "^.{1,3}$",
    "\\bword\\b",
    "^a|b$",
)
_DIALECTS = (
    None,
    None,
    None,
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)


class Schemas:
    """One random document per call of `document`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dialect: str | None = None
        self.references: list[str] = []

    def document(self) -> Any:
        rng = self.rng
        self.dialect = rng.choice(_DIALECTS)
        place = rng.choice(("definitions", "$defs", "components/schemas", "x-stuff"))
        names = rng.sample(["Node", "Ünï", "a b", "t~x", "Item", "Base"], rng.randrange(5))
        self.references = [f"#/{place}/{name.replace('~', '~0')}" for name in names]
        if rng.random() < 0.15:
            self.references.append("#")
        if rng.random() < 0.05:
            self.references += ["#/nowhere", "other.json#/definitions/x", "#missing"]
        definitions = {name: self.schema(1) for name in names}
        root = self.schema(0, root=True)
        if not isinstance(root, dict):
            return root
        if self.dialect:
            root["$schema"] = self.dialect
        if rng.random() < 0.1:
            root["id" if self.dialect and "04" in self.dialect else "$id"] = "https://example.com/thing.json"
            if names and rng.random() < 0.5:
                self.references.append(f"thing.json#/{place}/{names[0]}")
        if definitions:
            holder = root
            for part in place.split("/"):
                holder = holder.setdefault(part, {})
            holder.update(definitions)
        return root

    @property
    def modern(self) -> bool:
        return self.dialect is None or "20" in self.dialect.rsplit("schema.org", 1)[-1]

    def schema(self, depth: int, root: bool = False) -> Any:
        rng = self.rng
        roll = rng.random()
        if depth > 3 + rng.randrange(4) or (not root and roll < 0.25):
            return self.scalar()
        if not root and roll < 0.28:
            return rng.choice((True, {}, {"description": "anything"}))
        if not root and roll < 0.29:
            return False
        if not root and roll < 0.38 and self.references:
            out: dict[str, Any] = {"$ref": rng.choice(self.references)}
            if rng.random() < 0.3:
                out["description"] = "what it is for"
            if rng.random() < 0.15:
                out.update(rng.choice(({"required": ["a"]}, {"type": ["object", "null"]}, {"minProperties": 1})))
            return out
        if roll < 0.48:
            keyword = rng.choice(("anyOf", "oneOf", "anyOf"))
            out = {keyword: [self.schema(depth + 1) for _ in range(rng.randint(1, 4))]}
            if rng.random() < 0.15:
                out[keyword].append({"type": "null"})
            return out
        if roll < 0.53:
            return {"allOf": [self.object(depth + 1) for _ in range(rng.randint(1, 3))]}
        if roll < 0.66:
            return self.array(depth)
        return self.object(depth)

    def scalar(self) -> Any:
        rng = self.rng
        roll = rng.randrange(13)
        if roll == 0:
            return {"enum": rng.sample(["a", "b", 1, 2.5, None, True, {"x": [1]}, [1, "2"], ""], rng.randint(1, 5))}
        if roll == 1 and self.modern:
            return {"const": rng.choice(("c", 3, False, None, {"k": None}, []))}
        if roll == 2:
            return {"type": rng.sample(["string", "integer", "null", "boolean", "number", "object", "array"], 3)}
        if roll == 3:
            return {"type": "string", "pattern": rng.choice(_PATTERNS)}
        if roll == 4:
            return {"type": "string", "format": rng.choice(("date", "email", "uri", "color", "date-time"))}
        if roll == 5:
            return {"type": "string", "minLength": rng.randrange(3), "maxLength": 40}
        if roll == 6:
            if self.dialect and "04" in self.dialect:
                return {"type": "number", "minimum": 0, "exclusiveMinimum": rng.random() < 0.5}
            return {"type": "number", "exclusiveMinimum": 0, "maximum": 99.5}
        if roll == 7:
            return {"type": "integer", "minimum": -3, "maximum": 40, "multipleOf": rng.choice((1, 2, 5))}
        if roll == 8:
            return {"minimum": 3, "description": "without a type"}
        if roll == 9:
            return {"type": ["string", "null"], "default": None}
        if roll == 10:
            return {"type": "boolean"}
        if roll == 11:
            return {"type": "string", "not": {"const": "no"}}
        return {"type": "string", "description": "text", "title": "Text"}

    def array(self, depth: int) -> Any:
        rng = self.rng
        out: dict[str, Any] = {"type": "array"}
        roll = rng.random()
        if roll < 0.2:
            prefix = [self.schema(depth + 1) for _ in range(rng.randint(1, 3))]
            if (self.dialect and "2020" in self.dialect) or self.dialect is None:
                out["prefixItems"] = prefix
                rest = "items"
            else:
                out["items"] = prefix
                rest = "additionalItems"
            if rng.random() < 0.6:
                out[rest] = rng.choice((False, {"type": "integer"}))
        elif roll < 0.9:
            out["items"] = self.schema(depth + 1)
        if rng.random() < 0.2:
            out["minItems"] = rng.randrange(3)
        if rng.random() < 0.2:
            out["maxItems"] = rng.randint(2, 5)
        if rng.random() < 0.1:
            out["uniqueItems"] = True
        if rng.random() < 0.05 and self.modern:
            out["contains"] = {"type": "string"}
        return out

    def object(self, depth: int) -> Any:
        rng = self.rng
        out: dict[str, Any] = {}
        if rng.random() < 0.85:
            out["type"] = "object"
        names = rng.sample(_NAMES, rng.randrange(6))
        if names or rng.random() < 0.3:
            out["properties"] = {name: self.schema(depth + 1) for name in names}
        if names and rng.random() < 0.6:
            out["required"] = rng.sample(names, rng.randint(1, len(names)))
            if rng.random() < 0.05:
                out["required"].append("unlisted")
        roll = rng.random()
        if roll < 0.3:
            out["additionalProperties"] = False
        elif roll < 0.45:
            out["additionalProperties"] = rng.choice((True, {}, self.schema(depth + 1)))
        if rng.random() < 0.12:
            out["patternProperties"] = {
                pattern: self.schema(depth + 1) for pattern in rng.sample(_PATTERNS, rng.randint(1, 2))
            }
        if rng.random() < 0.05 and self.modern:
            out["propertyNames"] = rng.choice(({"pattern": "^[a-z]"}, {"enum": ["a", "b", "name"]}, {"maxLength": 9}))
        if rng.random() < 0.06:
            out[rng.choice(("minProperties", "maxProperties"))] = rng.randint(1, 3)
        if rng.random() < 0.06:
            out["not"] = {"required": ["forbidden"]}
        if rng.random() < 0.12 and names:
            keyword = rng.choice(("anyOf", "oneOf"))
            out[keyword] = [{"required": [name]} for name in rng.sample(names, min(len(names), 2))]
        elif rng.random() < 0.08:
            out[rng.choice(("anyOf", "oneOf"))] = [
                {"properties": {"kind": {"enum": [kind]}, f"of_{kind}": self.schema(depth + 2)}, "required": ["kind"]}
                for kind in ("x", "y")
            ]
        if rng.random() < 0.08 and names and self.dialect and "04" not in self.dialect:
            out["if"] = {"properties": {names[0]: {"const": "a"}}, "required": [names[0]]}
            out["then"] = {"properties": {"when": self.schema(depth + 2)}}
            if rng.random() < 0.5:
                out["else"] = {"required": [names[-1]]}
        if rng.random() < 0.05 and names:
            if self.modern:
                out["dependentRequired"] = {names[0]: [names[-1]]}
                out["dependentSchemas"] = {names[0]: {"properties": {"dependent": self.schema(depth + 2)}}}
            else:
                out["dependencies"] = {names[0]: {"properties": {"dependent": {"type": "integer"}}}}
        if rng.random() < 0.04 and self.modern:
            out["unevaluatedProperties"] = False
        if rng.random() < 0.3:
            out["description"] = "an object"
        return out


def special() -> dict[str, Any]:
    """Schemas at the limits, by name."""
    deep, deep_array = STRING, INTEGER
    for level in range(25):
        deep = obj(**{f"level{level}": deep})
    for _ in range(14):
        deep_array = array(deep_array)
    expression = {"$ref": "#/definitions/expression"}
    operation = closed(obj(op={"enum": ["+", "-"]}, args=array(expression) | {"minItems": 1}))
    item = optional(self={"$ref": "#"}, n={"$ref": "#/$defs/n"}) | {"$id": "item.json", "$defs": {"n": INTEGER}}
    point = optional(x={"type": "number"}) | {"$anchor": "point"}
    return {
        "deep": deep,
        "deep array": optional(a=deep_array),
        "wide": optional(**{f"property_{n}": STRING for n in range(6000)}),
        "wide and deep": optional(**{f"p{n}": optional(**{f"q{m}": INTEGER for m in range(90)}) for n in range(90)}),
        "long names": optional(**{f"{n}_" + "x" * 400: STRING for n in range(400)}),
        "huge enum": optional(e={"enum": [f"value {n}" for n in range(3000)]}),
        "wordy enum": optional(e={"enum": [f"{n}" + "w" * 80 for n in range(300)]}),
        "many enums": optional(**{f"e{n}": {"enum": [f"{n}:{m}" for m in range(60)]} for n in range(30)}),
        "enum of objects": optional(e={"enum": [{"n": n} for n in range(2000)]}),
        "ring of definitions": {
            "$ref": "#/$defs/d0",
            "$defs": {f"d{n}": optional(next={"$ref": f"#/$defs/d{(n + 1) % 14}"}, v=INTEGER) for n in range(14)},
        },
        "tree": {
            "$id": "https://example.com/tree",
            "$dynamicAnchor": "node",
            **optional(data=True, children=array({"$dynamicRef": "#node"})),
        },
        "anchors": optional(a={"$ref": "#point"}, b={"$ref": "#point"}) | {"$defs": {"p": point}},
        "own resource": {
            **optional(a={"$ref": "item.json"}),
            "$id": "https://example.com/root.json",
            "$defs": {"i": item},
        },
        "reference to itself": {"$ref": "#"},
        "allOf of itself": {"allOf": [{"$ref": "#"}, optional(a=STRING)]},
        "expression": {
            **expression,
            "definitions": {"expression": {"oneOf": [{"type": "number"}, STRING, operation, array(expression)]}},
        },
        "root array": array(optional(a=INTEGER)),
        "root string": {"type": "string", "enum": ["yes", "no"]},
        "root union": {"anyOf": [obj(a={"const": 1}), {"type": "null"}, {"type": "array"}]},
        "anything": {},
        "true": True,
        "map or list": optional(e={"type": ["object", "array", "string", "null"], "items": STRING}),
        "type list of all": obj(v={"type": ["string", "number", "boolean", "object", "array", "null"]}),
        "explicit null": optional(v={"type": ["string", "null"]}, w={"type": "null"}),
    }
