"""tool_result: a call is settled; the last one of a step starts the next."""

import json
from typing import Any

import pytest

from tests.functions.recorder import CLEAR, INVOKE, POST, READ_MANY, TRANSACTION
from tests.functions.system import System
from tests.scripted_model import call

READ_A, READ_B = call("read_file", path="a.py"), call("read_file", path="b.py")
WRITE = call("write_file", path="a.py", content="1")


def test_the_last_result_starts_the_next_step_in_one_read_one_transaction_and_one_invoke(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "Reading", READ_A)
    assert system.send("c1", "tool_result", call_id=call_id, result={"content": "x = 1"}) == {"statusCode": 200}
    assert system.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    ((_, payload),) = system.aws.invokes
    assert (payload["step"], payload["attempt"], payload["extent"]["history_n"]) == (2, 0, 3)
    assert json.loads(system.history()[-1][1]) == {"content": "x = 1"}
    settled = system.item(f"CALL#{call_id}")
    assert settled["state"] == "completed"
    assert json.loads(settled["outcome"]) == {"result": {"content": "x = 1"}}


def test_a_result_that_is_not_the_last_is_one_read_and_one_transaction(system: System) -> None:
    system.connect("c1")
    first, second = system.ask("c1", "", READ_A, READ_B)
    system.send("c1", "tool_result", call_id=second, result=None)
    assert system.aws.calls == [READ_MANY, TRANSACTION]
    system.send("c1", "tool_result", call_id=first, error="no such file")
    assert system.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    assert system.item(f"CALL#{first}")["state"] == "failed"


def test_the_result_that_ends_the_turn_posts_its_frames_and_clears(system: System) -> None:
    system.environment = {"MAX_STEPS": "1"}
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    system.send("c1", "tool_result", call_id=call_id, result={})
    assert system.aws.calls == [READ_MANY, TRANSACTION, POST, POST, CLEAR]
    said, idle = system.aws.frames("c1")
    assert (said["type"], said["is_final"]) == ("assistant_message", True)
    assert (idle["type"], idle["status"]) == ("agent_status", "idle")
    assert "due_at" not in system.item("REGISTER")


def test_an_exact_repeat_is_accepted_and_changes_nothing(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    system.send("c1", "tool_result", call_id=call_id, result={"content": "x"})
    before = system.item("REGISTER")
    system.send("c1", "tool_result", call_id=call_id, result={"content": "x"})
    assert system.aws.calls == [READ_MANY]
    assert system.item("REGISTER") == before


def refused(system: System) -> dict[str, Any]:
    """The only frame, an error."""
    (error,) = system.aws.frames("c1")
    assert error["type"] == "error"
    assert error["content"] == error["message"]
    return error


def test_another_result_for_a_settled_call_is_refused(system: System) -> None:
    system.connect("c1")
    first, _ = system.ask("c1", "", READ_A, READ_B)
    system.send("c1", "tool_result", call_id=first, result={"content": "x"})
    system.send("c1", "tool_result", call_id=first, result={"content": "y"})
    assert system.aws.calls == [READ_MANY, POST]
    assert (refused(system)["error_code"], refused(system)["call_id"]) == ("INVALID_CALL_ID", first)


def test_a_result_for_a_call_of_another_session_is_refused(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    before = system.item("REGISTER")
    system.connect("c2", session="s2")
    system.send("c2", "tool_result", call_id=call_id, result={})
    assert [frame["error_code"] for frame in system.aws.frames("c2")] == ["INVALID_CALL_ID"]
    assert system.item("REGISTER") == before


def test_a_late_result_of_a_rejected_call_is_ignored(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "hitl_decision", call_id=call_id, decision="reject")
    system.send("c1", "tool_result", call_id=call_id, result={"success": True})
    assert system.aws.calls == [READ_MANY]
    assert system.item(f"CALL#{call_id}")["state"] == "rejected"


def test_a_result_of_the_executor_for_a_call_that_awaits_approval_approves_it(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "tool_result", call_id=call_id, result={"success": True})
    assert system.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    decision = json.loads(system.item(f"CALL#{call_id}")["decision"])
    assert (decision["decision"], decision["implicit"]) == ("approve", True)


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_result_without_the_approval_that_is_due_is_refused(system: System, strict: str) -> None:
    system.environment = {"HITL_STRICT": strict}
    system.connect("c1")
    system.connect("c2")
    (call_id,) = system.ask("c1", "", WRITE)
    sender = "c1" if strict == "true" else "c2"  # not the executor: its result is nobody's approval
    system.send(sender, "tool_result", call_id=call_id, result={"success": True})
    assert [frame["error_code"] for frame in system.aws.frames(sender)] == ["PERMISSION_DENIED"]
    assert system.item(f"CALL#{call_id}")["state"] == "awaiting_approval"


def test_a_piece_of_output_leaves_the_call_open(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", call("run_command", command="ls"))
    system.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    system.send("c1", "tool_result", call_id=call_id, result={"stdout": "a", "stderr": "", "exit_code": None})
    assert system.aws.invokes == []
    assert system.item(f"CALL#{call_id}")["state"] == "executing"
    system.send("c1", "tool_result", call_id=call_id, result={"stdout": "ab", "stderr": "", "exit_code": 0})
    assert system.aws.calls == [READ_MANY, TRANSACTION, INVOKE]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"error": "gone"}, {"code": "EXECUTION_FAILED", "message": "gone"}),
        ({"error": "gone", "error_code": "FILE_NOT_FOUND"}, {"code": "FILE_NOT_FOUND", "message": "gone"}),
        (
            {"error": {"code": "FILE_NOT_FOUND", "message": "gone"}},
            {"code": "FILE_NOT_FOUND", "message": "gone"},
        ),
        ({"error": {"code": "E_WHATEVER", "message": "gone"}}, {"code": "EXECUTION_FAILED", "message": "gone"}),
        (
            {"error": {"code": "TOOL_EXECUTION_ERROR", "message": "gone"}},
            {"code": "EXECUTION_FAILED", "message": "gone"},
        ),
        ({"result": None, "error": "gone"}, {"code": "EXECUTION_FAILED", "message": "gone"}),
    ],
)
def test_every_shape_of_an_error_is_one_to_the_model(
    system: System, fields: dict[str, Any], error: dict[str, str]
) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    system.send("c1", "tool_result", call_id=call_id, **fields)
    assert json.loads(system.history()[-1][1]) == {"error": error}


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"result": 1}, "MISSING_FIELD", "call_id"),
    ({"call_id": None, "result": 1}, "MISSING_FIELD", "call_id"),
    ({"call_id": 5, "result": 1}, "INVALID_ARGUMENTS", "call_id"),
    ({"call_id": "call_x"}, "INVALID_ARGUMENTS", "result"),
    ({"call_id": "call_x", "result": 1, "error": "no"}, "INVALID_ARGUMENTS", "error"),
    ({"call_id": "call_x", "error": 5}, "INVALID_ARGUMENTS", "error"),
    ({"call_id": "call_x", "error": {"code": 5, "message": "no"}}, "INVALID_ARGUMENTS", "error"),
]


@pytest.mark.parametrize(("fields", "code", "field"), BAD, ids=[f"{n}-{code}" for n, (_, code, _) in enumerate(BAD)])
def test_a_bad_result_is_refused_without_a_read(system: System, fields: dict[str, Any], code: str, field: str) -> None:
    system.connect("c1")
    system.send("c1", "tool_result", **fields)
    assert system.aws.calls == [POST]
    assert (refused(system)["error_code"], refused(system)["details"]["field"]) == (code, field)
