"""Modes: what a session's agent may do, whatever its model says; and plans, which a human decides about."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from codelab.protocol.errors import ErrorCode
from codelab.protocol.modes import mode_of
from codelab.protocol.tools import CATALOGUE, KNOWN_TOOLS
from codelab.sessions import keys
from codelab.sessions.items import Audience
from codelab.sessions.register import Phase

from tests.cases import cases
from tests.turns.world import OTHER, READ, RUN, VIEWER, WRITE, Call, World, refusal, unchanged

PLAN: Call = ("propose_plan", {"steps": ["Test a.py", "Mend a.py"], "explanation": "It is broken."})
EDITED = {"steps": ["Mend a.py"]}
READING = ("ask", "plan")
CHANGING = tuple(name for name, tool in KNOWN_TOOLS.items() if tool.risk != "read")


def in_mode(mode: str, *wanted: Call, **settings: Any) -> tuple[World, list[str]]:
    """A session in this mode whose agent has answered with these calls, and their ids."""
    world = World(**settings)
    world.configure(mode=mode)
    world.say()
    return world, world.answer("", *wanted) if wanted else []


def results(world: World) -> list[dict[str, Any]]:
    return [json.loads(content) for role, content in world.history() if role == "tool"]


def switches(world: World) -> list[tuple[str, str]]:
    return [(frame["from_mode"], frame["to_mode"]) for frame in world.of_type("mode_switched")]


def example(tool: str) -> Call:
    return tool, CATALOGUE[tool].examples[0].arguments


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", READING)
def test_every_tool_that_can_change_something_is_refused_whatever_is_configured(mode: str) -> None:
    """Also with a wide autonomy, no list of the operator, remembered rules, and as text."""
    world = World(hitl_enabled=False, remember_commands=True)
    world.hello(platform="linux")
    world.configure(autonomy="autonomous")
    for tool, arguments in (WRITE, RUN):
        world.say()
        world.configure(autonomy="manual")
        (call_id,) = world.answer("", (tool, arguments))
        world.decision(call_id, "approve", remember={"scope": "session"})
        world.result(call_id, result={"done": True})
        world.answer("Done")
    world.configure(autonomy="autonomous")
    world.configure(mode=mode)
    shown = len(world.of_type("tool_call"))
    for name in CHANGING:
        if name not in CATALOGUE:
            continue
        for is_text in (False, True):
            world.say()
            (call_id,) = world.answer("", WRITE if name == "write_file" else example(name), is_text=is_text)
            assert results(world)[-1]["error"]["code"] == ErrorCode.PERMISSION_DENIED, name
            assert world.call_item(call_id)["state"] == "failed"
            world.answer("Then not")
    assert len(world.of_type("tool_call")) == shown, "no client saw any of them"


def test_a_clients_own_tool_is_refused_unless_it_only_reads() -> None:
    from codelab.protocol.modes import offers
    from codelab.protocol.tools.declared import declared_tool

    declaration = {"name": "ide.deploy", "description": "Deploys", "parameters": {}, "trusted": True}
    changing, reading = (declared_tool({**declaration, "read_only": only_reads}) for only_reads in (False, True))
    for mode in READING:
        assert (offers(mode, changing), offers(mode, reading)) == (False, True)
    assert all(offers(mode, tool) for mode in ("manual", "code", "autonomous") for tool in (changing, reading))


@pytest.mark.parametrize("mode", READING)
def test_of_several_calls_those_that_read_are_made(mode: str) -> None:
    world, (read_id, _write_id) = in_mode(mode, READ, WRITE)
    assert [frame["call_id"] for frame in world.of_type("tool_call")] == [read_id]
    world.result(read_id, result="x")
    assert [set(result) for result in results(world)[:1]] == [{"error"}]
    assert world.register.phase is Phase.DISPATCHED


@pytest.mark.parametrize("mode", READING)
def test_a_program_cannot_change_anything_either(mode: str) -> None:
    world, _ = in_mode(mode)
    error = refusal(lambda: world.execute("call_1", *[WRITE[0]], **WRITE[1]))
    assert (error.code, error.details) == (ErrorCode.PERMISSION_DENIED, {"reason": "mode", "mode": mode})
    assert world.execute("call_2", "read_file", path="a.py")


def test_a_handover_does_not_leave_the_mode() -> None:
    world, _ = in_mode("plan", ("switch_agent", {"agent_type": "coder", "reason": "It writes"}))
    assert world.register.agent == "coder"
    world.answer("", WRITE)
    assert results(world)[-1]["error"]["code"] == ErrorCode.PERMISSION_DENIED


def test_the_model_that_keeps_trying_is_stopped() -> None:
    world, _ = in_mode("ask", WRITE)
    for _ in range(4):
        world.answer("", WRITE)
    assert world.of_type("turn_end")[-1]["reason"] == "error"


# -- a mode that is switched -----------------------------------------------------------------------------------------


def test_a_switch_is_told_to_everybody_with_extensions_once() -> None:
    world = World()
    world.join(OTHER)
    for mode in ("plan", "plan", "autonomous", "code", "code"):
        world.configure(OTHER, mode=mode)
    assert switches(world) == [("code", "plan"), ("plan", "autonomous"), ("autonomous", "code")]
    assert {event.audience for event in world.events if event.frame["type"] == "mode_switched"} == {Audience.EXTENSIONS}
    assert world.hello()["mode"] == "code"


def test_a_switch_that_comes_late_or_twice_undoes_nothing() -> None:
    world = World()
    world.configure(mode="plan", last_seq=0)
    world.configure(mode="code", last_seq=len(world.frames))
    for _ in range(2):
        world.configure(mode="plan", last_seq=0)  # as it was sent first
        assert world.replies[-1][1]["mode"] == "code"
    assert switches(world) == [("code", "plan"), ("plan", "code")]
    world.configure(OTHER, mode="plan", last_seq=len(world.frames), when_busy="reject")
    world.configure(mode="autonomous", last_seq=len(world.frames) - 1, when_busy="queue")
    assert (world.hello()["mode"], world.hello()["settings"]["when_busy"]) == ("plan", "queue")


def test_mode_and_autonomy_are_one_setting() -> None:
    world = World()
    assert (world.hello()["mode"], world.hello()["settings"]) == ("code", {})
    for autonomy, mode in (("manual", "manual"), ("autonomous", "autonomous"), ("balanced", "code")):
        world.configure(autonomy=autonomy)
        assert (world.hello()["mode"], world.hello()["settings"]) == (mode, {"autonomy": autonomy})
    for mode, autonomy in (("manual", "manual"), ("plan", "manual"), ("ask", "manual"), ("code", "balanced")):
        world.configure(mode=mode)
        assert (world.hello()["mode"], world.hello()["settings"]) == (mode, {"autonomy": autonomy})
    world.configure(mode="plan")
    world.configure(autonomy="autonomous")
    assert world.hello()["mode"] == "autonomous"
    error = refusal(lambda: world.configure(mode="plan", autonomy="manual"))
    assert (error.code, error.details) == (ErrorCode.INVALID_ARGUMENTS, {"field": "autonomy"})
    assert world.hello()["mode"] == "autonomous", "a refused frame changes nothing"


def test_a_session_of_an_earlier_version_has_a_mode() -> None:
    assert [mode_of({"autonomy": level}) for level in ("manual", "balanced", "autonomous")] == [
        "manual",
        "code",
        "autonomous",
    ]
    assert mode_of({}) == "code"


@pytest.mark.parametrize("mode", READING)
def test_a_call_that_waits_for_approval_is_rejected_by_the_switch(mode: str) -> None:
    world, (read_id, write_id) = in_mode("code", READ, WRITE)
    world.configure(mode=mode)
    assert world.call_item(write_id)["state"] == "rejected"
    assert set(world.register.open_step_calls) == {read_id}
    assert world.statuses()[-1] == "executing_tool"
    for late in (
        lambda: world.decision(write_id, "approve"),
        lambda: world.decision(write_id, "edit", modified_arguments=WRITE[1]),
    ):
        assert refusal(late).code is ErrorCode.INVALID_CALL_ID
    assert unchanged(world.result(write_id, result="written")), "a late result of a rejected call changes nothing"
    world.result(read_id, result="x")
    assert world.register.phase is Phase.DISPATCHED
    assert {"status": "rejected", "reason": "mode", "mode": mode} in results(world)


def test_a_call_that_was_approved_before_the_switch_goes_on() -> None:
    world, (call_id,) = in_mode("code", WRITE)
    world.decision(call_id, "approve")
    world.configure(mode="ask")
    assert world.hello()["pending_calls"][0]["state"] == "executing"
    world.result(call_id, result={"success": True})
    assert world.call_item(call_id)["state"] == "completed"
    world.answer("", WRITE)
    assert results(world)[-1]["error"]["code"] == ErrorCode.PERMISSION_DENIED


def test_what_a_server_of_an_earlier_version_left_waiting_is_not_approved() -> None:
    """It knows no modes: during a deployment it may commit an answer in a session whose mode is new."""
    world, (call_id,) = in_mode("code", WRITE)
    world.register = replace(world.register, settings={"mode": "plan"})
    assert refusal(lambda: world.decision(call_id, "approve")).code is ErrorCode.PERMISSION_DENIED
    assert refusal(lambda: world.result(call_id, result="written")).code is ErrorCode.PERMISSION_DENIED
    assert world.decision(call_id, "reject")


def test_a_waiting_call_of_a_tool_that_is_gone_does_not_hold_up_a_switch() -> None:
    world, (call_id,) = in_mode("code", WRITE)
    key = keys.call_key(call_id)
    world.table[key] = {**world.table[key], "tool": "gone"}
    world.configure(mode="ask")
    assert world.call_item(call_id)["state"] == "rejected"


@pytest.mark.parametrize("is_planned", [True, False])
def test_what_a_mode_has_refused_may_be_called_in_the_next_one(is_planned: bool) -> None:
    world, _ = in_mode("plan")
    for _ in range(3):
        world.answer("", WRITE)
    if is_planned:
        (plan_id,) = world.answer("", PLAN)
        world.decision(plan_id, "approve")
    else:
        world.configure(mode="code")
    (call_id,) = world.answer("", WRITE)
    assert world.call_item(call_id)["state"] == "awaiting_approval"


def test_a_call_that_only_reads_waits_on() -> None:
    world, (call_id,) = in_mode("code", ("fetch_url", {"url": "https://example.com/"}))
    world.configure(mode="plan")
    assert world.decision(call_id, "approve")


def test_an_answer_that_was_begun_before_the_switch_is_judged_by_the_new_mode() -> None:
    world, _ = in_mode("code")
    lease = world.acquire()
    world.configure(mode="plan")
    world.answer("", WRITE, lease=lease)
    assert not world.of_type("tool_call")
    world.answer("", PLAN)
    assert world.statuses()[-1] == "waiting_approval"


def test_a_plan_that_is_proposed_when_the_user_has_gone_on_is_refused() -> None:
    world, _ = in_mode("plan")
    lease = world.acquire()
    world.configure(mode="code")
    world.answer("", PLAN, lease=lease)
    assert "the mode code" in results(world)[-1]["error"]["message"]
    assert not world.of_type("tool_call")


def test_a_call_of_a_program_that_waits_is_rejected_by_the_switch() -> None:
    world, _ = in_mode("code")
    world.execute("call_1", "write_file", path="a.py", content="1")
    world.configure(mode="ask")
    assert world.call_item("call_1")["state"] == "rejected"
    assert not world.register.out_of_turn_calls
    assert refusal(lambda: world.decision("call_1", "approve")).code is ErrorCode.INVALID_CALL_ID


def test_more_freedom_decides_no_call_that_waits() -> None:
    world, (call_id,) = in_mode("manual", WRITE)
    world.configure(mode="autonomous")
    assert world.hello()["pending_calls"][0]["state"] == "awaiting_approval"
    assert world.decision(call_id, "approve")


# -- plans -----------------------------------------------------------------------------------------------------------


def test_an_accepted_plan_is_shown_and_carried_out() -> None:
    world, (call_id,) = in_mode("plan", PLAN)
    (frame,) = world.of_type("tool_call")
    assert (frame["tool_name"], frame["requires_approval"], frame["arguments"]) == ("propose_plan", True, PLAN[1])
    assert world.hello()["pending_calls"][0]["arguments"] == PLAN[1], "who comes later can decide"
    world.decision(call_id, "approve", OTHER)
    assert switches(world)[-1] == ("plan", "code")
    assert world.of_type("mode_switched")[-1]["call_id"] == call_id
    assert world.hello()["plan"] == [{"text": text, "status": "pending"} for text in PLAN[1]["steps"]]
    assert world.hello()["mode"] == "code"
    assert len(world.of_type("tool_call")) == 1, "no client executes it"
    assert world.call_item(call_id)["state"] == "completed"
    assert results(world)[-1]["status"] == "accepted"
    assert world.register.phase is Phase.DISPATCHED
    world.answer("", WRITE)
    assert world.of_type("tool_call")[-1]["requires_approval"], "each change is decided as in the mode"


def test_the_edited_plan_is_the_one_that_counts() -> None:
    world, (call_id,) = in_mode("plan", PLAN)
    assert refusal(lambda: world.decision(call_id, "edit", modified_arguments={"steps": []})).code is (
        ErrorCode.INVALID_ARGUMENTS
    )
    world.decision(call_id, "edit", modified_arguments=EDITED)
    assert world.hello()["plan"] == [{"text": "Mend a.py", "status": "pending"}]
    assert results(world)[-1]["edited_arguments"] == EDITED
    assert world.hello()["mode"] == "code"


def test_after_a_rejected_plan_the_model_proposes_another_one() -> None:
    world, (call_id,) = in_mode("plan", PLAN)
    world.decision(call_id, "reject", feedback="Without the test")
    assert (world.hello()["mode"], world.hello()["plan"]) == ("plan", [])
    assert results(world)[-1]["feedback"] == "Without the test"
    world.answer("", WRITE)
    assert results(world)[-1]["error"]["code"] == ErrorCode.PERMISSION_DENIED
    (call_id,) = world.answer("", ("propose_plan", EDITED))
    world.decision(call_id, "approve")
    assert world.hello()["mode"] == "code"


@cases(
    ("autonomy", "chosen", "expected"),
    [("manual", None, "manual"), ("autonomous", None, "autonomous"), (None, None, "code"), ("manual", "code", "code")],
)
def test_the_plan_is_carried_out_as_before_unless_the_user_says_otherwise(
    autonomy: str | None, chosen: str | None, expected: str
) -> None:
    world = World()
    if autonomy:
        world.configure(autonomy=autonomy)
    world.configure(mode="plan")
    world.say()
    (call_id,) = world.answer("", PLAN)
    decision: dict[str, Any] = {"mode": chosen} if chosen else {}
    world.decision(call_id, "approve", **decision)
    assert world.hello()["mode"] == expected
    assert unchanged(world.decision(call_id, "approve", **decision)), "a repeat"
    assert refusal(lambda: world.decision(call_id, "approve", mode="autonomous")).code is ErrorCode.INVALID_CALL_ID


def test_only_the_acceptance_of_a_plan_has_a_mode() -> None:
    world, (call_id,) = in_mode("code", WRITE)
    error = refusal(lambda: world.decision(call_id, "approve", mode="autonomous"))
    assert (error.code, error.details) == (ErrorCode.INVALID_ARGUMENTS, {"field": "mode"})
    world, (call_id,) = in_mode("plan", PLAN)
    assert refusal(lambda: world.decision(call_id, "reject", mode="code")).code is ErrorCode.INVALID_ARGUMENTS
    assert world.hello()["mode"] == "plan"


def test_no_result_no_rule_and_no_program_accepts_a_plan() -> None:
    world, (call_id,) = in_mode("plan", PLAN, hitl_enabled=False)
    outcomes: tuple[dict[str, Any], ...] = (
        {"result": {"status": "accepted"}},
        {"error": {"code": "EXECUTION_FAILED", "message": "no"}},
    )
    for outcome in outcomes:
        assert refusal(partial(world.result, call_id, **outcome)).code is ErrorCode.PERMISSION_DENIED
    assert refusal(lambda: world.result(call_id, VIEWER, result={})).code is ErrorCode.PERMISSION_DENIED
    for pattern in ({}, {"pattern": "**"}):
        remember = {"scope": "session", **pattern}
        refused = refusal(partial(world.decision, call_id, "approve", remember=remember))
        assert refused.code is ErrorCode.INVALID_ARGUMENTS
    assert refusal(lambda: world.execute("call_9", *[PLAN[0]], **PLAN[1])).code is ErrorCode.TOOL_NOT_FOUND
    assert world.hello()["mode"] == "plan"
    assert world.hello()["pending_calls"][0]["state"] == "awaiting_approval"


def test_a_plan_that_nobody_decides_about_is_not_accepted() -> None:
    world, (call_id,) = in_mode("plan", PLAN, approval_timeout_s=60)
    world.pass_time(61)
    assert world.call_item(call_id)["state"] == "expired"
    assert (world.hello()["mode"], world.hello()["plan"]) == ("plan", [])
    assert world.register.phase is Phase.DISPATCHED


def test_a_cancelled_plan_is_not_accepted() -> None:
    world, (call_id,) = in_mode("plan", PLAN)
    world.cancel()
    assert world.call_item(call_id)["state"] == "cancelled"
    assert refusal(lambda: world.decision(call_id, "approve")).code is ErrorCode.INVALID_CALL_ID
    assert world.hello()["mode"] == "plan"


@cases("mode", ["ask", "manual", "code", "autonomous"])
def test_a_plan_that_waits_is_rejected_by_a_switch_to_another_mode(mode: str) -> None:
    world, (call_id,) = in_mode("plan", PLAN)
    world.configure(mode=mode)
    assert world.call_item(call_id)["state"] == "rejected"
    assert refusal(lambda: world.decision(call_id, "approve")).code is ErrorCode.INVALID_CALL_ID
    assert (world.hello()["mode"], world.hello()["plan"]) == (mode, [])
    assert world.register.phase is Phase.DISPATCHED


def test_what_is_read_beside_the_plan_is_waited_for() -> None:
    world, (read_id, plan_id, second_id, write_id) = in_mode("plan", READ, PLAN, ("propose_plan", EDITED), WRITE)
    assert [frame["call_id"] for frame in world.of_type("tool_call")] == [read_id, plan_id]
    assert {world.call_item(call_id)["state"] for call_id in (second_id, write_id)} == {"failed"}
    world.decision(plan_id, "approve")
    assert world.hello()["mode"] == "code"
    assert set(world.register.open_step_calls) == {read_id}
    world.result(read_id, result="x")
    assert world.register.phase is Phase.DISPATCHED


@cases("mode", ["ask", "manual", "code", "autonomous"])
def test_a_plan_is_only_proposed_in_its_mode(mode: str) -> None:
    world, _ = in_mode(mode, PLAN)
    assert results(world)[-1]["error"]["code"] == ErrorCode.PERMISSION_DENIED
    assert not world.of_type("tool_call")


def test_in_the_mode_plan_no_list_stands_for_an_accepted_one() -> None:
    world, _ = in_mode("plan", ("update_plan", {"items": [{"text": "Mend", "status": "pending"}]}))
    assert results(world)[-1]["error"]["code"] == ErrorCode.PERMISSION_DENIED
    assert not world.of_type("plan")
