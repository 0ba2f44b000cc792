"""The strict codec: what it guarantees for all schemas, and examples of its output."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from codelab.llm.errors import InvalidRequest
from codelab.llm.schema.codec import Codec, make_codec
from codelab.llm.schema.limits import measure
from codelab.llm.schema.validation import compile_validator

from tests.cases import cases
from tests.llm.encoder import NotEncodable, encode, same_but_for_nulls
from tests.llm.instances import Maker
from tests.llm.schemas import INTEGER, STRING, Schemas, array, closed, obj, optional, special


def round_trip(schema: Any, instance: Any, **options: Any) -> Any:
    """The strict form of an instance, checked to decode to it."""
    codec = make_codec(schema, **options)
    strict = encode(codec, instance)
    assert codec.decode(strict) == instance
    return strict


def assert_not_encodable(schema: Any, instance: Any) -> None:
    with pytest.raises(NotEncodable):
        encode(make_codec(schema), instance)


def strict_codec(schema: Any, **options: Any) -> Codec:
    """The codec, checked to be within the rules and the limits of strict mode."""
    codec = make_codec(schema, **options)
    assert codec.strict
    assert_strict(codec.schema)
    assert measure(codec.schema).exceeded() == []
    return codec


def assert_strict(schema: Any, path: str = "") -> None:
    """Check the rules of the vendor's meta-schema without the meta-schema."""
    allowed = {"type", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs", "enum",
               "const", "description", "title", "pattern", "format", "multipleOf", "minimum", "maximum",
               "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}  # fmt: skip
    assert set(schema) <= allowed, (path, set(schema) - allowed)
    assert "type" in schema or "anyOf" in schema or "$ref" in schema, path
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    assert len(types) == len(set(types)) <= 2, path
    if "object" in types:
        assert schema["required"] == list(schema["properties"]), path
        assert schema["additionalProperties"] is False, path
    if "array" in types:
        assert "items" in schema, path
    assert len(schema.get("anyOf", [1, 2])) > 1, path
    for keyword in ("properties", "$defs"):
        for name, child in schema.get(keyword, {}).items():
            assert_strict(child, f"{path}/{keyword}/{name}")
    if "items" in schema:
        assert_strict(schema["items"], f"{path}/items")
    for index, branch in enumerate(schema.get("anyOf", ())):
        assert_strict(branch, f"{path}/anyOf/{index}")


# Shapes.


def test_a_strict_schema_does_not_change() -> None:
    schema = obj(message=STRING, n={"type": ["integer", "null"]}) | {"additionalProperties": False}
    assert make_codec(schema).schema == schema


def test_an_optional_property_becomes_nullable() -> None:
    schema = optional(a={"type": "string", "enum": ["x", "y"]}, b={"type": "integer", "const": 3})
    codec = make_codec(schema)
    assert codec.schema["required"] == ["a", "b"]
    assert codec.schema["properties"]["a"] == {"type": ["string", "null"], "enum": ["x", "y", None]}
    assert codec.schema["properties"]["b"] == {"type": ["integer", "null"], "enum": [3, None]}
    assert round_trip(schema, {}) == {"a": None, "b": None}


def test_null_becomes_absent_unless_they_differ() -> None:
    schema = optional(a={"type": ["string", "null"]})
    codec = make_codec(schema)
    assert codec.decode(encode(codec, {"a": None})) == {}
    for instance in ({"a": None}, {}, {"a": "x"}):
        round_trip(schema, instance, open_objects="keep")


def test_a_map_becomes_a_list_of_keys_and_values() -> None:
    schema = obj(env={"type": "object", "additionalProperties": STRING, "maxProperties": 3})
    assert round_trip(schema, {"env": {"A": "1", "": "2"}}) == {
        "env": [{"key": "A", "value": "1"}, {"key": "", "value": "2"}]
    }
    assert make_codec(schema).schema["properties"]["env"]["maxItems"] == 3
    assert_not_encodable(schema, {"env": {"A": 1}})


def test_pattern_properties_keep_their_patterns() -> None:
    schema = closed(optional(name=STRING)) | {"patternProperties": {"^x-": INTEGER, "^y-": STRING}}
    round_trip(schema, {"name": "n", "x-a": 1, "y-b": "2"})
    assert '"pattern": "^x-"' in json.dumps(make_codec(schema).schema)
    assert_not_encodable(schema, {"x-a": "text"})
    assert_not_encodable(schema, {"z": 1})


def test_untyped_values_become_json_text_and_quotes_may_be_missing() -> None:
    schema = obj(any={}, also=True)
    for value in (None, 5, "5", "text", [1, {"a": None}], {"b": True}, ""):
        round_trip(schema, {"any": value, "also": value})
    assert make_codec(schema).decode({"any": "plain words", "also": "[1]"}) == {"any": "plain words", "also": [1]}
    assert make_codec(schema).schema["properties"]["any"] == STRING | {"description": "Any value, as JSON text"}


def test_further_keys_are_kept_where_the_schema_allows_them() -> None:
    schema = obj(a=STRING) | {"additionalProperties": INTEGER}
    assert round_trip(schema, {"a": "x", "b": 1}) == {"a": "x", "_extra": [{"key": "b", "value": 1}]}
    taken = obj(_extra=STRING) | {"additionalProperties": True}
    round_trip(taken, {"_extra": "x", "b": [1]})
    silent = obj(a=STRING)
    assert_not_encodable(silent, {"a": "x", "b": 1})
    round_trip(silent, {"a": "x", "b": 1}, open_objects="keep")


@cases(
    ("schema", "instance"),
    [
        (array(INTEGER), [1, 2]),
        ({"type": "string", "enum": ["a"]}, "a"),
        ({"anyOf": [{"type": "null"}, obj(a={"const": 1})]}, None),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"x": 1.5}),
    ],
)
def test_a_root_that_is_not_a_plain_object_is_wrapped(schema: Any, instance: Any) -> None:
    assert list(round_trip(schema, instance)) == ["value"]


def test_objects_and_arrays_in_an_enum_become_labels() -> None:
    schema = obj(e={"enum": [{"a": 1}, [1, 2], "text", None, 5]})
    for value in ({"a": 1}, [1, 2], "text", None, 5):
        round_trip(schema, {"e": value})
    for value in ({"a": 2}, "other", 6, True):
        assert_not_encodable(schema, {"e": value})


def test_one_of_becomes_any_of_with_distinct_branches() -> None:
    branches = [closed(obj(kind={"const": "a"}, value={})), closed(obj(kind={"const": "b"}, value=STRING))]
    schema = {"type": "object", "oneOf": branches}
    assert round_trip(schema, {"kind": "a", "value": "5"})["value"] == {"kind": "a", "value": '"5"'}
    assert round_trip(schema, {"kind": "b", "value": "5"})["value"] == {"kind": "b", "value": "5"}


def test_a_map_is_not_mistaken_for_an_array() -> None:
    schema = obj(v={"type": ["object", "array"], "items": {"type": "object"}})
    for value in ({}, [], {"key": "a", "value": 1}, [{"key": "a", "value": 1}]):
        round_trip(schema, {"v": value})


def test_all_of_is_merged() -> None:
    schema = {
        "allOf": [
            {"$ref": "#/$defs/named"},
            obj(n={"type": "integer", "minimum": 1}),
            {"properties": {"n": {"type": "integer", "maximum": 9}}},
        ],
        "$defs": {"named": obj(name=STRING)},
    }
    codec = make_codec(schema)
    assert codec.schema["properties"]["n"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert round_trip(schema, {"name": "x", "n": 5}) == {"name": "x", "n": 5}


def test_siblings_of_a_reference_follow_the_dialect() -> None:
    schema = {"$ref": "#/$defs/base", "required": ["a"], "$defs": {"base": optional(a=STRING)}}
    assert_not_encodable(schema, {})
    round_trip({**schema, "$schema": "http://json-schema.org/draft-07/schema#"}, {})


@pytest.mark.parametrize("name", ["expression", "tree", "ring of definitions"])
def test_recursion_is_kept(name: str) -> None:
    schema = special()[name]
    made = Maker(schema, random.Random(1), extra_keys=0).valid(10, 60)
    assert len(made) >= 3
    for instance in made:
        round_trip(schema, instance)
    assert "$ref" in json.dumps(make_codec(schema).schema)


def test_anchors_and_embedded_resources_resolve() -> None:
    round_trip(special()["anchors"], {"a": {"x": 1}, "b": {}})
    round_trip(special()["own resource"], {"a": {"self": {"n": 1}, "n": 2}})
    assert_not_encodable(special()["own resource"], {"a": {"self": {"a": {}}}})


def test_conditions_become_branches() -> None:
    schema = obj(kind=STRING) | {
        "if": {"properties": {"kind": {"const": "file"}}},
        "then": {"properties": {"path": STRING}, "required": ["path"]},
        "else": {"properties": {"url": STRING}, "required": ["url"]},
    }
    round_trip(schema, {"kind": "file", "path": "/a"})
    round_trip(schema, {"kind": "link", "url": "http://a"})
    assert_not_encodable(schema, {"kind": "link"})


def test_a_tuple_becomes_an_object_by_position() -> None:
    schema = obj(pair={"type": "array", "prefixItems": [STRING, INTEGER], "items": False})
    assert round_trip(schema, {"pair": ["a", 1]}) == {"pair": {"0": "a", "1": 1}}
    round_trip(schema, {"pair": ["a"]})
    round_trip(schema, {"pair": []})
    assert_not_encodable(schema, {"pair": [1, "a"]})


def test_dropped_keywords_go_into_the_description() -> None:
    schema = obj(
        name={"type": "string", "minLength": 3, "description": "The name."},
        tags={"type": "array", "items": STRING, "uniqueItems": True},
        code={"type": "string", "pattern": "^(?!0)\\d+$"},
    )
    properties = make_codec(schema).schema["properties"]
    assert properties["name"] == {"type": "string", "description": "The name. (minLength: 3)"}
    assert properties["tags"]["description"] == "items are unique"
    assert properties["code"] == {"type": "string", "description": 'pattern: "^(?!0)\\\\d+$"'}


def test_unsupported_keywords_can_be_left_out() -> None:
    schema = obj(a={"type": "string", "pattern": "^a$"}, n={"type": "integer", "minimum": 1})
    properties = make_codec(schema, excluded_keywords=frozenset({"pattern", "minimum"})).schema["properties"]
    assert "pattern" not in properties["a"]
    assert "minimum" not in properties["n"]


def test_draft_4_bounds_are_translated() -> None:
    schema = obj(n={"type": "number", "minimum": 0, "exclusiveMinimum": True})
    assert make_codec(schema).schema["properties"]["n"] == {"type": "number", "exclusiveMinimum": 0}


def test_answers_without_the_strict_form_are_restored_as_far_as_possible() -> None:
    schema = obj(env={"type": "object", "additionalProperties": STRING}, note=STRING)
    codec = make_codec(schema)
    assert codec.decode({"env": {"A": "1"}}) == {"env": {"A": "1"}}
    assert codec.decode({"env": [{"key": "A", "value": "1"}], "other": 1}) == {"env": {"A": "1"}, "other": 1}
    for answer in (None, 5, "x", [], {"env": 5}, {"env": [{"k": 1}]}, {"env": [5], "note": {}}):
        codec.decode(answer)


# Any schema.


@cases("name", special())
@cases("open_objects", ["close", "keep"])
def test_schemas_at_the_limits_become_strict(name: str, open_objects: str) -> None:
    schema = special()[name]
    codec = strict_codec(schema, open_objects=open_objects)
    for instance in Maker(schema, random.Random(2), extra_keys=0).valid(4):
        if open_objects == "keep":
            assert codec.decode(encode(codec, instance)) == instance
            continue
        with contextlib.suppress(NotEncodable):
            assert same_but_for_nulls(codec.decode(encode(codec, instance)), instance)


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 50), *(pytest.param(seed, 200, marks=pytest.mark.deep) for seed in range(1, 4))]
)
def test_hard_random_schemas_become_strict(seed: int, count: int) -> None:
    """All become strict, nearly all instances can be encoded, and all decode to something valid."""
    rng = random.Random(seed)
    schemas = Schemas(rng)
    valid = encoded = 0
    for _ in range(count):
        schema = schemas.document()
        close, keep = strict_codec(schema), strict_codec(schema, open_objects="keep")
        try:
            original = compile_validator(schema)
        except InvalidRequest:
            continue
        for instance in Maker(schema, rng, extra_keys=0.02).valid(3, 12):
            valid += 1
            for codec in (close, keep):
                try:
                    restored = codec.decode(encode(codec, instance, original))
                except NotEncodable:
                    continue
                assert original.is_valid(restored), schema
                encoded += codec is keep
    assert encoded >= 0.97 * valid


def test_broken_schemas_still_become_strict() -> None:
    for schema in (
        {"type": 5, "properties": [], "required": True, "enum": {}, "items": 7},
        {"type": ["string", {"type": "object"}], "anyOf": [], "allOf": 3},
        {"properties": {"a": None, "b": 5, "c": "string"}},
        {"$ref": 5},
        {"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}},
        {"minimum": "three", "maxItems": -1, "multipleOf": 0, "pattern": "(", "format": 7},
        {"type": "number", "minimum": float("inf")},
        {"additionalProperties": 1, "patternProperties": {"(": {}}, "propertyNames": 5},
        False,
    ):
        strict_codec(schema)
    assert not make_codec("nonsense").strict


def test_paths_and_items_are_translated_for_streaming() -> None:
    schema = obj(message=STRING, calls=array(optional(n=INTEGER)))
    codec = make_codec(schema)
    assert codec.strict_path(("message",)) == ("message",)
    assert codec.strict_path(("calls",)) == ("calls",)
    assert codec.strict_path(("nothing",)) is None
    assert codec.decode_item(("calls",), {"n": None}) == {}
    wrapped = make_codec({"anyOf": [schema, {"type": "null"}]})
    assert wrapped.is_wrapped
    untyped = make_codec(obj(message={}))
    assert untyped.strict_path(("message",)) is None


# The real schemas.


def test_a_small_schema_cannot_cause_endless_combinations() -> None:
    schema: dict[str, Any] = STRING
    for _ in range(10):
        first, second = {"anyOf": [schema, INTEGER]}, {"anyOf": [schema, {"type": "null"}]}
        schema = {"allOf": [first, second]}
    codec = make_codec(obj(x=schema))
    assert codec.strict
    assert round_trip(obj(x=schema), {"x": "a"})


@pytest.mark.parametrize("open_objects", ["close", "keep"])
def test_real_schemas_become_strict(rows: list[dict[str, Any]], data: Path | None, open_objects: str) -> None:
    vendors = yaml.safe_load((data / "openai_strict_metaschema.yaml").read_text()) if data else True
    metaschema = jsonschema_rs.validator_for(vendors)
    as_one_text = make_codec(True).schema
    texts = valid = valid_encoded = invalid = invalid_encoded = 0
    for row in rows:
        codec = strict_codec(row["schema"], open_objects=open_objects)
        assert metaschema.is_valid(codec.schema), row["id"]
        original = compile_validator(row["schema"])
        for instance in row["valid"]:
            valid += 1
            try:
                restored = codec.decode(encode(codec, instance, original))
            except NotEncodable:
                continue
            assert original.is_valid(restored), row["id"]
            assert same_but_for_nulls(restored, instance), row["id"]
            valid_encoded += 1
        for instance in row["invalid"]:
            invalid += 1
            try:
                codec.decode(encode(codec, instance))
            except NotEncodable:
                continue
            invalid_encoded += 1
        texts += codec.schema == as_one_text
    assert texts <= 1 + len(rows) // 100
    assert valid - valid_encoded <= round(valid / 1_000)
    assert invalid - invalid_encoded >= 0.75 * invalid
