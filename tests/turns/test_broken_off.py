"""The usage of turns whose Requests were broken off, and how full the context is."""

from typing import Any

from codelab.sessions.items import CallRequest
from codelab.sessions.register import LEASE_MS
from codelab.turns import steps
from codelab.turns.steps import ModelAnswer
from codelab.turns.usage import CONTEXT

from tests.turns.world import World, dispatched


def end(world: World) -> dict[str, Any]:
    return world.of_type("turn_end")[-1]


def answer(world: World, usage: dict[str, int], *calls: CallRequest) -> None:
    lease = world.acquire()
    assert lease is not None
    made = ModelAnswer("Hi.", calls, agent=_agent(world), tools={}, usage=usage)
    world.decide(lambda draft: steps.commit(draft, lease, made, len(world.events)))


def _agent(world: World) -> Any:
    from codelab.agents import agents

    return agents()[world.register.agent]


def test_the_end_of_a_turn_tells_how_full_the_context_is() -> None:
    world = dispatched()
    answer(world, {"prompt_tokens": 700, "completion_tokens": 3, "llm_calls": 2, CONTEXT: 400})
    assert end(world)["context_used"] == 400, "the newest prompt, not the sum"
    assert end(world)["usage"]["prompt_tokens"] == 700
    assert "estimated" not in end(world)["usage"]


def test_the_attempts_that_died_are_estimated_once_each() -> None:
    world = World()
    world.say("Please read all of it " * 50)
    for _ in range(3):
        lease = world.acquire()
        assert lease is not None
        world.stream(lease, "I begin with the first file. ")
        world.now += LEASE_MS + 1
        world.pass_time(1)
    usage = end(world)["usage"]
    assert (end(world)["reason"], usage["llm_calls"], usage["estimated"]) == ("error", 3, True)
    assert usage["prompt_tokens"] >= 3 * 100
    assert usage["completion_tokens"] >= 3 * 5


def test_a_cancelled_step_whose_owner_died_is_estimated() -> None:
    world = dispatched()
    lease = world.acquire()
    assert lease is not None
    world.stream(lease, "I begin with the first file. ")
    world.cancel()
    world.pass_time(11)
    assert (end(world)["reason"], end(world)["usage"]["estimated"]) == ("cancelled", True)
    assert end(world)["usage"]["completion_tokens"] >= 5
