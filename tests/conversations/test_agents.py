"""Agents in whole conversations: which is chosen, which answers, and with which tools."""

import threading
from collections.abc import Callable

import pytest

from tests.conftest import Open
from tests.fakes.ide.ide import Ide
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel


@pytest.fixture
def routed(ide: Open) -> Callable[[], Ide]:
    """Opens sessions in which the model chooses the agent."""

    def open_session() -> Ide:
        session = ide(extensions=True)
        session.request("switch_agent", agent_type="orchestrator")
        return session

    return open_session


def schema_of(body: dict) -> str:
    return str(body["response_format"])


def test_the_agent_that_the_model_chose_answers_the_first_message(
    routed: Callable[[], Ide], model: ScriptedModel
) -> None:
    session = routed()
    session.ask(model.script("explain", Says("So it works.", agent="ask")))
    switched = session.of_type("agent_switched")[-1]
    assert (switched["from_agent"], switched["to_agent"]) == ("orchestrator", "ask")
    assert {frame["agent"] for frame in session.of_type("assistant_message")} == {"ask"}
    assert session.text() == "So it works."
    assert len(model.requests["explain"]) == 1, "it chooses and answers at once"
    session.ask(model.script("more", Says("And so on.")))
    assert len(session.of_type("agent_switched")) == 2, "the agent was chosen again"
    (answered,) = model.requests["more"]
    assert "read_file" in schema_of(answered)
    assert "write_file" not in schema_of(answered)


def test_a_users_choice_wins_over_the_models(routed: Callable[[], Ide], model: ScriptedModel) -> None:
    session, has_chosen = routed(), threading.Event()
    marker = model.script("race", Says("Here I am.", agent="coder", until=has_chosen))
    session.say(marker)
    session.expect("agent_status", status="thinking")
    session.request("switch_agent", agent_type="architect")
    has_chosen.set()
    session.idle()
    assert [frame["to_agent"] for frame in session.of_type("agent_switched")] == ["orchestrator", "architect"]
    assert {frame["agent"] for frame in session.of_type("assistant_message")} == {"architect"}
    chosen, answered = model.requests["race"]
    assert "agent" in chosen["response_format"]["json_schema"]["schema"]["properties"]
    assert "architect" in answered["messages"][0]["content"].split("\n")[0]


def test_the_usual_agent_answers_if_the_model_cannot_choose(routed: Callable[[], Ide], model: ScriptedModel) -> None:
    session = routed()
    session.ask(model.script("refused", Says("All the same.", refuses_to_choose=400)))
    assert session.of_type("agent_switched")[-1]["to_agent"] == "universal"
    assert session.text() == "All the same."


@pytest.mark.parametrize("agent", ["architect", "ask", "debug"])
def test_a_tool_outside_an_agents_set_cannot_be_called(ide: Open, model: ScriptedModel, agent: str) -> None:
    """An answer with such a call is invalid: it goes back to the model, and the client never sees it."""
    session = ide(extensions=True)
    commits = Says("", [call("git.commit", message="x")], repaired=Says("I cannot commit."))
    marker = model.script(f"outside {agent}", commits)
    session.send("switch_agent", agent_type=agent, content=marker)
    session.idle()
    assert session.of_type("tool_call") == []
    assert session.text() == "I cannot commit.", "the model's answer to the error"
    assert "git.commit" not in schema_of(model.requests[f"outside {agent}"][0])


def test_the_architect_may_only_write_markdown(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    marker = model.script(
        "architect",
        Says("", [call("write_file", path="main.py", content="x")]),
        Says("", [call("write_file", path="plan.md", content="# Plan")]),
        Says("Planned."),
    )
    session.request("switch_agent", agent_type="architect")
    session.converse(marker, lambda _: {"success": True})
    assert {frame["arguments"]["path"] for frame in session.of_type("tool_call")} == {"plan.md"}
    assert "PERMISSION_DENIED" in model.requests["architect"][1]["messages"][-1]["content"]


def test_every_agent_answers_with_its_own_prompt(ide: Open, model: ScriptedModel) -> None:
    session = ide()
    for agent, word in (("coder", "coder"), ("debug", "debugger"), ("ask", "guide"), ("universal", "assistant")):
        session.send("switch_agent", agent_type=agent, content=model.script(f"who is {agent}", Says("I.")))
        session.idle()
        assert word in model.requests[f"who is {agent}"][0]["messages"][0]["content"].split("\n")[0]
