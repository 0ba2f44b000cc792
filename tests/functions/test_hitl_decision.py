"""hitl_decision: a human approves, edits or rejects."""

import json
from typing import Any

import pytest

from tests.functions.recorder import CLEAR, INVOKE, POST, READ_MANY, TRANSACTION
from tests.functions.system import System
from tests.scripted_model import call

WRITE = call("write_file", path="a.py", content="1")
CHANGED = {"path": "/src/b.py", "content": "2"}


def decisions(system: System, call_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(system.item(f"CALL#{call_id}")["decision"])
    return found


def test_an_approval_is_one_read_one_transaction_then_the_posts_and_the_clear(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    (asked,) = [frame for frame in system.aws.frames("c1") if frame["type"] == "tool_call"]
    assert system.send("c1", "hitl_decision", call_id=call_id, decision="approve") == {"statusCode": 200}
    assert system.aws.calls == [READ_MANY, TRANSACTION, POST, POST, CLEAR]
    granted, status = system.aws.frames("c1")
    changing = {"seq", "deadline", "requires_approval"}
    assert {k: v for k, v in granted.items() if k not in changing} == {
        k: v for k, v in asked.items() if k not in changing
    }
    assert (asked["requires_approval"], granted["requires_approval"]) == (True, False)
    assert status["status"] == "executing_tool"
    assert system.item(f"CALL#{call_id}")["state"] == "executing"
    assert not any(name.startswith("post#") for name in system.item("REGISTER")), "all posts were reported"


def test_an_edit_has_the_changed_arguments_executed(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "hitl_decision", call_id=call_id, decision="edit", modified_arguments=CHANGED)
    assert system.aws.calls == [READ_MANY, TRANSACTION, POST, POST, CLEAR]
    granted = system.aws.frames("c1")[0]
    assert granted["arguments"] == {"path": "src/b.py", "content": "2"}
    system.send("c1", "tool_result", call_id=call_id, result={"success": True})
    assert json.loads(system.history()[-1][1]) == {
        "edited_arguments": {"path": "src/b.py", "content": "2"},
        "result": {"success": True},
    }


def test_a_rejection_of_the_last_call_is_one_read_one_transaction_and_one_invoke(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "hitl_decision", call_id=call_id, decision="reject", feedback="too risky")
    assert system.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    assert json.loads(system.history()[-1][1]) == {"status": "rejected", "feedback": "too risky"}
    assert system.item(f"CALL#{call_id}")["state"] == "rejected"


def test_any_connection_may_decide_and_the_executor_gets_the_call(system: System) -> None:
    system.connect("c1")
    system.connect("c2")
    system.connect("c3", extensions=True)
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c2", "hitl_decision", call_id=call_id, decision="approve")
    calls = {c: [f for f in system.aws.frames(c) if f["type"] == "tool_call"] for c in ("c1", "c2", "c3")}
    assert [frame.get("execute", True) for frame in calls["c1"]] == [True]
    assert calls["c2"] == []
    assert [frame.get("execute", True) for frame in calls["c3"]] == [False]


def test_who_decided_is_recorded(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "hitl_decision", call_id=call_id, decision="reject", feedback="no")
    made = decisions(system, call_id)
    assert (made["decision"], made["by"], made["connection"], made["feedback"]) == ("reject", "ann", "c1", "no")


@pytest.mark.parametrize(
    "decision",
    [{"decision": "approve"}, {"decision": "edit", "modified_arguments": CHANGED}, {"decision": "reject"}],
    ids=["approve", "edit", "reject"],
)
def test_an_exact_repeat_is_accepted_and_changes_nothing(system: System, decision: dict[str, Any]) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "hitl_decision", call_id=call_id, **decision)
    before = system.item("REGISTER")
    system.send("c1", "hitl_decision", call_id=call_id, **decision)
    assert system.aws.calls == [READ_MANY]
    assert system.item("REGISTER") == before


def test_another_decision_for_a_decided_call_is_refused(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    system.send("c1", "hitl_decision", call_id=call_id, decision="reject")
    assert [frame["error_code"] for frame in system.aws.frames("c1")] == ["INVALID_CALL_ID"]
    assert decisions(system, call_id)["decision"] == "approve"


def test_an_approval_after_an_implicit_one_is_accepted(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "tool_result", call_id=call_id, result={"success": True})
    system.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    assert system.aws.calls == [READ_MANY]


def test_a_decision_on_a_call_that_needs_none_is_refused(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", call("read_file", path="a.py"))
    system.send("c1", "hitl_decision", call_id=call_id, decision="reject")
    assert [frame["error_code"] for frame in system.aws.frames("c1")] == ["INVALID_CALL_ID"]
    assert system.item(f"CALL#{call_id}")["state"] == "executing"


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
    system: System, arguments: dict[str, Any], field: str
) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", WRITE)
    system.send("c1", "hitl_decision", call_id=call_id, decision="edit", modified_arguments=arguments)
    assert system.aws.calls == [READ_MANY, POST]
    (error,) = system.aws.frames("c1")
    assert (error["error_code"], error["details"]["field"]) == ("INVALID_ARGUMENTS", field)
    assert error["call_id"] == call_id
    system.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    assert system.item(f"CALL#{call_id}")["state"] == "executing"


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"decision": "approve"}, "MISSING_FIELD", "call_id"),
    ({"call_id": "call_x"}, "MISSING_FIELD", "decision"),
    ({"call_id": "call_x", "decision": "maybe"}, "INVALID_ARGUMENTS", "decision"),
    ({"call_id": "call_x", "decision": "edit"}, "MISSING_FIELD", "modified_arguments"),
    ({"call_id": "call_x", "decision": "edit", "modified_arguments": "a"}, "INVALID_ARGUMENTS", "modified_arguments"),
    ({"call_id": "call_x", "decision": "reject", "feedback": 5}, "INVALID_ARGUMENTS", "feedback"),
]


@pytest.mark.parametrize(("fields", "code", "field"), BAD, ids=[f"{n}-{code}" for n, (_, code, _) in enumerate(BAD)])
def test_a_bad_decision_is_refused_without_a_read(
    system: System, fields: dict[str, Any], code: str, field: str
) -> None:
    system.connect("c1")
    system.send("c1", "hitl_decision", **fields)
    assert system.aws.calls == [POST]
    (error,) = system.aws.frames("c1")
    assert (error["error_code"], error["details"]["field"]) == (code, field)
