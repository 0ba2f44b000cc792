"""Subagents: children of a turn that work on its `delegate` calls."""

from typing import Any

import pytest
from codelab.agents import agents, subagents
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools import ExecutorTools
from codelab.turns import lifecycle
from codelab.turns.lifecycle import SessionLease

from tests.turns.world import IDE, OTHER, READ, RUN, WRITE, Call, World, refusal

TOOLS = ["read_file", "write_file", "run_command", "delegate"]


def delegate(task: str = "Find it", agent: str = "universal", **arguments: Any) -> Call:
    return "delegate", {"agent": agent, "task": task, **arguments}


def delegating(*calls: Call, **settings: Any) -> tuple[World, list[str], list[World]]:
    """A session whose agent has delegated. Returns the ids of its calls, and the children."""
    world = World(**settings)
    world.hello(capabilities={"tools_supported": TOOLS})
    world.say()
    call_ids = world.answer("", *(calls or (delegate(),)))
    return world, call_ids, [world.of(f"s1/{call_id}") for call_id in call_ids]


def updates(world: World) -> list[tuple[str, str]]:
    return [(frame["call_id"], frame["state"]) for frame in world.of_type("subagent_update")]


def outcome(world: World) -> str:
    """What the agent reads of the newest call."""
    role, content = world.history()[-1]
    assert role == "tool"
    return content


# -- a child, from its beginning to its end ----------------------------------------------------------------------------


def test_a_child_works_on_a_call_and_its_answer_is_the_result() -> None:
    world, [call_id], [child] = delegating(delegate("Find it", "explore", files=["a.py"]))
    assert world.register.phase == "waiting"
    assert world.statuses()[-1] == "executing_tool"
    assert child.register.phase == "dispatched"
    assert child.history() == [("user", "Find it\n\nFiles to begin with: a.py")]
    assert child.register.agent == "explore"
    child.answer("It is in a.py, line 3.")
    assert world.register.phase == "dispatched"
    assert world.register.usage["llm_calls"] == 2
    assert outcome(world) == "It is in a.py, line 3."
    assert world.call_item(call_id)["state"] == "completed"
    assert updates(world) == [(call_id, "running"), (call_id, "completed")]
    assert not child.is_alive
    assert not world.of_type("tool_call")
    assert not world.of_type("call_update"), "clients know the call only by its updates"
    world.answer("There it is.")
    assert world.of_type("turn_end")[-1]["reason"] == "completed"


def test_its_calls_are_the_parents() -> None:
    world, [call_id], [child] = delegating()
    [read] = child.answer("Reading. ", READ)
    frame = world.of_type("tool_call")[-1]
    assert (frame["call_id"], frame["parent_call_id"]) == (read, call_id)
    assert frame["turn_id"] == world.register.turn_id
    update = world.of_type("subagent_update")[-1]
    assert (update["step"], update["text"], update["task"]) == (1, "Reading. ", "Find it")
    world.result(read, result={"content": "x = 1"})
    assert child.register.phase == "dispatched"
    assert child.history()[-1] == ("tool", '{"content":"x = 1"}')
    assert not world.register.child_calls
    assert [role for role, _ in world.history()] == ["user", "assistant"], "the child's words are its own"
    child.answer("Found. ")
    assert outcome(world) == "Found. "


def test_a_human_decides_about_them() -> None:
    world, _, [child] = delegating()
    write, run = child.answer("", WRITE, RUN)
    assert world.statuses()[-1] == "waiting_approval"
    assert set(world.register.child_calls) == {write, run}
    world.decision(write, "edit", modified_arguments={"path": "b.py", "content": "2"})
    world.result(write, result={"success": True})
    world.decision(run, "reject", feedback="not now", caller=OTHER)
    assert child.register.phase == "dispatched"
    results = [content for role, content in child.history() if role == "tool"]
    assert "b.py" in results[0]
    assert "not now" in results[1]
    assert world.statuses()[-1] == "executing_tool"


def test_a_remembered_decision_holds_for_its_calls() -> None:
    world, _, [child] = delegating()
    [write] = child.answer("", WRITE)
    world.decision(write, "approve", remember={"scope": "session", "pattern": "*.py"})
    world.result(write, result={"success": True})
    [again] = child.answer("", WRITE)
    assert world.register.child_calls[again].state == "executing"
    world.result(again, result={"success": True})
    [denied] = child.answer("", ("write_file", {"path": "c.txt", "content": ""}))
    world.decision(denied, "reject", remember={"scope": "session"})
    child.answer("", ("write_file", {"path": "c.txt", "content": ""}))
    assert child.register.phase == "dispatched", "the rule has denied it, and nobody was asked"
    assert "rule" in child.history()[-1][1]


def test_several_work_side_by_side() -> None:
    calls = [delegate(f"Task {n}") for n in range(limits.CHILDREN)]
    world, call_ids, children = delegating(*calls, READ)
    *delegations, read = call_ids
    waiting = [child.answer("", READ)[0] for child in children[:-1]]
    for call_id in reversed(waiting):
        world.result(call_id, result={"content": call_id})
    for child in children[:-1]:
        child.answer(child.history()[-1][1])
    assert world.register.phase == "waiting"
    world.result(read, result={"content": "x"})
    assert world.register.phase == "dispatched"
    results = {content for role, content in world.history() if role == "tool"}
    assert {f'{{"content":"{call_id}"}}' for call_id in waiting} <= results
    assert [world.call_item(call_id)["state"] for call_id in delegations] == ["completed"] * limits.CHILDREN


def test_no_more_than_four_work_at_once() -> None:
    world, call_ids, _ = delegating(*[delegate()] * (limits.CHILDREN + 1))
    assert world.register.delegations == call_ids[:-1]
    assert "4 subagents already work" in outcome(world)


def test_no_more_than_sixteen_work_on_a_turn() -> None:
    world, _, [child] = delegating()
    for n in range(limits.CHILDREN_PER_TURN - 1):
        child.answer("Found. ")
        [call_id] = world.answer("", delegate(f"Task {n}"))
        child = world.of(f"s1/{call_id}")
    child.answer("Found. ")
    world.answer("", delegate())
    assert "do the rest yourself" in outcome(world)
    assert not world.children


# -- what it may do ---------------------------------------------------------------------------------------------------


def test_only_clients_that_declare_it_have_it() -> None:
    universal = agents()["universal"]
    assert "delegate" not in universal.for_executor(ExecutorTools()).tools
    assert "delegate" not in universal.for_executor(ExecutorTools(supported=frozenset({"read_file"}))).tools
    assert "delegate" in universal.for_executor(ExecutorTools(supported=frozenset(TOOLS))).tools


def test_a_subagent_talks_to_no_user_and_delegates_nothing() -> None:
    assert set(subagents()) == {*(name for name, agent in agents().items() if not agent.routes), "explore"}
    for agent in subagents().values():
        lacks = {"delegate", "switch_agent", "update_plan", "propose_plan", "prompt_user"}
        assert lacks.isdisjoint(agent.tools)
    assert {tool.risk for tool in subagents()["explore"].tools.values()} == {"read"}
    assert "explore" not in agents()
    _, _, [child] = delegating()
    child.answer("", delegate())
    assert child.register.phase == "dispatched"
    assert "Unknown tool" in child.history()[-1][1]


@pytest.mark.parametrize("mode", ["ask", "plan"])
def test_the_parents_mode_holds_while_it_works(mode: str) -> None:
    world, _, [child] = delegating()
    [write] = child.answer("", WRITE)
    world.configure(mode=mode)
    assert child.register.phase == "dispatched"
    assert world.call_item(write)["state"] == "rejected"
    child.answer("", WRITE)
    assert f"not allowed in the mode {mode}" in child.history()[-1][1]


def test_autonomy_holds_for_it_too() -> None:
    world, _, [child] = delegating()
    world.configure(mode="autonomous")
    [write] = child.answer("", WRITE)
    assert world.register.child_calls[write].state == "executing"


def test_it_makes_few_calls_at_once() -> None:
    world, _, [child] = delegating()
    child.answer("", *[READ] * (limits.CHILD_CALLS + 2))
    assert len(world.register.child_calls) == limits.CHILD_CALLS
    assert "At most 4 calls" in child.history()[-1][1]


# -- how it ends otherwise --------------------------------------------------------------------------------------------


def test_a_failure_is_told_to_the_agent() -> None:
    world, [call_id], [child] = delegating()
    lease = child.acquire()
    assert lease is not None
    child.fail(lease)
    assert "The subagent failed: The model failed" in outcome(world)
    assert world.register.phase == "dispatched"
    assert updates(world)[-1] == (call_id, "failed")
    assert not world.of_type("error")


def test_it_stops_at_its_limits() -> None:
    world, _, [child] = delegating(max_steps=1)
    [read] = child.answer("So far. ", READ)
    world.result(read, result={"content": "x"})
    assert "The subagent was stopped: max_steps" in dict(world.history())["tool"]
    assert world.of_type("turn_end")[-1]["reason"] == "max_steps", "it was the parent's last step, too"
    world, _, [child] = delegating()
    child.register.usage["prompt_tokens"] = limits.CHILD_TOKENS
    [read] = child.answer("", READ)
    world.result(read, result={"content": "x"})
    assert "The subagent was stopped: budget" in outcome(world)


def test_cancel_ends_all_of_them() -> None:
    world, call_ids, children = delegating(delegate(), delegate(), delegate())
    [write] = children[0].answer("", WRITE)
    [read] = children[1].answer("", READ)
    lease = children[2].acquire()
    world.cancel()
    assert world.register.phase == "idle"
    assert not world.register.child_calls
    assert not world.children
    assert [world.call_item(call_id)["state"] for call_id in (write, read)] == ["cancelled"] * 2
    assert updates(world)[-3:] == [(call_id, "cancelled") for call_id in call_ids]
    assert lease is not None
    assert refusal(lambda: children[2].answer("late", lease=lease)).code is ErrorCode.SESSION_NOT_FOUND
    assert refusal(lambda: world.result(read, result={"content": "late"})).code is ErrorCode.INVALID_CALL_ID


def test_a_crashed_step_of_it_is_repeated_and_then_given_up() -> None:
    world, _, [child] = delegating()
    for attempt in range(3):
        assert child.acquire() is not None, attempt
        world.pass_time(31)
    assert "interrupted 3 times" in outcome(world)
    assert not child.is_alive
    world.pass_time(0)
    assert world.children == []


def test_what_nobody_answers_expires() -> None:
    world, _, [child] = delegating()
    [write] = child.answer("", WRITE)
    world.pass_time(86_401)
    assert world.call_item(write)["state"] == "expired"
    assert child.register.phase == "dispatched"
    child.answer("", WRITE)
    world.pass_time(7 * 86_400)
    assert "delegate timed out" in outcome(world)
    assert not child.is_alive
    assert not world.register.child_calls


def test_it_is_deleted_with_its_parent() -> None:
    world, _, [child] = delegating()
    lease = SessionLease("random", world.now + 60_000)
    world.decide(lambda draft: lifecycle.begin_deletion(draft, lease), include_hidden=True)
    assert not child.is_alive


def everything_waits() -> tuple[World, list[str], list[str]]:
    """As many calls wait for approval as there can be. Returns the ids of the turn's and of the children's."""
    own = [("write_file", {"path": f"{n}.py", "content": ""}) for n in range(limits.CALLS_PER_STEP - limits.CHILDREN)]
    world, call_ids, children = delegating(*[delegate()] * limits.CHILDREN, *own)
    writes = [("write_file", {"path": f"{n}.txt", "content": ""}) for n in range(limits.CHILD_CALLS)]
    of_children = [call_id for child in children[: limits.CHILDREN] for call_id in child.answer("Writing. ", *writes)]
    for n in range(limits.OUT_OF_TURN_CALLS):
        world.execute(f"side_{n}", "write_file", path=f"{n}.md", content="")
    return world, call_ids[limits.CHILDREN :], of_children


def test_a_cancel_of_everything_fits_into_a_transaction() -> None:
    world, own, of_children = everything_waits()
    world.say("And then", id="m2")
    world.cancel()
    assert {world.call_item(call_id)["state"] for call_id in own + of_children} == {"cancelled"}
    assert not world.children


def test_a_switch_that_rejects_everything_fits_into_a_transaction() -> None:
    world, own, of_children = everything_waits()
    world.configure(mode="ask")
    rejected = [call_id for call_id in of_children if world.call_item(call_id)["state"] == "rejected"]
    assert len(rejected) == 8
    assert {world.call_item(call_id)["state"] for call_id in own} == {"rejected"}
    [late, *_] = [call_id for call_id in of_children if call_id not in rejected]
    assert refusal(lambda: world.decision(late, "approve")).code is ErrorCode.INVALID_CALL_ID
    world.pass_time(0)
    assert world.call_item(late)["state"] == "expired"
    assert not world.register.child_calls
    assert {child.register.phase for child in world.children} == {"dispatched"}


# -- clients that come and go -----------------------------------------------------------------------------------------


def test_a_client_that_comes_back_finds_all_of_it() -> None:
    world, call_ids, children = delegating(*[delegate(f"Task {n}") for n in range(4)])
    approvals = [child.answer("", WRITE)[0] for child in children[:2]]
    [read] = children[2].answer("", READ)
    world.leave(IDE)
    world.join(OTHER)
    info = world.hello(OTHER, capabilities={"tools_supported": TOOLS})
    pending = {call["call_id"]: call for call in info["pending_calls"]}
    assert set(pending) == {*approvals, read}
    assert pending[read]["parent_call_id"] == call_ids[2]
    assert [agent["call_id"] for agent in info["subagents"]] == call_ids
    assert [agent["task"] for agent in info["subagents"]] == [f"Task {n}" for n in range(4)]
    assert ("conn-2", world.register.child_calls[read].seq) in world.resends
    world.result(read, caller=OTHER, result={"content": "x"})
    for call_id in approvals:
        world.decision(call_id, "approve", OTHER)
        world.result(call_id, OTHER, result={"success": True})
    for child in children:
        child.answer("Done. ")
    assert world.register.phase == "dispatched"
