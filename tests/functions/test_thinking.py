"""The model's thoughts, and how much it is told to think."""

import json
from typing import Any

import pytest

from tests.fakes.aws.recorder import APPEND
from tests.fakes.model.in_process import InProcess
from tests.fakes.model.wire import delta
from tests.functions.system import System

ANSWER = json.dumps({"message": "It is 4.", "calls": []})


def thinker(*deltas: dict[str, Any], answer: str = ANSWER) -> InProcess:
    """A model that shows its thoughts as `deltas`, before the answer."""
    return InProcess(lambda _body, _call: [*(delta(**shown) for shown in deltas), answer])


def asked(system: System, monkeypatch: pytest.MonkeyPatch, model: InProcess) -> list[dict[str, Any]]:
    """The frames of a turn with this model."""
    monkeypatch.setattr(system, "model", model)
    system.say("c1", "What is 2 + 2?")
    return system.aws.frames("c1")


def thoughts(frames: list[dict[str, Any]]) -> str:
    return "".join(frame["content"] for frame in frames if frame["type"] == "assistant_thought")


def text(frames: list[dict[str, Any]]) -> str:
    return "".join(frame["token"] for frame in frames if frame["type"] == "assistant_message")


@pytest.mark.parametrize(
    "model",
    [
        thinker({"reasoning_content": "Two and "}, {"reasoning_content": "two."}),
        thinker({"reasoning": "Two and "}, {"reasoning": "two."}),
        thinker({"reasoning_details": [{"type": "reasoning.summary", "summary": "Two and two."}, {"data": "gAAA"}]}),
        thinker({"content": "<think>Two and "}, {"content": "two.</think>"}),
        thinker({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Two and two."}]}]}),
    ],
    ids=["reasoning_content", "reasoning", "summaries", "tags", "parts"],
)
def test_thoughts_come_before_the_answer_and_are_no_part_of_it(
    extended: System, monkeypatch: pytest.MonkeyPatch, model: InProcess
) -> None:
    frames = asked(extended, monkeypatch, model)
    assert thoughts(frames) == "Two and two."
    assert text(frames) == "It is 4."
    kinds = [frame["type"] for frame in frames]
    assert kinds.index("assistant_thought") < kinds.index("assistant_message")
    [told] = {frame["message_id"] for frame in frames if "message_id" in frame}
    assert extended.history()[-1] == ("assistant", "It is 4.")
    extended.say("c1", "And then?")
    assert "Two and" not in json.dumps(model.requests[-1])
    assert told


def test_a_client_without_extensions_sees_none_and_costs_no_write(
    connected: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = asked(connected, monkeypatch, thinker({"reasoning": "Two and two."}))
    assert {frame["type"] for frame in frames} == {"agent_status", "assistant_message"}
    assert connected.aws.calls.count(APPEND) == 1


def test_thoughts_are_sent_in_few_batches_and_are_bounded(extended: System, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = asked(extended, monkeypatch, thinker(*({"reasoning": "word " * 10} for _ in range(1_000))))
    assert extended.aws.calls.count(APPEND) <= 1 + 4
    assert len(thoughts(frames)) < 20_100
    assert thoughts(frames).endswith("the rest of the thoughts is not shown]")


def test_an_answer_with_only_calls_may_have_thoughts(extended: System, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps({"message": "", "calls": [{"_tool": "read_file", "path": "a.py"}]})
    frames = asked(extended, monkeypatch, thinker({"reasoning": "I read it."}, answer=answer))
    assert [frame["type"] for frame in frames][-3:] == ["assistant_thought", "tool_call", "agent_status"]


def test_a_level_of_thinking_is_asked_for_as_the_profile_has_it(extended: System) -> None:
    extended.environment = {"LLM_MODEL": "gpt-5.1", "LLM_MODELS": "gpt-4.1"}
    extended.send_raw("c1", "control", json.dumps({"type": "session_config", "thinking": "high"}))
    [info] = [frame for frame in extended.aws.frames("c1") if frame["type"] == "session_info"]
    assert info["settings"] == {"thinking": "high"}
    assert [(one["name"], one["thinking"]) for one in info["models"]] == [
        ("gpt-5.1", ["none", "low", "medium", "high"]),
        ("gpt-4.1", []),
    ]
    extended.ask("c1", "Hello!")
    assert extended.model.requests[-1]["reasoning_effort"] == "high"
    extended.send_raw("c1", "control", json.dumps({"type": "session_config", "model": "gpt-4.1"}))
    extended.ask("c1", "Hello!")
    assert "reasoning_effort" not in extended.model.requests[-1], "a model without that level thinks as it does"


def test_a_level_that_the_model_does_not_have_is_refused(extended: System) -> None:
    extended.environment = {"LLM_MODEL": "gpt-4.1"}
    extended.send_raw("c1", "control", json.dumps({"type": "session_config", "thinking": "high"}))
    [error] = [frame for frame in extended.aws.frames("c1") if frame["type"] == "error"]
    assert (error["error_code"], error["details"]) == ("INVALID_ARGUMENTS", {"field": "thinking"})
    assert "its thinking cannot be set" in error["content"]
    assert "settings" not in extended.item("REGISTER")
