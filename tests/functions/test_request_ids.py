"""A frame with a `request_id` gets exactly one answer that repeats it; a frame without one gets no `ack`."""

import json
from typing import Any

import pytest

from tests.fakes.model.script import call
from tests.functions.system import System


def answers(system: System, folder: str, **frame: Any) -> list[dict[str, Any]]:
    """The frames without a `seq` that the sender gets."""
    system.send_raw("c1", folder, json.dumps(frame))
    return [found for found in system.aws.frames("c1") if "seq" not in found]


@pytest.mark.parametrize(
    ("folder", "frame", "wanted"),
    [
        ("user_message", {"type": "user_message", "content": "Hi", "client_msg_id": "m1"}, "started"),
        ("control", {"type": "cancel"}, "nothing_to_cancel"),
        ("control", {"type": "cancel", "client_msg_id": "m1"}, "withdrawn"),
        ("control", {"type": "withdraw", "client_msg_id": "m1"}, "withdrawn"),
        ("switch_agent", {"type": "switch_agent", "agent_type": "universal"}, "unchanged"),
        ("control", {"type": "hello"}, "session_info"),
        ("control", {"type": "session_config", "autonomy": "manual"}, "session_info"),
        ("control", {"type": "resume", "last_seq": 0}, "resumed"),
        ("control", {"type": "resume", "last_seq": 99}, "resync_required"),
        ("control", {"type": "rules", "action": "list"}, "rules"),
        ("control", {"type": "ping"}, "pong"),
        ("control", {"type": "upload_request", "bytes": 10}, "upload_ticket"),
        ("context_update", {"type": "context_update", "action": "clear"}, "context_updated"),
        ("user_message", {"type": "user_message"}, "MISSING_FIELD"),
        ("control", {"type": "withdraw"}, "MISSING_FIELD"),
        ("unknown_message", {"type": "nonsense"}, "INVALID_TYPE"),
        ("switch_agent", {"type": "switch_agent", "agent_type": "nobody"}, "INVALID_ARGUMENTS"),
        ("tool_result", {"type": "tool_result", "call_id": "call_x", "result": {}}, "INVALID_CALL_ID"),
        ("control", {"type": "rules", "action": "revoke", "rule_id": "rule_x"}, "INVALID_ARGUMENTS"),
        ("user_message", {"type": "user_message", "payload_ref": "nonsense"}, "INVALID_ARGUMENTS"),
    ],
)
def test_every_frame_is_answered_once(extended: System, folder: str, frame: dict[str, Any], wanted: str) -> None:
    (answer,) = answers(extended, folder, **frame, request_id="r1")
    assert answer["request_id"] == "r1"
    assert wanted in (answer["type"], answer.get("outcome"), answer.get("error_code"))


def test_a_call_and_a_repeat_are_acknowledged(extended: System) -> None:
    (call_id,) = extended.ask("c1", "", call("read_file", path="a.py"))
    result = {"type": "tool_result", "call_id": call_id, "result": {"content": "1"}, "request_id": "r1"}
    for outcome in ("accepted", "repeated"):
        (ack,) = answers(extended, "tool_result", **result)
        assert (ack["type"], ack["outcome"], ack["call_id"]) == ("ack", outcome, call_id)


def test_without_a_request_id_nothing_is_acknowledged(extended: System) -> None:
    assert answers(extended, "control", type="cancel") == []
    assert answers(extended, "user_message", type="user_message", content="Hi") == []


def test_a_refused_message_is_named(extended: System) -> None:
    for fields in ({}, {"content": "x" * 1_000_000}):
        (error,) = answers(extended, "user_message", type="user_message", client_msg_id="m1", **fields)
        assert (error["type"], error["client_msg_id"]) == ("error", "m1")
    (error,) = answers(extended, "user_message", type="user_message", content="Hi", client_msg_id=7, request_id="r1")
    assert (error["request_id"], error["details"]["field"]) == ("r1", "client_msg_id")
    assert "client_msg_id" not in error


def test_a_storage_failure_names_the_frame(extended: System) -> None:
    extended.aws.refuse("TransactWriteItems", 400, "ProvisionedThroughputExceededException")
    (error,) = answers(extended, "user_message", type="user_message", content="Hi", client_msg_id="m1", request_id="r1")
    assert (error["error_code"], error["request_id"], error["client_msg_id"]) == ("DATABASE_ERROR", "r1", "m1")


def test_a_request_id_is_no_setting(extended: System) -> None:
    (info,) = answers(extended, "control", type="session_config", autonomy="manual", request_id="r1")
    assert info["settings"] == {"autonomy": "manual"}
