"""Calls that belong to no turn: an own life beside the turn's, and no trace in its history."""

import json
from typing import Any

from codelab.protocol.errors import ErrorCode
from codelab.turns import control

from tests.turns.world import IDE, OTHER, READ, VIEWER, World, calling, dispatched, refusal, unchanged


def asked_over_http(tool: str, **arguments: Any) -> World:
    """A session in which a program has asked for the call c1."""
    world = World()
    world.execute("c1", tool, **arguments)
    return world


def state(world: World, call_id: str) -> str:
    return str(world.call_item(call_id)["state"])


def outcome(world: World, call_id: str) -> Any:
    return json.loads(world.call_item(call_id)["outcome"])


def test_a_call_goes_to_the_ide_and_its_result_into_no_history() -> None:
    world = asked_over_http("read_file", path="/a.py")
    (frame,) = world.of_type("tool_call")
    assert (frame["call_id"], frame["arguments"], frame["requires_approval"]) == ("c1", {"path": "a.py"}, False)
    assert "turn_id" not in frame
    world.result("c1", result={"content": "x"})
    assert (state(world, "c1"), outcome(world, "c1")) == ("completed", {"result": {"content": "x"}})
    assert world.history() == []
    assert world.statuses() == []
    assert world.register.out_of_turn_calls == {}


def test_a_repeat_is_the_same_call_and_another_of_its_name_is_refused() -> None:
    world = asked_over_http("read_file", path="a.py")
    assert unchanged(world.execute("c1", "read_file", path="/a.py"))
    world.result("c1", result="x")
    assert unchanged(world.execute("c1", "read_file", path="a.py"))
    assert len(world.of_type("tool_call")) == 1
    error = refusal(lambda: world.execute("c1", "read_file", path="b.py"))
    assert (error.code, error.details) == (ErrorCode.INVALID_ARGUMENTS, {"field": "call_id"})


def test_the_name_of_a_call_of_the_model_is_taken() -> None:
    world, (call_id,) = calling(READ)
    assert refusal(lambda: world.execute(call_id, "read_file", path="a.py")).details == {"field": "call_id"}


def test_what_is_dangerous_asks_and_an_approval_has_it_executed() -> None:
    world = asked_over_http("write_file", path="a.py", content="1")
    assert state(world, "c1") == "awaiting_approval"
    world.decision("c1", "edit", modified_arguments={"path": "a.py", "content": "2"})
    asked, sent = world.of_type("tool_call")
    assert (asked["requires_approval"], sent["requires_approval"]) == (True, False)
    assert sent["arguments"]["content"] == "2"
    assert world.statuses() == [], "the agent does nothing"
    world.result("c1", result={"success": True})
    assert state(world, "c1") == "completed"


def test_a_human_may_say_no() -> None:
    world = asked_over_http("run_command", command="ls")
    world.decision("c1", "reject", feedback="not now")
    assert state(world, "c1") == "rejected"
    assert outcome(world, "c1") == {"result": {"status": "rejected", "feedback": "not now"}}


def test_a_call_ends_by_its_own_deadline_beside_a_turn() -> None:
    world = World(tool_timeout_s=30, approval_timeout_s=60)
    world.execute("c1", "read_file", path="a.py")
    world.execute("c2", "write_file", path="a.py", content="1")
    world.say()
    world.acquire()
    world.pass_time(31)
    assert (state(world, "c1"), outcome(world, "c1")["error"]["code"]) == ("failed", "TIMEOUT")
    world.pass_time(31)
    assert state(world, "c2") == "expired"
    assert world.register.out_of_turn_calls == {}


def test_the_steps_of_a_turn_and_its_cancel_leave_a_call_alone() -> None:
    world = asked_over_http("read_file", path="a.py")
    world.say()
    (own,) = world.answer("", READ)
    assert set(world.register.open_calls) == {"c1", own}
    world.result(own, result="x")
    assert world.invokes[-1].step == 2, "the turn does not wait for it"
    world.acquire()
    world.cancel()
    assert state(world, "c1") == "executing"
    world.result("c1", result="y")
    assert state(world, "c1") == "completed"


def test_a_result_does_not_continue_a_turn_that_waits() -> None:
    world = asked_over_http("read_file", path="a.py")
    world.say()
    world.answer("", READ)
    world.result("c1", result="x")
    assert world.invokes[-1].step == 1


def test_a_call_stays_with_its_window_when_another_begins_a_turn() -> None:
    world = dispatched()
    world.answer("ok")
    world.execute("c1", "read_file", path="a.py")
    (frame,) = world.of_type("tool_call")
    world.join(OTHER)
    world.resends.clear()
    world.say("hello", OTHER)
    assert world.register.executor == "conn-2"
    assert world.register.executor_of(frame) == "conn-1"
    assert ("conn-1", frame["seq"]) in world.resends, "is its executor still there?"
    world.resends.clear()
    world.leave()
    assert world.register.executor_of(frame) == "conn-2"
    assert world.resends == [("conn-2", frame["seq"])]
    world.result("c1", OTHER, result="x")
    assert world.register.executor_of(frame) == "", "nobody executes it once more"


def test_a_call_whose_window_is_gone_waits_for_the_next_that_speaks() -> None:
    world = asked_over_http("read_file", path="a.py")
    (frame,) = world.of_type("tool_call")
    world.leave()
    world.join(OTHER)
    world.decide(lambda draft: control.begin_replay(draft, OTHER, frame["seq"]))
    assert world.resends == [("conn-2", frame["seq"])]
    assert world.register.executor_of(frame) == "conn-2"


def test_the_executor_that_is_found_over_http_gets_what_the_last_one_left() -> None:
    world, _ = calling(READ)
    world.join(OTHER)
    world.leave()
    world.execute("c1", "read_file", path="b.py")
    left, new = world.of_type("tool_call")
    assert world.resends == [("conn-2", left["seq"])]
    assert world.register.executor_of(new) == "conn-2"


def test_without_an_ide_a_call_is_refused() -> None:
    world = World()
    world.leave()
    world.join(VIEWER)
    error = refusal(lambda: world.execute("c1", "read_file", path="a.py"))
    assert (error.code, error.details["reason"]) == (ErrorCode.EXECUTION_FAILED, "no_ide")


def test_open_calls_are_bounded() -> None:
    world = World()
    for n in range(16):
        world.execute(f"c{n}", "read_file", path="a.py")
    assert refusal(lambda: world.execute("c16", "read_file", path="a.py")).code is ErrorCode.RATE_LIMITED
    world.result("c0", result="x")
    world.execute("c16", "read_file", path="a.py")


def test_tools_that_are_none_and_arguments_that_do_not_fit_are_refused() -> None:
    world = World()
    assert refusal(lambda: world.execute("c1", "no_such_tool")).code is ErrorCode.TOOL_NOT_FOUND
    assert refusal(lambda: world.execute("c1", "update_plan", items=[])).code is ErrorCode.TOOL_NOT_FOUND
    assert refusal(lambda: world.execute("c1", "read_file", path=5)).code is ErrorCode.INVALID_ARGUMENTS
    assert refusal(lambda: world.execute("c1", "read_file", path="../x")).code is ErrorCode.PATH_OUTSIDE_WORKSPACE


def test_who_comes_is_told_of_the_open_calls() -> None:
    world = asked_over_http("write_file", path="a.py", content="1")
    pending = world.hello()["pending_calls"]
    assert [(call["call_id"], call["state"]) for call in pending] == [("c1", "awaiting_approval")]


def test_a_command_shows_its_output_and_its_time_begins_anew() -> None:
    world = World(tool_timeout_s=10)
    world.execute("c1", "run_command", command="make")
    world.decision("c1", "approve")
    world.pass_time(8)
    world.result("c1", result={"stdout": "a", "exit_code": None})
    world.pass_time(8)
    assert state(world, "c1") == "executing"
    assert world.statuses() == []
    world.pass_time(3)
    assert outcome(world, "c1")["error"]["output_so_far"] == "a"


def test_a_file_that_was_written_is_so_in_the_context() -> None:
    world = World()
    world.context("add_file", "a.py", "old")
    world.execute("c1", "write_file", path="a.py", content="new")
    world.decision("c1", "approve")
    world.result("c1", IDE, result={"success": True})
    assert next(item for sk, item in world.table.items() if sk.startswith("FILE#"))["content"] == "new"


def test_what_a_human_has_decided_of_such_calls_is_remembered() -> None:
    world = asked_over_http("write_file", path="a.py", content="1")
    world.decision("c1", "approve", remember={"scope": "session"})
    world.execute("c2", "write_file", path="a.py", content="2")
    assert state(world, "c2") == "executing"
    world.execute("c3", "delete_file", path="a.py")
    world.decision("c3", "reject", remember={"scope": "session"})
    error = refusal(lambda: world.execute("c4", "delete_file", path="a.py"))
    assert (error.code, set(error.details)) == (ErrorCode.PERMISSION_DENIED, {"rule_id"})
    assert "CALL#c4" not in world.table
