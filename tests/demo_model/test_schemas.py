"""Any other JSON Schema is answered with a valid instance, the same one each time."""

import json
from typing import Any

import jsonschema_rs
from codelab_local.demo_model.instance import instance
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.demo_model.driver import closed, streamed

_TREE = closed({"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}, "minItems": 0}})
_X = {"$ref": "#/definitions/x"}
_NODE = {"$ref": "#/$defs/node"}
_OPERATION = closed({"op": {"enum": ["+", "*"]}, "left": _NODE, "right": _NODE})
_EXPRESSION = {**_NODE, "$defs": {"node": {"anyOf": [_OPERATION, {"type": "number"}]}}}
_NAMED = {"^x-": {"type": "integer"}}
_FORMATS = ("date-time", "date", "time", "email", "ipv4", "ipv6", "uri", "uuid", "hostname")
SCHEMAS: list[Any] = [
    {"type": "string"},
    {"type": "integer", "minimum": 5, "maximum": 7, "multipleOf": 3},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001},
    {"type": "number", "minimum": -4, "maximum": -3.5},
    {"type": "integer", "exclusiveMinimum": -8, "maximum": -7},
    {"type": "string", "minLength": 40},
    {"type": "string", "maxLength": 3},
    {"type": "string", "pattern": r"^[A-Z]{2}\d{3,5}(-[a-f]+)?$", "minLength": 8},
    {"type": "string", "pattern": r"foo|bar"},
    {"type": "string", "pattern": r"^(?!x)[^@\s]+@\w+\.(com|org)$"},
    {"type": "string", "pattern": r"^\d{4}-\d{2}$", "maxLength": 7},
    *({"type": "string", "format": name} for name in _FORMATS),
    {"enum": [None, 1, "x"]},
    {"const": {"deep": [1, 2]}},
    {"type": ["null", "array"], "items": {"type": "boolean"}, "minItems": 2},
    {"type": "array", "items": {"enum": ["a", "b", "c", "d"]}, "minItems": 4, "uniqueItems": True},
    {"type": "array", "items": {"type": "integer"}, "minItems": 6, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2},
    {"type": "array", "contains": {"const": 7}, "minContains": 2, "maxItems": 3, "items": {"type": "integer"}},
    {"type": "object", "required": ["undeclared"]},
    {"type": "object", "properties": {"message": {"type": "string", "maxLength": 3}}, "required": ["message"]},
    {"type": "object", "properties": {"answer": {"type": "object"}, "title": {"type": "null"}}, "required": ["answer"]},
    {"type": "object", "minProperties": 3, "maxProperties": 4, "properties": {"a": {"type": "null"}}},
    {"type": "object", "patternProperties": _NAMED, "additionalProperties": False, "minProperties": 2},
    {"type": "object", "propertyNames": {"pattern": "^[a-c]+$"}, "minProperties": 2},
    {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "maxProperties": 1},
    {"oneOf": [{"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 3}]},
    {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "integer", "minimum": 9}}}]},
    {"anyOf": [False, {"type": "boolean"}]},
    {"type": "string", "not": {"const": "demonstration"}},
    {"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["v"]}, "type": "object"},
    _TREE,
    _EXPRESSION,
    {"properties": {"node": _TREE | {"$id": "urn:tree"}}, "required": ["node"], "type": "object"},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
    {"$defs": {"a/b": {"type": "integer"}}, "$ref": "#/$defs/a~1b"},
    {**_X, "definitions": {"x": {"type": "object", "properties": {"y": _X}}}},
    {"type": "object", "dependentRequired": {"a": ["b"]}, "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {},
    True,
]


@cases("schema", SCHEMAS, ids=str)
def test_is_answered_validly(schema: Any) -> None:
    value = instance(schema)
    jsonschema_rs.validator_for(schema, validate_formats=True).validate(value)
    assert instance(schema) == value
    assert len(json.dumps(value)) < 20_000


@cases("schema", [schema for schema in SCHEMAS if isinstance(schema, dict)], ids=str)
def test_is_answered_over_http(base_url: str, schema: dict[str, Any]) -> None:
    body = {
        "messages": [{"role": "user", "content": "Fill this in"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "any", "schema": schema}},
    }
    answer = json.loads("".join(streamed(base_url + "/chat/completions", body)))
    jsonschema_rs.validator_for(schema).validate(answer)


def test_recursion_that_cannot_end_is_given_up_quickly() -> None:
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    instance(endless)
    wide = {"type": "object", "properties": {f"p{n}": {"anyOf": [{"$ref": "#"}, {"type": "null"}]} for n in range(30)}}
    wide["required"] = list(wide["properties"])
    value = instance(wide)
    jsonschema_rs.validator_for(wide).validate(value)
    assert len(json.dumps(value)) < 100_000


def _strict_schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Schemas as strict mode allows them: closed objects, unions, enums, bounds, references."""
    bounds = st.integers(-50, 50)
    leaves = st.one_of(
        st.sampled_from([{"type": "string"}, {"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}]),
        st.tuples(bounds, bounds).map(lambda pair: {"type": "integer", "minimum": min(pair), "maximum": max(pair)}),
        bounds.map(lambda low: {"type": "number", "exclusiveMinimum": low}),
        st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True).map(lambda values: {"enum": values}),
        st.text(max_size=5).map(lambda value: {"const": value}),
        st.sampled_from(["date-time", "email", "uuid", "ipv4"]).map(lambda name: {"type": "string", "format": name}),
        st.just({"$ref": "#/$defs/link"}),
    )
    nested = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=4).map(closed),
            st.tuples(inner, st.integers(0, 3)).map(lambda of: {"type": "array", "items": of[0], "minItems": of[1]}),
            st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options}),
        ),
        max_leaves=12,
    )
    link = closed({"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/link"}, {"type": "null"}]}})
    properties = st.dictionaries(st.text(min_size=1, max_size=6), nested, min_size=1, max_size=4)
    return properties.map(lambda found: {**closed(found), "$defs": {"link": link}})


@given(_strict_schemas())
def test_every_strict_schema_is_answered_validly(schema: dict[str, Any]) -> None:
    jsonschema_rs.validator_for(schema).validate(instance(schema))


@given(st.from_regex(r"\A(\^)?([a-z0-9]|\[a-z\]|\\d|\\w|\(ab\|c\)|\.){1,6}(\+|\*|\?|\{2,4\})?(\$)?\Z"))
def test_patterns_are_matched(pattern: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    jsonschema_rs.validator_for(schema).validate(instance(schema))


def test_every_schema_of_the_corpus_is_answered_validly(rows: list[dict[str, Any]]) -> None:
    invalid = [
        row["id"] for row in rows if not jsonschema_rs.validator_for(row["schema"]).is_valid(instance(row["schema"]))
    ]
    assert not invalid
