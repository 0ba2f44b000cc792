"""hitl_decision: a human approves, edits or rejects."""

import json
from typing import Any

import pytest

from tests.fakes.aws.recorder import INVOKE, POST, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions.system import System

WRITE = call("write_file", path="a.py", content="1")
CHANGED = {"path": "/src/b.py", "content": "2"}


def decisions(system: System, call_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(system.item(f"CALL#{call_id}")["decision"])
    return found


def test_an_approval_is_one_read_one_transaction_then_the_posts_and_the_clear(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    (asked,) = [frame for frame in connected.aws.frames("c1") if frame["type"] == "tool_call"]
    assert connected.send("c1", "hitl_decision", call_id=call_id, decision="approve") == {"statusCode": 200}
    assert connected.aws.calls == [READ_MANY, TRANSACTION, POST, POST, UPDATE]
    granted, status = connected.aws.frames("c1")
    changing = {"seq", "deadline", "requires_approval"}
    assert {k: v for k, v in granted.items() if k not in changing} == {
        k: v for k, v in asked.items() if k not in changing
    }
    assert (asked["requires_approval"], granted["requires_approval"]) == (True, False)
    assert status["status"] == "executing_tool"
    assert connected.item(f"CALL#{call_id}")["state"] == "executing"
    assert not any(name.startswith("post#") for name in connected.item("REGISTER")), "all posts were reported"


def test_an_edit_has_the_changed_arguments_executed(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "hitl_decision", call_id=call_id, decision="edit", modified_arguments=CHANGED)
    assert connected.aws.calls == [READ_MANY, TRANSACTION, POST, POST, UPDATE]
    granted = connected.aws.frames("c1")[0]
    assert granted["arguments"] == {"path": "src/b.py", "content": "2"}
    connected.send("c1", "tool_result", call_id=call_id, result={"success": True})
    assert json.loads(connected.history()[-1][1]) == {
        "edited_arguments": {"path": "src/b.py", "content": "2"},
        "result": {"success": True},
    }


def test_a_rejection_of_the_last_call_is_one_read_one_transaction_and_one_invoke(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "hitl_decision", call_id=call_id, decision="reject", feedback="too risky")
    assert connected.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    assert json.loads(connected.history()[-1][1]) == {"status": "rejected", "feedback": "too risky"}
    assert connected.item(f"CALL#{call_id}")["state"] == "rejected"


def test_any_connection_may_decide_and_the_executor_gets_the_call(connected: System) -> None:
    connected.connect("c2")
    connected.connect("c3", extensions=True)
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c2", "hitl_decision", call_id=call_id, decision="approve")
    calls = {c: [f for f in connected.aws.frames(c) if f["type"] == "tool_call"] for c in ("c1", "c2", "c3")}
    assert [frame.get("execute", True) for frame in calls["c1"]] == [True]
    assert calls["c2"] == []
    assert [frame.get("execute", True) for frame in calls["c3"]] == [False]


def test_who_decided_is_recorded(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "hitl_decision", call_id=call_id, decision="reject", feedback="no")
    made = decisions(connected, call_id)
    assert (made["decision"], made["by"], made["connection"], made["feedback"]) == ("reject", "ann", "c1", "no")


@pytest.mark.parametrize(
    "decision",
    [{"decision": "approve"}, {"decision": "edit", "modified_arguments": CHANGED}, {"decision": "reject"}],
    ids=["approve", "edit", "reject"],
)
def test_an_exact_repeat_is_accepted_and_changes_nothing(connected: System, decision: dict[str, Any]) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "hitl_decision", call_id=call_id, **decision)
    before = connected.item("REGISTER")
    connected.send("c1", "hitl_decision", call_id=call_id, **decision)
    assert connected.aws.calls == [READ_MANY]
    assert connected.item("REGISTER") == before


def test_another_decision_for_a_decided_call_is_refused(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    connected.send("c1", "hitl_decision", call_id=call_id, decision="reject")
    assert [frame["error_code"] for frame in connected.aws.frames("c1")] == ["INVALID_CALL_ID"]
    assert decisions(connected, call_id)["decision"] == "approve"


def test_an_approval_after_an_implicit_one_is_accepted(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "tool_result", call_id=call_id, result={"success": True})
    connected.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    assert connected.aws.calls == [READ_MANY]


def test_a_decision_on_a_call_that_needs_none_is_refused(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", call("read_file", path="a.py"))
    connected.send("c1", "hitl_decision", call_id=call_id, decision="reject")
    assert [frame["error_code"] for frame in connected.aws.frames("c1")] == ["INVALID_CALL_ID"]
    assert connected.item(f"CALL#{call_id}")["state"] == "executing"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "modified_arguments.path"),
        ({"path": "a.py"}, "modified_arguments.content"),
        ({"path": 5, "content": ""}, "modified_arguments.path"),
        ({"path": "../a.py", "content": ""}, "modified_arguments.path"),
        ({"path": "C:\\a.py", "content": ""}, "modified_arguments.path"),
        ({"path": "a.py", "content": "", "mode": 1}, "modified_arguments.mode"),
        ({"path": "a.py", "content": "x" * 1_000_001}, "modified_arguments.content"),
    ],
)
def test_an_edit_that_does_not_fit_the_tool_is_refused_and_the_call_still_waits(
    connected: System, arguments: dict[str, Any], field: str
) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "hitl_decision", call_id=call_id, decision="edit", modified_arguments=arguments)
    assert connected.aws.calls == [READ_MANY, POST]
    (error,) = connected.aws.frames("c1")
    assert (error["error_code"], error["details"]["field"]) == ("INVALID_ARGUMENTS", field)
    assert error["call_id"] == call_id
    connected.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    assert connected.item(f"CALL#{call_id}")["state"] == "executing"
