"""Client frames: what is accepted, and how invalid frames are refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import FRAMES, HitlDecision, ToolResult, UserMessage, parse_frame

from tests.cases import cases
from tests.turns.world import refusal

EDIT = {"type": "hitl_decision", "call_id": "c", "decision": "edit"}


def frame(**fields: Any) -> Any:
    return parse_frame(json.dumps(fields))


def refused(body: str) -> ProtocolError:
    return refusal(lambda: parse_frame(body))


@cases("body", ["", "not json", "{", "[1]", "5", "null", '"text"', '{"type":"user_message","content":NaN}'])
def test_bodies_that_are_no_json_object_are_invalid_format(body: Any) -> None:
    assert refused(body).code is ErrorCode.INVALID_FORMAT


@cases("body", ["{}", '{"type":null}', '{"type":5}', '{"type":"nonsense"}', '{"type":["user_message"]}'])
def test_unknown_or_missing_types_are_invalid_type(body: Any) -> None:
    error = refused(body)
    assert (error.code, error.details) == (ErrorCode.INVALID_TYPE, {"field": "type"})


@cases(
    ("fields", "code", "field"),
    [
        ({"type": "user_message"}, "MISSING_FIELD", "content"),
        ({"type": "user_message", "content": None}, "MISSING_FIELD", "content"),
        ({"type": "user_message", "content": 5}, "INVALID_ARGUMENTS", "content"),
        ({"type": "user_message", "content": ""}, "INVALID_ARGUMENTS", "content"),
        ({"type": "user_message", "content": "x" * 100_001}, "INVALID_ARGUMENTS", "content"),
        ({"type": "user_message", "content": "x", "role": "king"}, "INVALID_ARGUMENTS", "role"),
        ({"type": "tool_result", "result": 1}, "MISSING_FIELD", "call_id"),
        ({"type": "tool_result", "call_id": "c"}, "INVALID_ARGUMENTS", "result"),
        ({"type": "tool_result", "call_id": "c", "result": 1, "error": "x"}, "INVALID_ARGUMENTS", "error"),
        ({"type": "tool_result", "call_id": "c", "error": 5}, "INVALID_ARGUMENTS", "error"),
        ({"type": "hitl_decision", "call_id": "c"}, "MISSING_FIELD", "decision"),
        ({"type": "hitl_decision", "call_id": "c", "decision": "maybe"}, "INVALID_ARGUMENTS", "decision"),
        (EDIT, "MISSING_FIELD", "modified_arguments"),
        ({**EDIT, "modified_arguments": [1]}, "INVALID_ARGUMENTS", "modified_arguments"),
    ],
)
def test_an_invalid_field_is_named_in_the_error(fields: Any, code: str, field: str) -> None:
    error = refused(json.dumps(fields))
    assert (error.code, error.details["field"]) == (code, field)
    assert error.call_id == fields.get("call_id")


def test_a_message_may_have_a_hundred_thousand_characters() -> None:
    assert len(frame(type="user_message", content="😀" * 100_000).content) == 100_000


def test_lone_surrogates_are_refused() -> None:
    assert refused(r'{"type":"user_message","content":"\ud800"}').code is ErrorCode.INVALID_FORMAT


@pytest.mark.parametrize("number", ["1e400", "-1E+999", "1" * 400 + ".0"])
def test_numbers_that_json_cannot_represent_are_refused(number: int) -> None:
    body = '{"type":"tool_result","call_id":"c","result":{"a":' + number + "}}"
    assert refused(body).code is ErrorCode.INVALID_FORMAT


def test_long_integers_and_long_texts_are_accepted() -> None:
    body = '{"type":"tool_result","call_id":"c","result":["' + "1" * 500 + '", 1e300]}'
    assert parse_frame(body).result[1] == 1e300


def test_nothing_of_a_frame_is_kept_for_the_next_one() -> None:
    body = json.dumps({"type": "user_message", "content": "my secret"})
    assert parse_frame(body).content is not parse_frame(body).content


def test_unknown_fields_and_nulls_are_ignored() -> None:
    found = frame(
        type="user_message",
        content="hi",
        role="user",
        **dict.fromkeys(["is_final", "call_id", "tool_name", "arguments", "result", "error", "reason", "metadata"]),
        from_a_later_version={"x": 1},
    )
    assert found == UserMessage(type="user_message", content="hi")


@cases(
    ("fields", "code", "message"),
    [
        ({"error": "File not found"}, "EXECUTION_FAILED", "File not found"),
        ({"error": "gone", "error_code": "FILE_NOT_FOUND"}, "FILE_NOT_FOUND", "gone"),
        ({"error": {"code": "FILE_NOT_FOUND", "message": "gone"}}, "FILE_NOT_FOUND", "gone"),
        ({"error": {"code": "TOOL_EXECUTION_ERROR", "message": "bang"}}, "EXECUTION_FAILED", "bang"),
        ({"error": {"code": "MY_OWN_CODE", "message": "bang"}}, "EXECUTION_FAILED", "bang"),
        ({"error": {"message": "bang"}, "result": None}, "EXECUTION_FAILED", "bang"),
    ],
)
def test_all_shapes_of_a_tool_error_are_normalized(fields: Any, code: str, message: Any) -> None:
    found = frame(type="tool_result", call_id="c", **fields)
    assert isinstance(found, ToolResult)
    assert found.error is not None
    assert (found.error.code, found.error.message) == (code, message)


def test_a_null_result_is_a_success() -> None:
    found = frame(type="tool_result", call_id="c", result=None, error=None)
    assert isinstance(found, ToolResult)
    assert found.error is None


@cases(
    ("result", "partial"),
    [
        ({"stdout": "a", "exit_code": None}, True),
        ({"stdout": "a", "exit_code": None, "signal": "SIGKILL"}, False),
        ({"stdout": "a", "exit_code": 0}, False),
        ({"stdout": "a"}, False),
    ],
)
def test_output_without_an_exit_code_is_partial(result: Any, partial: Any) -> None:
    assert frame(type="tool_result", call_id="c", result=result).has_no_exit_code is partial


def test_modified_arguments_have_two_accepted_names() -> None:
    found = frame(**EDIT, modified_args={"path": "a"})
    assert isinstance(found, HitlDecision)
    assert found.modified_arguments == {"path": "a"}
    both = {"modified_args": {"path": "a"}, "modified_arguments": {"path": "b"}}
    assert refused(json.dumps({**EDIT, **both})).code is ErrorCode.INVALID_ARGUMENTS


def test_impossible_offsets_are_refused() -> None:
    body = '{"type": "tool_result", "call_id": "c1", "result": {}, "offset": 1' + "0" * 40 + "}"
    assert refused(body).code is ErrorCode.INVALID_ARGUMENTS


def test_every_type_of_frame_has_a_route() -> None:
    template = (Path(__file__).parents[2] / "template.yaml").read_text()
    assert set(re.findall(r"RouteKey: (\w+)$", template, re.MULTILINE)) == set(FRAMES)
