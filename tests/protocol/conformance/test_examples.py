"""Every example of the documents is tried: here as it is read, in the other files as it is spoken."""

import json

import pytest
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
from codelab.protocol.incoming import parse_frame
from codelab.protocol.tools import find_tool

from tests.frames import validator_of
from tests.protocol.conformance.client import DIALECTS, FIFTEEN_KEYS, Dialect, fifteen_keys
from tests.protocol.conformance.seed_examples import Example, arguments_of, examples, of_kind

#: How many values the documents' JSON examples have.
COUNTS = {
    "agent_protocol": 23,
    "agent_request": 1,
    "agent_runtime_api": 18,
    "tools_specification": 31,
    "websocket_protocol": 28,
}


def ids(example: Example) -> str:
    return example.id


def test_no_example_is_left_out():
    found = [example.document for example in examples()]
    assert {document: found.count(document) for document in found} == COUNTS
    assert all(example.kind for example in examples())


@pytest.mark.parametrize("example", of_kind("client"), ids=ids)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_clients_frame_is_read_alike_in_every_dialect(example: Example, dialect: Dialect):
    assert parse_frame(json.dumps(dialect(example.value))) == parse_frame(json.dumps(example.value))


def test_the_fifteen_keys_are_all_there_in_their_order():
    assert tuple(fifteen_keys({"type": "user_message", "content": "Hi", "role": "user"})) == FIFTEEN_KEYS
    assert len(FIFTEEN_KEYS) == 15


@pytest.mark.parametrize("example", of_kind("server"), ids=ids)
def test_a_servers_frame_has_the_documents_fields_with_their_values(example: Example):
    validator = validator_of("ServerFrame", example.value["type"], closed=True)
    assert validator is not None
    # What is asked of the whole frame, the document may leave out; its fields must be known and have their types.
    wrong = [
        error.message
        for error in validator.iter_errors(example.value)
        if error.instance_path or error.schema_path[-1] == "additionalProperties"
    ]
    assert wrong == []


def calls() -> list[Example]:
    return [example for example in examples() if "tool_name" in example.value and example.kind != "answer"]


@pytest.mark.parametrize("example", [found for found in calls() if found.kind != "request"], ids=ids)
def test_a_call_is_one_of_a_tool_of_the_catalogue_and_its_arguments_are_valid(example: Example):
    tool = find_tool(example.value["tool_name"])
    given = arguments_of(example.value)
    assert tool.check(given).keys() == given.keys()
    if "requires_approval" in example.value:
        assert tool.approval is example.value["requires_approval"]


@pytest.mark.parametrize("example", of_kind("context"), ids=ids)
def test_the_context_of_a_request_is_taken_as_it_stands(example: Example):
    request = Request(RequestConfig("m"), {"type": "string"}, example.value)
    assert request.messages == example.value
