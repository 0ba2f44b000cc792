"""Remembered approvals: what they cost, where they are kept, and that no race lets a revoked one be used."""

import json
from typing import Any

from tests.fakes.aws.recorder import POST, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions.system import Context, System

WRITE = call("write_file", path="a.py", content="1")


def remembered(system: System, connection: str = "c1", action: str = "list", **fields: Any) -> list[dict[str, Any]]:
    system.send_raw(connection, "control", json.dumps({"type": "rules", "action": action, **fields}))
    (frame,) = [frame for frame in system.aws.frames(connection) if frame["type"] == "rules"]
    found: list[dict[str, Any]] = frame["rules"]
    return found


def allow(system: System, connection: str, scope: str) -> None:
    """A turn in which the human allows WRITE from now on."""
    (call_id,) = system.ask(connection, "", WRITE)
    system.send(connection, "hitl_decision", call_id=call_id, decision="approve", remember={"scope": scope})
    system.send(connection, "tool_result", call_id=call_id, result={"success": True})
    system.model.says("Done.")
    system.run_step()


def test_a_rule_is_written_in_the_transaction_of_its_decision_without_a_call_more(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", WRITE)
    connected.send("c1", "hitl_decision", call_id=call_id, decision="approve", remember={"scope": "user"})
    assert connected.aws.calls[:2] == [READ_MANY, TRANSACTION]
    assert connected.aws.calls.count(READ_MANY) == connected.aws.calls.count(TRANSACTION) == 1
    assert ("USER#ann", "USER_RULES") in connected.all_keys()


def test_a_step_reads_the_rules_with_its_history(connected: System) -> None:
    for scope in ("session", "user"):
        allow(connected, "c1", scope)
    connected.ask("c1", "", WRITE)
    assert connected.aws.calls.count(READ_MANY) == 1
    assert connected.aws.calls.count(TRANSACTION) == 1
    (frame,) = [frame for frame in connected.aws.frames("c1") if frame["type"] == "tool_call"]
    assert frame["requires_approval"] is False


def test_a_users_rule_counts_in_all_sessions_of_that_user_and_of_no_other(system: System) -> None:
    system.connect("c1", "s1")
    allow(system, "c1", "user")
    system.connect("c2", "s2")
    system.connect("c3", "s1", user="bob")
    asked = {}
    for connection in ("c2", "c3"):
        system.ask(connection, "", WRITE)
        (frame,) = [frame for frame in system.aws.frames(connection) if frame["type"] == "tool_call"]
        asked[connection] = frame["requires_approval"]
    assert asked == {"c2": False, "c3": True}
    assert remembered(system, "c3") == []


def test_a_rule_that_is_revoked_in_another_session_while_the_model_answers_is_not_used(system: System) -> None:
    system.connect("c1", "s1")
    allow(system, "c1", "user")
    system.connect("c2", "s2")
    (rule,) = remembered(system, "c2")

    def meanwhile() -> Any:
        control = system.function("control")
        body = {"type": "rules", "action": "revoke", "rule_id": rule["rule_id"]}
        control(system.event("c2", body))
        yield json.dumps({"message": "", "calls": [WRITE]})

    system.model.answers.append(meanwhile())
    system.say("c1")
    frame = [frame for frame in system.aws.frames("c1") if frame["type"] == "tool_call"][-1]
    assert frame["requires_approval"] is True


def test_listing_is_one_read_one_transaction_and_the_answer(connected: System) -> None:
    assert remembered(connected) == []
    assert connected.aws.calls == [READ_MANY, UPDATE, POST]
    assert remembered(connected) == []
    assert connected.aws.calls == [READ_MANY, POST], "nothing has changed"


def test_revoking_what_is_not_there_is_refused(connected: System) -> None:
    connected.send_raw("c1", "control", json.dumps({"type": "rules", "action": "revoke", "rule_id": "rule_x"}))
    (error,) = connected.aws.frames("c1")
    assert (error["error_code"], error["details"]) == ("INVALID_ARGUMENTS", {"field": "rule_id"})
    connected.send_raw("c1", "control", json.dumps({"type": "rules", "action": "revoke"}))
    (error,) = connected.aws.frames("c1")
    assert (error["error_code"], error["details"]) == ("MISSING_FIELD", {"field": "rule_id"})


def test_a_users_rule_approves_what_a_program_has_executed(system: System) -> None:
    system.connect("c1", "s1")

    def execute() -> dict[str, Any]:
        body = {"session_id": "s1", "tool_name": "write_file", "arguments": {"path": "a.py", "content": "1"}}
        status, _ = system.http("POST", "/tools/execute", Context(2_000), body=body)
        assert status == 202
        return next(frame for frame in system.aws.frames("c1") if frame["type"] == "tool_call")

    asked = execute()
    assert asked["requires_approval"] is True
    remember = {"scope": "user"}
    system.send("c1", "hitl_decision", call_id=asked["call_id"], decision="approve", remember=remember)
    assert execute()["requires_approval"] is False
