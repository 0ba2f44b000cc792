"""tool_result: a call is settled; the last one of a step starts the next."""

import json
from typing import Any

import pytest

from tests.fakes.aws.recorder import INVOKE, POST, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions.system import System

READ_A, READ_B = call("read_file", path="a.py"), call("read_file", path="b.py")
WRITE = call("write_file", path="a.py", content="1")


def test_the_last_result_starts_the_next_step_in_one_read_one_transaction_and_one_invoke(connected: System) -> None:
    (call_id,) = connected.ask("c1", "Reading", READ_A)
    assert connected.send("c1", "tool_result", call_id=call_id, result={"content": "x = 1"}) == {"statusCode": 200}
    assert connected.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    ((_, payload),) = connected.aws.invokes
    assert (payload["step"], payload["attempt"], payload["extent"]["history_n"]) == (2, 0, 3)
    assert json.loads(connected.history()[-1][1]) == {"content": "x = 1"}
    settled = connected.item(f"CALL#{call_id}")
    assert settled["state"] == "completed"
    assert json.loads(settled["outcome"]) == {"result": {"content": "x = 1"}}


def test_a_result_that_is_not_the_last_is_one_read_and_one_transaction(connected: System) -> None:
    first, second = connected.ask("c1", "", READ_A, READ_B)
    connected.send("c1", "tool_result", call_id=second, result=None)
    assert connected.aws.calls == [READ_MANY, TRANSACTION]
    connected.send("c1", "tool_result", call_id=first, error="no such file")
    assert connected.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    assert connected.item(f"CALL#{first}")["state"] == "failed"


def test_the_result_that_ends_the_turn_posts_its_frames_and_clears(system: System) -> None:
    system.environment = {"MAX_STEPS": "1"}
    system.connect("c1")
    (call_id,) = system.ask("c1", "", READ_A)
    system.send("c1", "tool_result", call_id=call_id, result={})
    assert system.aws.calls == [READ_MANY, TRANSACTION, POST, POST, UPDATE]
    said, idle = system.aws.frames("c1")
    assert (said["type"], said["is_final"]) == ("assistant_message", True)
    assert (idle["type"], idle["status"]) == ("agent_status", "idle")
    assert "due_at" not in system.item("REGISTER")


def test_an_exact_repeat_is_accepted_and_changes_nothing(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", READ_A)
    connected.send("c1", "tool_result", call_id=call_id, result={"content": "x"})
    before = connected.item("REGISTER")
    connected.send("c1", "tool_result", call_id=call_id, result={"content": "x"})
    assert connected.aws.calls == [READ_MANY]
    assert connected.item("REGISTER") == before


def test_another_result_for_a_settled_call_is_refused(connected: System) -> None:
    first, _ = connected.ask("c1", "", READ_A, READ_B)
    connected.send("c1", "tool_result", call_id=first, result={"content": "x"})
    connected.send("c1", "tool_result", call_id=first, result={"content": "y"})
    assert connected.aws.calls == [READ_MANY, POST]
    (error,) = connected.aws.frames("c1")
    assert (error["type"], error["error_code"], error["call_id"]) == ("error", "INVALID_CALL_ID", first)
    assert error["content"] == error["message"]


def test_a_result_for_a_call_of_another_session_is_refused(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", READ_A)
    before = connected.item("REGISTER")
    connected.connect("c2", session="s2")
    connected.send("c2", "tool_result", call_id=call_id, result={})
    assert [frame["error_code"] for frame in connected.aws.frames("c2")] == ["INVALID_CALL_ID"]
    assert connected.item("REGISTER") == before


def test_a_late_result_of_a_rejected_call_is_ignored(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "hitl_decision", call_id=call_id, decision="reject")
    connected.send("c1", "tool_result", call_id=call_id, result={"success": True})
    assert connected.aws.calls == [READ_MANY]
    assert connected.item(f"CALL#{call_id}")["state"] == "rejected"


def test_a_result_of_the_executor_for_a_call_that_awaits_approval_approves_it(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "tool_result", call_id=call_id, result={"success": True})
    assert connected.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    decision = json.loads(connected.item(f"CALL#{call_id}")["decision"])
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


def test_a_piece_of_output_leaves_the_call_open(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", call("run_command", command="ls"))
    connected.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    connected.send("c1", "tool_result", call_id=call_id, result={"stdout": "a", "stderr": "", "exit_code": None})
    assert connected.aws.invokes == []
    assert connected.item(f"CALL#{call_id}")["state"] == "executing"
    connected.send("c1", "tool_result", call_id=call_id, result={"stdout": "ab", "stderr": "", "exit_code": 0})
    assert connected.aws.calls == [READ_MANY, TRANSACTION, INVOKE]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"error": "gone"}, {"code": "EXECUTION_FAILED", "message": "gone"}),
        ({"error": "gone", "error_code": "FILE_NOT_FOUND"}, {"code": "FILE_NOT_FOUND", "message": "gone"}),
        ({"error": {"code": "FILE_NOT_FOUND", "message": "gone"}}, {"code": "FILE_NOT_FOUND", "message": "gone"}),
        ({"error": {"code": "E_WHATEVER", "message": "gone"}}, {"code": "EXECUTION_FAILED", "message": "gone"}),
        (
            {"error": {"code": "TOOL_EXECUTION_ERROR", "message": "gone"}},
            {"code": "EXECUTION_FAILED", "message": "gone"},
        ),
        ({"result": None, "error": "gone"}, {"code": "EXECUTION_FAILED", "message": "gone"}),
    ],
)
def test_every_shape_of_an_error_is_one_to_the_model(
    connected: System, fields: dict[str, Any], error: dict[str, str]
) -> None:
    (call_id,) = connected.ask("c1", "", READ_A)
    connected.send("c1", "tool_result", call_id=call_id, **fields)
    assert json.loads(connected.history()[-1][1]) == {"error": error}


def test_behind_results_the_model_reads_once_more_what_the_user_said_in_this_turn(extended: System) -> None:
    extended.model.says("Hi.")
    extended.say("c1", "An earlier question")
    extended.model.says("", READ_A)
    [first] = extended.say("c1", "Read a.py" + "!" * 2_000)
    extended.send("c1", "user_message", content="And b.py", when_busy="steer")
    extended.model.says("", READ_B)
    extended.send("c1", "tool_result", call_id=first, result={"content": "x = 1"})
    extended.run_step()
    [second] = extended.item("REGISTER")["calls"]
    extended.model.says("Both are read.")
    extended.send("c1", "tool_result", call_id=second, result={"content": "y = 2"})
    extended.run_step()
    prompts = [request["messages"][-1]["content"] for request in extended.model.requests]
    assert ["The task was:" in prompt for prompt in prompts] == [False, False, False, True]
    reminder = prompts[-1].partition("The task was:\n")[2]
    assert reminder.startswith("Read a.py!!!")
    assert "And b.py\n\nIf the task is done," in reminder
    assert len(reminder) < 1_000
    assert "An earlier question" not in reminder
