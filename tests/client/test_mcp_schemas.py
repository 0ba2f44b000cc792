"""Schemas of servers become such as a session takes, and say the same of all that it can check."""

from typing import Any

import pytest
from codelab.protocol.tools.declared import check_schema
from codelab_client.mcp.schemas import usable

TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}, "depth": {"type": "integer"}},
    "required": ["root"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node", "description": "Its parts"}},
            },
        }
    },
}
STRING = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_a_recursive_schema_is_open_where_it_comes_back() -> None:
    with pytest.raises(ValueError, match="recursive"):
        check_schema(TREE)
    made = usable(TREE)
    check_schema(made)
    node = made["$defs"]["node"]["properties"]
    assert node["children"] == {"type": "array", "items": {"description": "Its parts"}}
    assert made["properties"] == TREE["properties"]
    assert made["required"] == ["root"]


@pytest.mark.parametrize(
    "schema",
    [
        of(again={"$ref": "#"}),
        of(again={"$ref": "#/properties/again"}),
        of(a={"$ref": "#/properties/b"}, b={"$ref": "#/properties/a"}),
        of(a={"anyOf": [STRING, {"$ref": "#/properties/a"}]}),
        {
            **of(a={"$ref": "#/definitions/x"}),
            "definitions": {"x": {"items": {"$ref": "#/definitions/y"}}, "y": {"$ref": "#/definitions/x"}},
        },
        of(a={"$dynamicRef": "#node"}),
        of(a={"$recursiveRef": "#"}),
        of(a={"$ref": "https://example.com/schema.json"}),
        of(a={"$ref": "other.json#/x"}),
        of(a={"$ref": "#/nowhere"}),
        of(a={"$ref": "#anchor"}),
        {**of(a=STRING), "$id": "https://example.com/tool", "$schema": "http://json-schema.org/draft-07/schema#"},
        of(a={"type": "string", "pattern": "^(?!\\s)x"}),
        of(a={"type": "string", "pattern": "(?<=a)b"}),
        of(a={"type": "string", "pattern": "(a)\\1"}),
        {**of(), "patternProperties": {"^(?!_)": STRING, "^x-": STRING}, "additionalProperties": False},
    ],
)
def test_what_a_session_does_not_take_is_left_open(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        check_schema(schema)
    check_schema(usable(schema))


@pytest.mark.parametrize(
    "schema",
    [
        of(a={"type": "string", "pattern": "^[a-z]+$"}, b={"enum": ["(?=x)", {"$ref": "#"}]}),
        of(a={"type": "string", "pattern": "\\(\\?=literal\\)"}),
        of(pattern={"type": "string", "default": "(?=x)"}, **{"$ref": STRING, "$id": {"type": "integer"}}),
        {**of(a={"$ref": "#/$defs/x"}, b={"$ref": "#/$defs/x"}), "$defs": {"x": STRING}},
        {**of(a={"$ref": "#/$defs/a~1b"}), "$defs": {"a/b": {"const": {"$ref": "#"}}}},
        {"type": "object", "allOf": [of(a=STRING)], "additionalProperties": True},
    ],
)
def test_what_it_takes_stays_as_it_is(schema: dict[str, Any]) -> None:
    check_schema(schema)
    assert usable(schema) == schema


def test_of_some_names_only_those_that_match_in_linear_time_are_left() -> None:
    schema = {**of(), "patternProperties": {"^(?!_)": STRING, "^x-": STRING}, "additionalProperties": False}
    assert usable(schema) == {**of(), "patternProperties": {"^x-": STRING}}


def test_a_schema_with_many_ways_back_takes_no_long_time() -> None:
    """Where each place is looked at once for each way to it, this takes for ever."""
    names = [f"d{number}" for number in range(100)]
    schema = {
        **of(a={"$ref": "#/$defs/d0"}),
        "$defs": {
            name: of(x={"$ref": f"#/$defs/{other}"}, y={"$ref": f"#/$defs/{other}"}, back={"$ref": "#/$defs/d0"})
            for name, other in zip(names, [*names[1:], "d0"], strict=True)
        },
    }
    made = usable(schema)
    assert made["$defs"]["d7"]["properties"]["back"] == {}
    assert made["$defs"]["d7"]["properties"]["y"] == {"$ref": "#/$defs/d8"}


def test_a_schema_of_any_depth_is_left_to_the_session() -> None:
    schema: dict[str, Any] = STRING
    for _ in range(3_000):
        schema = of(a=schema)
    assert usable(schema)["type"] == "object"
