"""Tools that the engine executes itself: no IDE sees the call, the model gets its result like any other."""

import json

from codelab.agents.handover import with_targets
from codelab.protocol.tools import CATALOGUE
from codelab.protocol.tools.server import DELEGATE
from codelab.sessions.register import Phase
from codelab.turns import server_tools

from tests.turns.world import OTHER, READ, World, calling, dispatched, running

PLAN = ("update_plan", {"items": [{"text": "Read the file", "status": "in_progress"}]})
TO_CODER = ("switch_agent", {"agent_type": "coder", "reason": "It writes code"})
TO_UNIVERSAL = ("switch_agent", {"agent_type": "universal", "reason": "It does everything"})


def results(world: World) -> list[dict[str, object]]:
    return [json.loads(content) for role, content in world.history() if role == "tool"]


def test_every_tool_of_the_server_can_be_executed() -> None:
    assert {*server_tools.TOOLS, DELEGATE} == {tool.name for tool in CATALOGUE.values() if tool.server_side}


def test_the_next_step_follows_at_once_and_no_call_is_sent() -> None:
    world = dispatched()
    (call_id,) = world.answer("I plan", PLAN)
    assert world.register.phase is Phase.DISPATCHED
    assert world.register.step == 2
    assert not world.of_type("tool_call")
    assert world.call_item(call_id)["state"] == "completed"
    assert results(world) == [{"status": "shown"}]


def test_a_plan_is_shown_and_told_to_who_comes_later() -> None:
    world = dispatched()
    done = {"items": [{"text": "Read the file", "status": "completed"}]}
    world.answer("", PLAN, ("update_plan", done))
    assert [frame["items"] for frame in world.of_type("plan")] == [PLAN[1]["items"], done["items"]]
    assert world.hello(OTHER)["plan"] == done["items"]
    world.answer("", ("update_plan", {"items": []}))
    assert world.hello()["plan"] == []


def test_a_bad_plan_is_the_models_to_correct() -> None:
    world, _ = calling(("update_plan", {"items": [{"text": "Read", "status": "soon"}]}))
    (result,) = results(world)
    assert result["error"]["code"] == "INVALID_ARGUMENTS"  # type: ignore[index]
    assert not world.of_type("plan")
    assert world.register.phase is Phase.DISPATCHED


def test_calls_of_the_ide_beside_it_are_waited_for() -> None:
    world, (_, call_id) = calling(PLAN, READ)
    assert world.register.phase is Phase.WAITING
    assert [frame["tool_name"] for frame in world.of_type("tool_call")] == ["read_file"]
    world.result(call_id, result="x")
    assert world.register.phase is Phase.DISPATCHED


def test_an_agent_hands_over_and_the_other_goes_on() -> None:
    world, _ = calling(TO_CODER)
    (frame,) = world.of_type("agent_switched")
    assert (frame["from_agent"], frame["to_agent"], frame["reason"]) == ("universal", "coder", "It writes code")
    assert frame["metadata"]["to_agent"] == "coder"
    assert world.register.agent == "coder"
    assert results(world) == [{"agent": "coder"}]
    world.answer("Done")
    assert world.of_type("assistant_message")[-1]["agent"] == "coder"


def test_an_agent_that_there_is_not_is_the_models_mistake() -> None:
    world, _ = calling(("switch_agent", {"agent_type": "nobody", "reason": "?"}))
    (result,) = results(world)
    assert result["error"]["code"] == "INVALID_ARGUMENTS"  # type: ignore[index]
    assert world.register.agent == "universal"


def test_two_agents_cannot_pass_a_turn_to_and_fro_for_ever() -> None:
    world = dispatched()
    for call in (TO_CODER, TO_UNIVERSAL, TO_CODER, TO_UNIVERSAL):
        world.answer("", call)
    assert len(world.of_type("agent_switched")) == 3
    assert results(world)[-1]["error"]["code"] == "PERMISSION_DENIED"  # type: ignore[index]
    world.answer("Done")
    world.say()
    world.answer("", TO_UNIVERSAL)
    assert world.register.agent == "universal", "the next turn may be handed over again"


def test_the_users_choice_during_a_turn_is_not_overruled() -> None:
    world, lease = running()
    world.switch("universal")
    world.answer("", TO_CODER, lease=lease)
    assert world.register.agent == "universal"
    assert results(world)[-1]["error"]["code"] == "PERMISSION_DENIED"  # type: ignore[index]


def test_an_agent_alone_cannot_hand_over() -> None:
    assert "switch_agent" not in with_targets(CATALOGUE, "universal", {"universal": "Does everything"}, {})
