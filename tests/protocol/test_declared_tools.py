"""A client's own tools: which declarations are taken, and that no schema from outside can do harm."""

import json
import random

import pytest
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import Hello, parse_frame
from codelab.protocol.tools import ALIASES, KNOWN
from codelab.protocol.tools.declared import check_schema, declared_tool
from codelab.turns.answers import ANSWER

from tests.llm.schemas import Schemas

DEPLOY = {
    "name": "deploy",
    "description": "Deploy the project to a stage.",
    "parameters": {
        "type": "object",
        "properties": {"stage": {"enum": ["dev", "prod"]}, "dry_run": {"type": "boolean"}},
        "required": ["stage"],
        "additionalProperties": False,
    },
}


def declare(*tools: object) -> Hello:
    found = parse_frame(json.dumps({"type": "hello", "capabilities": {"tools": tools}}))
    assert isinstance(found, Hello)
    return found


def refused(*tools: object) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        declare(*tools)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
    return caught.value


def with_parameters(parameters: object) -> dict:
    return {**DEPLOY, "parameters": parameters}


def test_a_declaration_makes_a_tool_that_asks_for_approval():
    (declaration,) = declare(DEPLOY).capabilities.tools
    tool = declared_tool(declaration.model_dump())
    assert (tool.name, tool.risk, tool.approval, tool.always_approval) == ("deploy", "execute", True, False)
    assert tool.check({"stage": "dev", "dry_run": None}) == {"stage": "dev"}
    with pytest.raises(ProtocolError) as caught:
        tool.check({"stage": "mars"})
    assert (caught.value.code, caught.value.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "stage")


def test_one_that_only_reads_does_not_ask():
    (declaration,) = declare({**DEPLOY, "read_only": True}).capabilities.tools
    tool = declared_tool(declaration.model_dump())
    assert (tool.risk, tool.approval) == ("read", False)


def test_no_parameters_and_explicit_nulls_are_understood():
    (declaration,) = declare(
        {"name": "t", "description": "d", "parameters": None, "read_only": None}
    ).capabilities.tools
    assert declared_tool(declaration.model_dump()).check({}) == {}
    assert parse_frame('{"type": "hello", "capabilities": {"tools": null}}').capabilities.tools is None
    assert parse_frame('{"type": "hello", "capabilities": null}').capabilities.tools is None
    assert declare().capabilities.tools == []


@pytest.mark.parametrize("name", [*KNOWN, *ALIASES])
def test_a_name_of_the_catalogue_is_refused(name):
    error = refused({**DEPLOY, "name": name})
    assert error.details["field"] == "capabilities.tools.0.name"
    assert name in error.message


@pytest.mark.parametrize("name", ["", "1st", "with space", "a/b", "a" * 65, "имя", "a\n", "_tool", 5])
def test_a_malformed_name_is_refused(name):
    assert refused(DEPLOY, {**DEPLOY, "name": name}).details["field"] == "capabilities.tools.1.name"


def test_a_name_twice_is_refused():
    assert "deploy" in refused(DEPLOY, DEPLOY).message


def test_their_number_and_size_are_bounded():
    many = [{**DEPLOY, "name": f"tool_{n}"} for n in range(limits.DECLARED_TOOLS + 1)]
    assert len(declare(*many[1:]).capabilities.tools) == limits.DECLARED_TOOLS
    assert refused(*many).details["field"] == "capabilities.tools"
    wide = [{**DEPLOY, "name": f"tool_{n}", "description": "d" * 2_000} for n in range(20)]
    assert refused(*wide).details["field"] == "capabilities.tools"


def nested(depth: int) -> dict:
    found: dict = {"type": "string"}
    for _ in range(depth):
        found = {"type": "array", "items": found}
    return {"properties": {"a": found}}


#: Each definition uses the next one twice: thirty of them are a billion places.
DOUBLING = {
    "properties": {"a": {"$ref": "#/$defs/d0"}},
    "$defs": {
        **{f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(30)},
        "d30": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    "parameters",
    [
        [],
        "object",
        {"type": "array"},
        {"type": ["object", "null"]},
        {"properties": []},
        {"properties": {"a": {"type": "strnig"}}},
        {"properties": {"a": {"minimum": "5"}}},
        {"properties": {"_tool": {"type": "string"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"pattern": "^(?=.*x)"}}},
        {"properties": {"a": {"pattern": "(a+)\\1"}}},
        {"properties": {"a": {"pattern": "((a{1,1000}){1,1000}){1,1000}"}}},
        {"properties": {"a": {"$ref": "https://example.com/schema.json"}}},
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"properties": {"a": {"$ref": "other.json"}}},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"properties": {"a": {"$ref": "#anchor"}}, "$defs": {"b": {"$anchor": "anchor"}}},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#/allOf/0"}]},
        {"$id": "https://example.com/x", "properties": {}},
        {"properties": {"a": {"$dynamicRef": "#x"}}},
        nested(100),
        DOUBLING,
        {"properties": {f"p{n}": {} for n in range(2_001)}},
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_a_schema_that_is_invalid_or_costs_too_much_is_refused(parameters):
    assert refused(with_parameters(parameters)).details["field"].startswith("capabilities.tools")


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"type": "object"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "string"}}},
        {"properties": {"a": {"type": "string", "pattern": "^[a-z]+$"}, "$ref": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "object", "title": "A"}}},
        {"properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": {"enum": [1, 2]}}},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}},
        nested(15),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_what_tools_are_declared_with_is_taken(parameters):
    (declaration,) = declare(with_parameters(parameters)).capabilities.tools
    tool = declared_tool(declaration.model_dump())
    assert tool.parameters["type"] == "object"


def ask(parameters: dict) -> Request:
    """What a step with this tool asks the model."""
    tool = declared_tool({**DEPLOY, "parameters": parameters, "read_only": False})
    content = {"type": "tool", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return Request(
        RequestConfig("m"), ANSWER, [{"role": "system", "content": content}, {"role": "user", "content": "x"}]
    )


def test_no_schema_that_is_taken_keeps_a_step_from_asking_the_model():
    taken = 0
    for seed in range(400):
        document = Schemas(random.Random(seed)).document()
        for schema in (document, {"type": "object", "properties": {"x": document}}):
            try:
                check_schema(schema if isinstance(schema, dict) else {})
            except ValueError:
                continue
            if isinstance(schema, dict):
                request = ask(schema)
                request._compiled.codec()
                taken += 1
    assert taken > 100
