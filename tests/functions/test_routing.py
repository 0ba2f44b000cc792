"""llm_request where the session's agent only chooses: the answer begins with the choice, which is committed first."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from codelab.agents import agents
from codelab.llm.errors import TransportError

from tests.fakes.aws.recorder import APPEND, POST, READ, READ_MANY, TRANSACTION, UPDATE
from tests.functions.system import System


@pytest.fixture
def routed(system: System) -> System:
    system.environment = {"DEFAULT_AGENT": "orchestrator"}
    system.connect("c1")
    return system


@pytest.fixture
def own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent `ask` has settings of its own."""
    monkeypatch.setitem(agents()["ask"].__dict__, "model", {"temperature": 0.5})


def chosen(agent: str, message: str = "", *calls: dict[str, Any]) -> str:
    return json.dumps({"agent": agent, "message": message, "calls": list(calls)})


def properties(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the answer's schema has, in order."""
    found: Mapping[str, Any] = request["response_format"]["json_schema"]["schema"]["properties"]
    return found


def frames(system: System, *types: str) -> list[dict[str, Any]]:
    return [frame for frame in system.aws.frames("c1") if frame["type"] in types]


def meanwhile(system: System, folder: str, **frame: Any) -> None:
    """The user sends a frame while the model answers."""
    system.until_a_step_runs()
    system.function(folder)(system.event("c1", frame))


def test_the_choice_costs_one_transaction_and_one_frame_and_no_request(routed: System) -> None:
    routed.model.answers.append(chosen("coder", "Hello"))
    routed.say("c1")
    assert Counter(routed.aws.calls) == {
        READ: 1,
        READ_MANY: 1,
        TRANSACTION: 1 + 1,  # the choice, commit
        "model": 1,
        APPEND: 1,
        POST: 5,  # thinking, agent_switched, the text, the final, idle
        UPDATE: 1 + 1,  # acquire, report
    }
    sent = routed.aws.frames("c1")
    types = [frame["type"] for frame in sent]
    assert types == ["agent_status", "agent_switched", "assistant_message", "assistant_message", "agent_status"]
    assert [frame["seq"] for frame in sent] == sorted(frame["seq"] for frame in sent)
    assert {frame["agent"] for frame in frames(routed, "assistant_message")} == {"coder"}
    assert "due_at" not in routed.item("REGISTER"), "nothing is outstanding"


def test_the_agent_is_switched_before_the_model_has_said_anything(routed: System) -> None:
    def speak() -> Iterator[str]:
        yield '{"agent": "co'
        assert routed.item("REGISTER")["agent"] == "orchestrator"
        yield 'der"'
        seen.append(routed.item("REGISTER")["agent"])
        yield ', "message": "Hello", "calls": []}'

    seen: list[str] = []
    routed.model.answers.append(speak())
    routed.say("c1")
    assert seen == ["coder"]


def test_text_before_the_choice_is_held_back(routed: System) -> None:
    def speak() -> Iterator[str]:
        yield '{"message": "Hello", '
        assert frames(routed, "assistant_message") == []
        yield '"calls": [], "agent": "coder"}'

    routed.model.answers.append(speak())
    routed.say("c1")
    assert [frame["type"] for frame in routed.aws.frames("c1")][1:3] == ["agent_switched", "assistant_message"]
    spoken = frames(routed, "assistant_message")
    assert ("".join(frame["token"] for frame in spoken), {frame["agent"] for frame in spoken}) == ("Hello", {"coder"})


def test_the_next_message_is_answered_by_the_chosen_agent_alone(routed: System) -> None:
    routed.model.answers.append(chosen("coder", "Hello"))
    routed.say("c1")
    routed.ask("c1", "Hi again")
    first, second = routed.model.requests
    assert next(iter(properties(first))) == "agent"
    assert "agent" not in properties(second)
    assert agents()["coder"].prompt in second["messages"][0]["content"]


def test_a_call_is_checked_as_the_chosen_agents(routed: System) -> None:
    """The schema has the tools of all agents; a call of another agent's tool is refused, and no client sees it."""
    write = {"_tool": "write_file", "path": "a.py", "content": "x"}
    routed.model.answers.append(chosen("ask", "I write.", write))
    routed.model.says("I cannot write.")
    routed.say("c1")
    assert frames(routed, "tool_call") == []
    assert {frame["agent"] for frame in frames(routed, "assistant_message")} == {"ask"}
    assert "TOOL_NOT_FOUND" in json.dumps(routed.model.requests[1]["messages"])
    routed.model.answers.append(chosen("architect", "", write, {**write, "path": "a.md"}))
    routed.send("c1", "switch_agent", agent_type="orchestrator")
    routed.say("c1")
    (call,) = frames(routed, "tool_call")
    assert call["arguments"]["path"] == "a.md"


def test_an_agent_with_settings_of_its_own_is_asked_with_them(own_model: None, routed: System) -> None:
    def choose() -> Iterator[str]:
        yield '{"agent": "ask"'
        went_on.append(False)
        yield ', "message": "I am another", "calls": []}'

    went_on: list[bool] = []
    routed.model.answers.append(choose())
    routed.ask("c1", "I am ask")
    first, second = routed.model.requests
    assert went_on == [], "the model went on with an answer that nobody takes"
    assert agents()["ask"].instructions not in first["messages"][0]["content"]
    assert agents()["ask"].description in first["messages"][0]["content"]
    assert "temperature" not in first
    assert second["temperature"] == 0.5
    assert agents()["ask"].prompt in second["messages"][0]["content"]
    assert "".join(frame["token"] for frame in frames(routed, "assistant_message")) == "I am ask"


def test_a_router_with_a_model_of_its_own_only_chooses(monkeypatch: pytest.MonkeyPatch, routed: System) -> None:
    monkeypatch.setitem(agents()["orchestrator"].__dict__, "model", {"model": "small"})
    routed.model.answers.append('{"agent": "coder"}')
    routed.ask("c1", "Hello")
    first, second = routed.model.requests
    assert (first["model"], next(iter(properties(first)))) == ("small", "agent")
    assert "calls" not in properties(first)
    assert second["model"] != "small"
    assert {frame["agent"] for frame in frames(routed, "assistant_message")} == {"coder"}


def test_whom_the_user_chooses_meanwhile_is_asked_anew(routed: System) -> None:
    def speak() -> Iterator[str]:
        meanwhile(routed, "switch_agent", type="switch_agent", agent_type="architect")
        yield '{"agent": "coder"'
        went_on.append(False)
        yield ', "message": "I am coder", "calls": []}'

    went_on: list[bool] = []
    routed.function("switch_agent")
    routed.model.answers.append(speak())
    routed.ask("c1", "I am architect")
    assert went_on == []
    assert routed.item("REGISTER")["agent"] == "architect"
    assert [frame["to_agent"] for frame in frames(routed, "agent_switched")] == ["architect"]
    spoken = frames(routed, "assistant_message")
    assert ("".join(frame["token"] for frame in spoken), {frame["agent"] for frame in spoken}) == (
        "I am architect",
        {"architect"},
    )
    assert agents()["architect"].prompt in routed.model.requests[1]["messages"][0]["content"]


def test_a_model_that_cannot_choose_leaves_it_to_the_one_that_does_everything(routed: System) -> None:
    for _ in range(3):
        routed.model.answers.append('{"agent": "nobody"}')
    routed.ask("c1", "Hi")
    assert routed.item("REGISTER")["agent"] == "universal"
    (switched,) = frames(routed, "agent_switched")
    assert switched["reason"] == "No specialised agent could be chosen"
    assert "agent" not in properties(routed.model.requests[3])


def test_a_repair_can_name_the_agent_if_the_answer_did_not(routed: System) -> None:
    routed.model.answers += [chosen("nobody", "Hello"), json.dumps({"agent": "ask", "calls": []})]
    routed.say("c1")
    assert [frame["to_agent"] for frame in frames(routed, "agent_switched")] == ["ask"]
    spoken = frames(routed, "assistant_message")
    assert ("".join(frame["token"] for frame in spoken), {frame["agent"] for frame in spoken}) == ("Hello", {"ask"})


def test_a_repair_chooses_no_second_agent(routed: System) -> None:
    wrong = {"_tool": "no_such_tool"}
    routed.model.answers += [chosen("coder", "Hello", wrong), json.dumps({"agent": "ask", "calls": []})]
    routed.say("c1")
    assert "agent" not in properties(routed.model.requests[1])
    assert [frame["to_agent"] for frame in frames(routed, "agent_switched")] == ["coder"]
    assert routed.item("REGISTER")["agent"] == "coder"
    assert {frame["agent"] for frame in frames(routed, "assistant_message")} == {"coder"}


def test_a_model_that_breaks_off_behind_the_choice_is_asked_as_the_chosen_agent(routed: System) -> None:
    def speak() -> Iterator[str]:
        yield '{"agent": "coder"'
        raise TransportError("broken off", retryable=True)

    routed.model.answers.append(speak())
    routed.ask("c1", "Hello")
    assert [frame["to_agent"] for frame in frames(routed, "agent_switched")] == ["coder"]
    assert agents()["coder"].prompt in routed.model.requests[1]["messages"][0]["content"]


def test_a_message_that_leaves_no_room_for_all_prompts_goes_to_the_one_that_does_everything(system: System) -> None:
    system.environment = {"DEFAULT_AGENT": "orchestrator", "MAX_CONTEXT_TOKENS": "3300"}
    system.connect("c1")
    look = {"kind": "look", "user": "ann", "session_id": "s1", "message": "hello", "environment": ""}
    told = system.function("llm_request")(look)
    system.ask("c1", "Hello")
    assert (told["agent"], told["request"]) == ("universal", system.model.requests[0])
    assert [frame["to_agent"] for frame in frames(system, "agent_switched")] == ["universal"]
    assert len(system.model.requests) == 1


def test_a_cancel_while_the_model_chooses_ends_the_turn(routed: System) -> None:
    def think() -> Iterator[str]:
        meanwhile(routed, "control", type="cancel")
        yield chosen("coder", "Hello")

    routed.function("control")
    routed.model.answers.append(think())
    routed.say("c1")
    register = routed.item("REGISTER")
    assert (register["phase"], register["agent"]) == ("idle", "orchestrator")
    assert frames(routed, "agent_switched", "assistant_message") == []


def test_a_usage_counts_the_requests_whose_answers_were_not_taken(own_model: None, routed: System) -> None:
    routed.connect("c1", extensions=True)
    routed.model.answers.append(chosen("ask", "I am another"))
    routed.ask("c1", "I am ask")
    (ended,) = frames(routed, "turn_end")
    assert ended["usage"]["llm_calls"] == 2


def test_an_agent_that_this_version_does_not_know_is_stood_in_for_and_stays(routed: System) -> None:
    """As while a new agent is being deployed: another process knows it already."""
    routed.table.update_item(
        TableName="Table",
        Key={"pk": {"S": "SESSION#ann#s1"}, "sk": {"S": "REGISTER"}},
        UpdateExpression="SET #agent = :agent",
        ExpressionAttributeNames={"#agent": "agent"},
        ExpressionAttributeValues={":agent": {"S": "newer"}},
    )
    routed.ask("c1", "Hi")
    assert routed.history()[-1] == ("assistant", "Hi")
    assert "agent_switched" not in [frame["type"] for frame in routed.aws.frames("c1")]
    assert routed.item("REGISTER")["agent"] == "newer"
