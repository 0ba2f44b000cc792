"""Reasoning that goes back to the model with its calls: as each provider's documents demand it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from codelab.llm.client.request import Request
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest
from codelab.llm.modes import past_reasoning
from codelab.llm.outcome import Done, Result
from codelab.llm.past_reasoning import Reasoning, ReasoningCollector
from codelab.llm.profiles import PROFILES
from codelab.llm.tokens import estimate_message

from tests.cases import cases
from tests.fakes.model.thinkers import Thinker, is_prefix
from tests.llm.test_history import IMAGE, SCHEMA, result

A, B = '{"path": "a"}', '{"path": "b"}'
#: By the provider, a model that thinks unless it is told not to, and how it is asked to.
THINKERS: dict[str, RequestConfig] = {
    "deepseek": RequestConfig("deepseek-v4-pro", provider="deepseek"),
    "moonshot": RequestConfig("kimi-k2.6", provider="moonshot"),
    "gemini": RequestConfig("gemini-3-pro", provider="gemini"),
    "openrouter": RequestConfig("anthropic/claude-sonnet-4.5", provider="openrouter", reasoning_effort="high"),
    "anthropic-messages": RequestConfig("claude-sonnet-4-5", provider="anthropic-messages", reasoning_effort="low"),
    "anthropic-messages, adaptive": RequestConfig("claude-sonnet-5", provider="anthropic-messages", thinking=True),
    "bedrock-converse": RequestConfig(
        "us.anthropic.claude-sonnet-4-5-v1:0", provider="bedrock-converse", reasoning_effort="low"
    ),
    "openai-responses": RequestConfig("gpt-5-mini", provider="openai-responses"),
}
#: Two calls at once, one that fails, one with an image, one that is repaired, one more, and a text.
ANSWERS = [
    ("I look.", [("read_file", A), ("read_file", B)]),
    ("", [("edit_file", A)]),
    ("", [("read_file", A)]),
    ("", [("run_command", '{"path": 5}'), ("read_file", A)]),
    ("", [("run_command", A)]),
    ("So", [("run_command", B)]),
    ("Done.", []),
]


def told(answer: Result, n: int) -> list[dict[str, Any]]:
    """The answer and the results of its calls, as the next Request gets them."""
    reasoning = answer.reasoning or Reasoning({})
    calls = [
        {
            "id": f"call_{n}_{index}",
            "type": "function",
            "function": {"name": item["_tool"], "arguments": json.dumps({"path": item["path"]})},
            **reasoning.fields_of_call(index),
        }
        for index, item in enumerate(answer.solution["calls"])
    ]
    message = {"role": "assistant", "content": answer.solution["message"], **reasoning.message, "tool_calls": calls}
    results = [result(call["id"], '{"error":{"code":"EXECUTION_FAILED"}}' if n == 2 else "ok") for call in calls]
    shown = {"role": "user", "content": [{"type": "text", "text": f"The images of call_{n}_0:"}, IMAGE]}
    return [message, *results, *([shown] if n == 3 else [])]


def turn(
    config: RequestConfig, model: Thinker, *, keeps: bool = True, streams: bool = True
) -> tuple[list[dict[str, Any]], Result]:
    """A turn to its end: what the last Request got, and its result."""
    context: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}]
    context.append({"role": "user", "content": "Fix the sum"})
    for n in range(1, 10):
        request = Request(config.changed(strategy="calls"), SCHEMA, context, unsupported=UnsupportedFeatures())
        events = request.stream(model) if streams else iter([Done(request.run(model))])
        [answer] = [event.result for event in events if isinstance(event, Done)]
        assert answer.strategy == "calls"
        if not answer.solution["calls"]:
            return context, answer
        context += told(answer if keeps else replace(answer, reasoning=None), n)
    raise AssertionError("the turn does not end")


@cases("streams", [True, False])
@cases("name", THINKERS)
def test_a_turn_of_six_steps_with_thinking_on_is_never_refused_and_only_grows(name: str, *, streams: bool) -> None:
    config = THINKERS[name]
    model = Thinker(config.provider, *ANSWERS)
    _, last = turn(config, model, streams=streams)
    assert model.refusals == []
    assert last.reasoning is None, "an answer without calls has nothing to give back"
    assert len(model.requests) == len(ANSWERS), "six steps and a repair"
    steps = model.requests[:4] + model.requests[5:]
    assert all(is_prefix(one, other) for one, other in pairwise(steps))
    assert "Thought 0" in json.dumps(model.requests[-1]), "the reasoning of the first step"
    assert "Thought 4" in json.dumps(model.requests[-1])
    assert "Thought 3" not in json.dumps(model.requests[-1]), "what was repaired is not told on"
    assert "Thought 3" in json.dumps(model.requests[4]), "but it is in the repair"


@cases("name", THINKERS)
def test_reasoning_that_was_lost_costs_no_refusal(name: str) -> None:
    config = THINKERS[name]
    model = Thinker(config.provider, *ANSWERS)
    turn(config, model, keeps=False)
    assert model.refusals == []
    assert "Thought 0" not in json.dumps(model.requests[-1])


@cases(
    ("name", "way"),
    [
        ("deepseek", "The results of these calls."),
        ("moonshot", "The results of these calls."),
        ("gemini", "skip_thought_signature_validator"),
        ("anthropic-messages", '"tool_use"'),
        ("bedrock-converse", '"toolUse"'),
        ("openai-responses", '"function_call"'),
    ],
)
def test_the_way_on_without_reasoning_is_the_documented_one(name: str, way: str) -> None:
    context, _ = turn(THINKERS[name], Thinker(THINKERS[name].provider, *ANSWERS), keeps=False)
    model = Thinker(THINKERS[name].provider, ("Done.", []))
    request = Request(THINKERS[name].changed(strategy="calls"), SCHEMA, context, unsupported=UnsupportedFeatures())
    [*request.stream(model)]
    assert way in json.dumps(model.requests[0])
    assert model.refusals == []


def test_some_of_the_reasoning_may_be_lost() -> None:
    for config in THINKERS.values():
        kept_context, _ = turn(config, kept := Thinker(config.provider, *ANSWERS))
        lossy_context, _ = turn(config, Thinker(config.provider, *ANSWERS), keeps=False)
        for cut in (3, 5, 8):  # a message and its results
            place = next(n for n in range(cut, len(kept_context)) if kept_context[n]["role"] == "assistant")
            mixed = [*kept_context[:place], lossy_context[place], *kept_context[place + 1 :]]
            kept.answers.append(("Done.", []))
            asked = Request(config.changed(strategy="calls"), SCHEMA, mixed, unsupported=UnsupportedFeatures())
            [*asked.stream(kept)]
        assert kept.refusals == [], config.provider


def test_only_a_model_that_thinks_gets_its_reasoning_back() -> None:
    deepseek = PROFILES["deepseek"]
    assert past_reasoning(deepseek, RequestConfig("deepseek-v4-pro", provider="deepseek")) == "required"
    assert past_reasoning(deepseek, RequestConfig("deepseek-v4-pro", provider="deepseek", thinking=False)) == "dropped"
    own = RequestConfig("glm-5", provider="vllm", past_reasoning="sent")
    assert past_reasoning(PROFILES["vllm"], own) == "sent"
    assert past_reasoning(PROFILES["vllm"], own.changed(reasoning_effort="none")) == "dropped"
    with pytest.raises(InvalidRequest, match="past_reasoning must be one of dropped, sent, required"):
        RequestConfig("m", past_reasoning="kept").check()  # type: ignore[arg-type]


def test_a_conversation_with_reasoning_is_asked_in_other_ways_without_it() -> None:
    context, _ = turn(THINKERS["deepseek"], Thinker("deepseek", *ANSWERS))
    for changes in ({"thinking": False}, {"past_reasoning": "dropped"}, {"strategy": "json"}):
        config = THINKERS["deepseek"].changed(**{"strategy": "calls", **changes})
        model = Thinker("generic", *([('{"message": "Done.", "calls": []}', [])] * 2))
        request = Request(config, SCHEMA, context, unsupported=UnsupportedFeatures())
        [*request.stream(model)]
        assert "Thought" not in json.dumps(model.requests), changes


def test_only_a_model_that_encrypts_its_reasoning_is_asked_for_it() -> None:
    context = [{"role": "user", "content": "Hello"}]
    for name in ("gpt-5-mini", "gpt-4.1"):
        config, model = RequestConfig(name, "openai-responses"), Thinker("openai-responses", ("Done.", []))
        [*Request(config.changed(strategy="calls"), SCHEMA, context, unsupported=UnsupportedFeatures()).stream(model)]
        assert model.refusals == []


def test_encrypted_thoughts_of_anthropic_go_back_too() -> None:
    from codelab.llm.client.messages_api import MessagesApi

    block = {"type": "redacted_thinking", "data": "EmwK"}
    call = {"type": "tool_use", "id": "t", "name": "read_file", "input": {}}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": call},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_stop"},
    ]
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    deltas = [
        choice["delta"]
        for batch in MessagesApi().chunks(iter([data]), streams=True)
        for chunk in batch
        for choice in chunk["choices"]
    ]
    assert [it["thinking_blocks"] for it in deltas if "thinking_blocks" in it] == [[block]]


def test_reasoning_in_a_list_is_kept_once_and_pieces_of_an_entry_are_joined() -> None:
    collector = ReasoningCollector()
    for entry in (
        {"type": "reasoning.summary", "index": 0, "summary": "So "},
        {"type": "reasoning.summary", "index": 0, "summary": "it is."},
        {"type": "reasoning.encrypted", "index": 0, "data": "gA"},
    ):
        collector.take({"reasoning": "So it is.", "reasoning_details": [entry]})
    collector.take({"reasoning_details": "no list", "reasoning": 5})
    assert collector.fields == {
        "reasoning_details": [
            {"type": "reasoning.summary", "index": 0, "summary": "So it is."},
            {"type": "reasoning.encrypted", "index": 0, "data": "gA"},
        ]
    }


def test_reasoning_counts_as_a_part_of_the_prompt() -> None:
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
    assert estimate_message({**message, "reasoning_content": "word " * 500}) > estimate_message(message) + 400
