"""Every example of the documents is tested: here by parsing it, in the other files by sending it."""

import json

import pytest
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.protocol.incoming import parse_frame
from codelab.protocol.tools import find_tool

from tests.cases import cases
from tests.fakes.ide.dialects import DIALECTS, FIFTEEN_KEYS, Dialect, fifteen_keys
from tests.frames import validator_of
from tests.protocol.conformance.seed_examples import Example, arguments_of, examples, of_kind

#: The number of values in the documents' JSON examples.
COUNTS = {
    "agent_protocol": 23,
    "agent_request": 1,
    "agent_runtime_api": 18,
    "tools_specification": 31,
    "websocket_protocol": 28,
}


def ids(example: Example) -> str:
    return example.id


def test_every_example_is_tested() -> None:
    found = [example.document for example in examples()]
    assert {document: found.count(document) for document in found} == COUNTS
    assert all(example.kind for example in examples())


@cases("example", of_kind("client"), ids=ids)
@cases("dialect", DIALECTS.values(), ids=DIALECTS)
def test_client_frames_are_parsed_alike_in_every_dialect(example: Example, dialect: Dialect) -> None:
    assert parse_frame(json.dumps(dialect(example.value))) == parse_frame(json.dumps(example.value))


def test_all_fifteen_keys_exist_in_order() -> None:
    assert tuple(fifteen_keys({"type": "user_message", "content": "Hi", "role": "user"})) == FIFTEEN_KEYS
    assert len(FIFTEEN_KEYS) == 15


@cases("example", of_kind("server"), ids=ids)
def test_server_frames_have_the_documents_fields_and_values(example: Example) -> None:
    validator = validator_of("ServerFrame", example.value["type"], closed=True)
    assert validator is not None
    # Documents may omit fields, but the fields they have must be known and have the right types.
    wrong = [
        error.message
        for error in validator.iter_errors(example.value)
        if error.instance_path or error.schema_path[-1] == "additionalProperties"
    ]
    assert wrong == []


def calls() -> list[Example]:
    return [example for example in examples() if "tool_name" in example.value and example.kind != "answer"]


@cases("example", [found for found in calls() if found.kind != "request"], ids=ids)
def test_calls_in_examples_are_valid_for_their_tools(example: Example) -> None:
    tool = find_tool(example.value["tool_name"])
    given = arguments_of(example.value)
    assert tool.check(given).keys() == given.keys()
    if "requires_approval" in example.value:
        assert tool.approval is example.value["requires_approval"]


@pytest.mark.parametrize("example", of_kind("context"), ids=ids)
def test_the_context_of_the_request_example_is_accepted(example: Example) -> None:
    request = Request(RequestConfig("m"), {"type": "string"}, example.value)
    assert request.messages == example.value
