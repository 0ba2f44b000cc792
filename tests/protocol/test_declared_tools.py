"""Clients' own tools: valid declarations, and protection against hostile schemas."""

import json
import random
from typing import Any

import pytest
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import Hello, parse_frame
from codelab.protocol.tools import ALIASES, KNOWN_TOOLS
from codelab.protocol.tools.declared import check_schema, declared_tool
from codelab.protocol.tools.tool import Tool
from codelab.turns.model_answers import ANSWER

from tests.cases import cases
from tests.llm.schemas import Schemas
from tests.turns.world import refusal

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


def declared(declaration: dict) -> Tool:
    (found,) = declare(declaration).capabilities.tools
    return declared_tool(found.model_dump())


def refused(*tools: object) -> ProtocolError:
    error = refusal(lambda: declare(*tools))
    assert error.code is ErrorCode.INVALID_ARGUMENTS
    return error


def test_declared_tools_need_approval() -> None:
    tool = declared(DEPLOY)
    assert (tool.name, tool.risk, tool.approval, tool.always_approval) == ("deploy", "execute", True, False)
    assert tool.check({"stage": "dev", "dry_run": None}) == {"stage": "dev"}
    error = refusal(lambda: tool.check({"stage": "mars"}))
    assert (error.code, error.details["field"]) == (ErrorCode.INVALID_ARGUMENTS, "stage")


def test_read_only_declared_tools_need_no_approval() -> None:
    tool = declared({**DEPLOY, "read_only": True})
    assert (tool.risk, tool.approval) == ("read", False)


def test_parameters_may_be_missing_or_null() -> None:
    assert declared({"name": "t", "description": "d", "parameters": None, "read_only": None}).check({}) == {}
    assert parse_frame('{"type": "hello", "capabilities": {"tools": null}}').capabilities.tools is None
    assert parse_frame('{"type": "hello", "capabilities": null}').capabilities.tools is None
    assert declare().capabilities.tools == []


@cases("name", [*KNOWN_TOOLS, *ALIASES])
def test_names_and_aliases_of_the_catalogue_are_refused(name: str) -> None:
    error = refused({**DEPLOY, "name": name})
    assert error.details["field"] == "capabilities.tools.0.name"
    assert name in error.message


@cases("name", ["", "1st", "with space", "a/b", "a" * 65, "имя", "a\n", "_tool", 5])
def test_a_malformed_name_is_refused(name: str) -> None:
    assert refused(DEPLOY, {**DEPLOY, "name": name}).details["field"] == "capabilities.tools.1.name"


def test_repeated_names_are_refused() -> None:
    assert "deploy" in refused(DEPLOY, DEPLOY).message


def test_number_and_size_of_declarations_are_limited() -> None:
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


#: Each definition uses the next one twice, so thirty definitions expand to a billion places.
DOUBLING = {
    "properties": {"a": {"$ref": "#/$defs/d0"}},
    "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)} | {"d30": {"type": "string"}},
}


@cases(
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
def test_invalid_or_expensive_schemas_are_refused(parameters: Any) -> None:
    assert refused({**DEPLOY, "parameters": parameters}).details["field"].startswith("capabilities.tools")


@cases(
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
def test_usual_schemas_are_accepted(parameters: Any) -> None:
    assert declared({**DEPLOY, "parameters": parameters}).parameters["type"] == "object"


def ask(parameters: dict) -> Request:
    """A step's Request with this tool."""
    tool = declared_tool({**DEPLOY, "parameters": parameters, "read_only": False})
    content = {"type": "tool", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
    context = [{"role": "system", "content": content}, {"role": "user", "content": "x"}]
    return Request(RequestConfig("m"), ANSWER, context)


@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.deep)])
def test_every_accepted_schema_can_be_sent_to_the_model(count: int) -> None:
    taken = 0
    for seed in range(count):
        document = Schemas(random.Random(seed)).document()
        for schema in (document, {"type": "object", "properties": {"x": document}}):
            try:
                check_schema(schema if isinstance(schema, dict) else {})
            except ValueError:
                continue
            if isinstance(schema, dict):
                ask(schema)._compiled.codec()
                taken += 1
    assert taken > count // 4
