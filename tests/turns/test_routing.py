"""Who answers a first message, on the pure core."""

from typing import Any

import pytest
from codelab.agents import Agent, agents
from codelab.llm.errors import Cancelled, DeadlineExceeded, InvalidAnswer, Refusal, TransportError
from codelab.llm.outcome import TextDelta
from codelab.turns import routing
from codelab.turns.model_answers import ANSWER
from codelab.turns.titles import with_title

from tests.cases import cases
from tests.turns.world import World, running

KNOWN = set(agents())


def test_the_chosen_agent_answers_and_stays() -> None:
    world = World(default_agent="orchestrator")
    world.say("write a test")
    lease = world.acquire()
    world.route(lease, "coder")
    (switched,) = world.of_type("agent_switched")
    told = {name: switched[name] for name in ("from_agent", "to_agent", "reason", "timestamp")}
    assert told == switched["metadata"]
    assert (told["from_agent"], told["to_agent"]) == ("orchestrator", "coder")
    world.answer("Done", lease=lease)
    world.say("and now?")
    assert world.register.agent == "coder"


def test_a_choice_is_made_once_also_when_its_step_is_attempted_again() -> None:
    world, first = running(default_agent="orchestrator")
    world.route(first, "coder")
    world.route(first, "coder")
    world.pass_time(310)
    second = world.acquire()
    assert world.register.agent == "coder", "who runs the step again finds the choice made"
    world.answer("ok", lease=second)
    assert len(world.of_type("agent_switched")) == 1


def test_whom_the_user_chooses_meanwhile_wins() -> None:
    world, lease = running(default_agent="orchestrator")
    world.switch("architect")
    world.route(lease, "coder")
    assert world.register.agent == "architect"
    assert [frame["to_agent"] for frame in world.of_type("agent_switched")] == ["architect"]


def test_whom_the_user_chooses_afterwards_wins_too() -> None:
    world, lease = running(default_agent="orchestrator")
    world.route(lease, "coder")
    world.switch("debug")
    world.answer("ok", lease=lease)
    assert world.register.agent == "debug"


def test_a_choice_for_a_step_that_is_lost_or_to_be_stopped_changes_nothing() -> None:
    world, lease = running(default_agent="orchestrator")
    world.cancel()
    assert world.route(lease, "coder") is None
    world.fail(lease)
    world.say("again")
    lost = world.acquire()
    world.pass_time(310)
    world.acquire()
    assert world.route(lost, "coder") is None
    assert world.register.agent == "orchestrator"


def test_who_routes_may_be_asked_for_again() -> None:
    world = World(default_agent="coder")
    world.switch("orchestrator")
    world.say()
    world.route(world.acquire(), "ask")
    assert world.register.agent == "ask"


def answering(*without: str) -> dict[str, Agent]:
    return {name: agent for name, agent in agents().items() if not agent.routes and name not in without}


def test_every_agent_that_answers_can_be_chosen_and_is_described() -> None:
    known = answering()
    agent = routing.schema(ANSWER, known)["properties"]["agent"]
    assert set(agent["enum"]) == KNOWN - {"orchestrator"}
    prompt = routing.combined_agent(agents()["orchestrator"], known, known).prompt
    assert all(agent.description in prompt and agent.instructions in prompt for agent in known.values())
    assert prompt.count(known["ask"].rules) == 1


def test_the_choice_comes_before_the_text() -> None:
    schema = with_title(routing.schema(ANSWER, answering()))
    assert list(schema["properties"]) == ["agent", "message", "calls", "title"]
    assert schema["required"] == ["agent", "message", "calls"]


def test_every_tool_of_an_agent_can_be_called_and_names_those_that_may() -> None:
    known = answering()
    tools = routing.combined_agent(agents()["orchestrator"], known, known).tools
    assert set(tools) == {name for agent in known.values() for name in agent.tools}
    assert tools["read_file"].description == known["ask"].tools["read_file"].description
    assert tools["write_file"].description == known["universal"].tools["write_file"].description
    assert tools == known["universal"].tools, "what the model is told of the tools is the same in the next step"


def test_an_agent_that_answers_in_another_request_is_only_described() -> None:
    known, here = answering(), answering("universal", "coder")
    combined = routing.combined_agent(agents()["orchestrator"], known, here)
    assert known["coder"].description in combined.prompt
    assert known["coder"].instructions not in combined.prompt
    assert "git.commit" not in combined.tools


@pytest.mark.parametrize("pieces", [["ask"], ["a", "sk"], ["as", "k"]])
def test_a_choice_is_known_when_its_name_is_complete(pieces: Any) -> None:
    choosing = routing.Choosing(["ask", "coder"])
    for piece in pieces:
        assert choosing.agent is None
        assert choosing.take(TextDelta("agent", piece)) == ""
    assert choosing.agent == "ask"
    assert choosing.take(TextDelta("message", "Hello")) == "Hello"
    assert choosing.take(TextDelta("agent", "coder")) == "", "a field that is written twice"
    assert choosing.agent == "ask"


@pytest.mark.parametrize("name", ["ask", "asker"])
def test_a_name_that_begins_another_is_complete_when_the_text_begins(name: str) -> None:
    choosing = routing.Choosing(["ask", "asker"])
    for char in name:
        choosing.take(TextDelta("agent", char))
    assert choosing.take(TextDelta("message", "Hello")) == "Hello"
    assert choosing.agent == name


def test_text_is_held_back_until_the_choice_is_known() -> None:
    choosing = routing.Choosing(["ask", "coder"])
    assert [choosing.take(TextDelta("message", text)) for text in ("Hel", "lo")] == ["", ""]
    assert choosing.take(TextDelta("agent", "ask")) == "Hello"


@cases(
    ("problem", "fails"),
    [
        (InvalidAnswer("no such agent"), True),
        (TransportError("context too long", status=400), True),
        (TransportError("busy", status=429, retryable=True), False),
        (Refusal("I will not"), False),
        (Cancelled("hung up"), False),
        (DeadlineExceeded("late"), False),
    ],
)
def test_the_fallback_agent_is_asked_only_if_the_model_could_not_choose(problem: str, fails: Any) -> None:
    assert routing.cannot_choose(problem) is fails
