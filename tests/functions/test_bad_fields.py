"""A frame whose fields are wrong is refused by its function without a look at the session."""

from typing import Any

import pytest

from tests.fakes.aws.recorder import POST
from tests.functions.system import System

BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("user_message", {}, "MISSING_FIELD", "content"),
    ("user_message", {"content": None}, "MISSING_FIELD", "content"),
    ("user_message", {"content": ""}, "INVALID_ARGUMENTS", "content"),
    ("user_message", {"content": 5}, "INVALID_ARGUMENTS", "content"),
    ("user_message", {"content": ["x"]}, "INVALID_ARGUMENTS", "content"),
    ("user_message", {"content": "x" * 100_001}, "INVALID_ARGUMENTS", "content"),
    ("user_message", {"content": "x", "role": "boss"}, "INVALID_ARGUMENTS", "role"),
    ("user_message", {"content": "x", "client_msg_id": 7}, "INVALID_ARGUMENTS", "client_msg_id"),
    ("tool_result", {"result": 1}, "MISSING_FIELD", "call_id"),
    ("tool_result", {"call_id": None, "result": 1}, "MISSING_FIELD", "call_id"),
    ("tool_result", {"call_id": 5, "result": 1}, "INVALID_ARGUMENTS", "call_id"),
    ("tool_result", {"call_id": "call_x"}, "INVALID_ARGUMENTS", "result"),
    ("tool_result", {"call_id": "call_x", "result": 1, "error": "no"}, "INVALID_ARGUMENTS", "error"),
    ("tool_result", {"call_id": "call_x", "error": 5}, "INVALID_ARGUMENTS", "error"),
    ("tool_result", {"call_id": "call_x", "error": {"code": 5, "message": "no"}}, "INVALID_ARGUMENTS", "error"),
    ("hitl_decision", {"decision": "approve"}, "MISSING_FIELD", "call_id"),
    ("hitl_decision", {"call_id": "call_x"}, "MISSING_FIELD", "decision"),
    ("hitl_decision", {"call_id": "call_x", "decision": "maybe"}, "INVALID_ARGUMENTS", "decision"),
    ("hitl_decision", {"call_id": "call_x", "decision": "edit"}, "MISSING_FIELD", "modified_arguments"),
    (
        "hitl_decision",
        {"call_id": "call_x", "decision": "edit", "modified_arguments": "a"},
        "INVALID_ARGUMENTS",
        "modified_arguments",
    ),
    ("hitl_decision", {"call_id": "call_x", "decision": "reject", "feedback": 5}, "INVALID_ARGUMENTS", "feedback"),
    ("context_update", {"action": "add_file", "data": {"content": "1"}}, "MISSING_FIELD", "data.path"),
]


@pytest.mark.parametrize(
    ("frame_type", "fields", "code", "field"),
    BAD,
    ids=[f"{kind}-{n}-{code}" for n, (kind, _, code, _) in enumerate(BAD)],
)
def test_a_frame_with_a_bad_field_is_refused_without_a_read(
    connected: System, frame_type: str, fields: dict[str, Any], code: str, field: str
) -> None:
    before = connected.item("REGISTER")
    connected.send("c1", frame_type, **fields)
    assert connected.aws.calls == [POST]
    (error,) = connected.aws.frames("c1")
    assert (error["type"], error["error_code"], error["details"]["field"]) == ("error", code, field)
    assert error["content"] == error["message"]
    assert "seq" not in error
    assert connected.item("REGISTER") == before
