"""Anthropic's Messages API: how a request is translated, and what its answers mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.messages_api import MessagesApi
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Call
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest, TransportError, Truncated
from codelab.llm.failures import FailureKind
from codelab.llm.outcome import Usage

from tests.cases import cases
from tests.fakes.http import Exchange, event, response
from tests.fakes.model.apis import SpokenMessages
from tests.fakes.model.wire import ScriptedServer, argument, delta, failing, saying
from tests.llm.answer import answer_of
from tests.llm.schemas import STRING, array, obj

ANSWER = obj(message=STRING, calls=array(STRING))
SAID = '{"message": "Hello", "calls": []}'
ASK = [{"role": "user", "content": "What now?"}]
QUICK = RetryPolicy(base_s=0.01)
PIXEL = "iVBORw0KGgo="

Json = dict[str, Any]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(spoken=SpokenMessages()) as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[DirectTransport]:
    made = DirectTransport(base_url=server.url, api_key="sk-ant-1", key_header="x-api-key", api=MessagesApi())
    yield made
    made.close()


def request(context: Any = ASK, unsupported: UnsupportedFeatures | None = None, **config: Any) -> Request:
    settings = RequestConfig(**{"model": "claude-sonnet-4-6", "provider": "anthropic-messages", **config})
    return Request(settings, ANSWER, context, unsupported=unsupported or UnsupportedFeatures(), retry=QUICK)


def sent(server: ScriptedServer) -> Json:
    """The newest request, as it was sent."""
    body: Json = json.loads(server.received[-1].content)
    return body


def encoded(**body: Any) -> Json:
    made: Json = json.loads(MessagesApi().encode({"model": "claude-sonnet-4-6", "messages": ASK, **body}))
    return made


def test_a_step_is_asked_as_the_documents_say(server: ScriptedServer, transport: DirectTransport) -> None:
    server.says(SAID)
    context = [{"role": "system", "content": "Be brief."}, *ASK]
    answer = answer_of(request(context, temperature=0.5, seed=7), transport)
    assert (answer.text, answer.result.strategy) == ("Hello", "tool")
    body = sent(server)
    [tool] = body.pop("tools")
    assert (tool["name"], tool["input_schema"]["type"]) == ("generate_response", "object")
    assert tool["eager_input_streaming"] is True, "otherwise the text of an answer arrives in one piece"
    [prompt] = body.pop("system")
    assert prompt["text"].startswith("Be brief.")
    assert body == {
        "model": "claude-sonnet-4-6",
        "max_tokens": 32_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "What now?"}]}],
        "stream": True,
        "temperature": 0.5,
        "tool_choice": {"type": "tool", "name": "generate_response", "disable_parallel_tool_use": True},
    }
    headers = server.received[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-ant-1", "2023-06-01")
    assert "authorization" not in headers


def test_messages_take_turns_and_results_follow_their_calls() -> None:
    def call(id_: str, name: str, arguments: str) -> Json:
        return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}

    body = encoded(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "assistant", "content": None, "tool_calls": [call("c.1", "read", '{"path": "a"}'),
                                                                 call("c2", "list", "")]},
            {"role": "tool", "tool_call_id": "c.1", "content": "text"},
            {"role": "tool", "tool_call_id": "c2", "content": ""},
            {"role": "user", "content": " "},
            {"role": "user", "content": "And?"},
            {"role": "system", "content": "State: 1"},
            {"role": "assistant", "content": "Well."},
        ]
    )  # fmt: skip
    assert body["system"] == [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "State: 1"},
    ]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Begin."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c_1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "list", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c_1", "content": [{"type": "text", "text": "text"}]},
                {"type": "tool_result", "tool_use_id": "c2"},
                {"type": "text", "text": "And?"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Well."}]},
        {"role": "user", "content": [{"type": "text", "text": "Continue."}]},
    ]


def test_images_are_sent_as_data_or_as_an_address() -> None:
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    [turn] = encoded(messages=[{"role": "user", "content": parts}])["messages"]
    assert [block.get("source") for block in turn["content"]] == [
        None,
        {"type": "base64", "media_type": "image/png", "data": PIXEL},
        {"type": "url", "url": "https://example.com/a.png"},
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [({"n": 2}, "one answer"), ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input_audio")],
)
def test_what_the_api_does_not_have_is_an_error_before_the_call(body: Json, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        encoded(**body)


@cases(
    ("model", "asked", "made"),
    [
        ("claude-sonnet-4-6", {}, {}),
        ("claude-sonnet-4-6", {"reasoning_effort": "low"}, {"thinking": {"type": "adaptive", "display": "summarized"},
                                                            "output_config": {"effort": "low"}}),
        ("claude-opus-4-7", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "adaptive",
                                                                             "display": "summarized"}}),
        ("claude-opus-5", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        ("claude-opus-5-5", {"reasoning_effort": "none"}, {"output_config": {"effort": "low"}}),
        ("claude-haiku-4-5-20251001", {"reasoning_effort": "medium"}, {"thinking": {"type": "enabled",
                                                                                    "budget_tokens": 8192}}),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", {"thinking": {"type": "enabled"}},
         {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("claude-opus-4-1-20250805", {"thinking": {"type": "disabled"}}, {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-4-5", {"thinking": {"type": "enabled", "budget_tokens": 2000}},
         {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
    ],
)  # fmt: skip
def test_thinking_is_asked_for_as_the_model_takes_it(model: str, asked: Json, made: Json) -> None:
    body = encoded(model=model, **asked)
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == made


def test_the_output_limit_has_room_for_the_thoughts() -> None:
    budgeted = {"model": "claude-sonnet-4-5", "reasoning_effort": "high"}
    assert encoded(**budgeted, max_tokens=1_000)["max_tokens"] == 24_576 + 1_000
    assert encoded(**budgeted, max_completion_tokens=30_000)["max_tokens"] == 30_000
    assert encoded(model="claude-3-haiku-20240307")["max_tokens"] == 4_096


def test_a_model_with_a_budget_goes_on_after_its_calls_without_thoughts() -> None:
    """It would have to see its thoughts with their signature, which nobody keeps."""
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [*ASK, {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "x"}]  # fmt: skip
    for model, type_ in (("claude-sonnet-4-5", "disabled"), ("claude-sonnet-4-6", "adaptive")):
        assert encoded(model=model, messages=messages, reasoning_effort="low")["thinking"]["type"] == type_


@cases(
    ("choice", "made"),
    [
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "required", "parallel_tool_calls": False}, {"type": "any", "disable_parallel_tool_use": True}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({}, None),
    ],
)
def test_the_choice_of_tools_is_translated(choice: Json, made: Json | None) -> None:
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}, "strict": True}}]
    body = encoded(tools=tools, **choice)
    assert body.get("tool_choice") == made
    assert body["tools"] == [{"name": "read", "input_schema": {"type": "object"}, "strict": True}]


def test_a_schema_is_enforced_with_native(server: ScriptedServer, transport: DirectTransport) -> None:
    server.says(SAID)
    assert answer_of(request(strategy="native"), transport).text == "Hello"
    answer_format = sent(server)["output_config"]["format"]
    assert (answer_format["type"], answer_format["schema"]["type"]) == ("json_schema", "object")


def test_a_thinking_model_is_not_forced_and_its_thoughts_are_shown(
    server: ScriptedServer, transport: DirectTransport
) -> None:
    def thinks(exchange: Exchange) -> None:
        exchange.events([delta(reasoning_content="Hm. "), delta(reasoning_content="Yes."),
                         argument(SAID, name="generate_response"), delta(finish="stop")])  # fmt: skip

    server.answer(thinks)
    answer = answer_of(request(reasoning_effort="high"), transport)
    assert (answer.thoughts, answer.text, answer.result.attempts) == ("Hm. Yes.", "Hello", 1)
    assert sent(server)["tool_choice"] == {"type": "auto"}


def test_a_model_that_refuses_to_be_forced_is_asked_again_and_remembered(
    server: ScriptedServer, transport: DirectTransport
) -> None:
    server.says(SAID)
    unsupported = UnsupportedFeatures()
    asked: Json = {"model": "claude-opus-5-5", "provider": "openai", "strategy": "tool"}
    assert request(unsupported=unsupported, **asked).run(transport).attempts == 2
    assert unsupported.of(transport.base_url, "claude-opus-5-5") == {"tool_choice"}
    assert request(model="claude-opus-5-5").run(transport).attempts == 1, "the profile knows it"


def test_what_is_read_from_the_cache_and_written_to_it_counts_as_prompt(
    server: ScriptedServer, transport: DirectTransport
) -> None:
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    server.says(SAID, usage={"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": details})
    for streamed in (True, False):
        assert answer_of(request(), transport, streamed=streamed).result.usage == Usage(100, 5, 60, None, 30)
    reported = {"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}
    body = {"type": "message", "content": [], "stop_reason": "end_turn", "usage": {**reported, "output_tokens": 5}}
    [[chunk]] = MessagesApi().chunks(iter([json.dumps(body).encode()]), streams=False)
    assert Usage.parse(chunk["usage"]) == Usage(100, 5, 60, None, 30)


def test_each_call_marks_what_the_next_one_begins_with(server: ScriptedServer, transport: DirectTransport) -> None:
    server.says(SAID)
    context: list[Json] = [{"role": "system", "content": "Be brief."}]
    for number in range(3):
        context += [{"role": "user", "content": f"Question {number}"}]
        answer_of(request(context), transport)
        context += [{"role": "assistant", "content": SAID}]
    bodies = [json.loads(exchange.content) for exchange in server.received]
    for earlier, later in pairwise(bodies):
        assert later["tools"] == earlier["tools"]
        assert later["system"] == earlier["system"]
        assert plain(later["messages"])[: len(earlier["messages"])] == plain(earlier["messages"])
        marked = [turn for turn in later["messages"] if "cache_control" in turn["content"][-1]]
        assert marked == [turn for turn in later["messages"] if turn["role"] == "user"][-4:-1]
    assert all("cache_control" in body["system"][-1] for body in bodies)


def plain(turns: list[Json]) -> list[Json]:
    """The turns without marks."""
    return [
        {**turn, "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in turn["content"]]}
        for turn in turns
    ]


@pytest.mark.parametrize(
    ("status", "type_", "message", "kind", "retryable"),
    [
        (400, "invalid_request_error", "messages: roles must alternate", FailureKind.OTHER, False),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", FailureKind.WINDOW, False),
        (401, "authentication_error", "invalid x-api-key", FailureKind.KEY, False),
        (400, "invalid_request_error", "Your credit balance is too low", FailureKind.QUOTA, False),
        (404, "not_found_error", "model: claude-9", FailureKind.MODEL, False),
        (429, "rate_limit_error", "This request would exceed your rate limit", FailureKind.RATE, True),
        (500, "api_error", "Internal server error", FailureKind.OTHER, True),
        (529, "overloaded_error", "Overloaded", FailureKind.BUSY, True),
    ],
)
def test_errors_are_read_by_their_kind(
    server: ScriptedServer, transport: DirectTransport, status: int, type_: str, message: str,
    kind: FailureKind, retryable: bool,
) -> None:  # fmt: skip
    error = {"type": "error", "error": {"type": type_, "message": message}, "request_id": "req_1"}
    server.answer(lambda exchange: exchange.send(response(status, error, {"retry-after": "7"})))
    with pytest.raises(TransportError) as caught:
        list(transport.send({"model": "claude-sonnet-4-6", "messages": ASK}, Call()))
    found = caught.value
    assert (found.status, found.kind, found.retryable, found.retry_after) == (status, kind, retryable, 7)
    assert message in found.message


def test_an_overload_before_the_first_token_is_waited_out(server: ScriptedServer, transport: DirectTransport) -> None:
    def overloaded(exchange: Exchange) -> None:
        exchange.events([{"error": {"type": "overloaded_error", "message": "Overloaded"}}], done=False)

    server.answer(failing(529, "Overloaded"), overloaded, saying(SAID))
    assert answer_of(request(), transport).result.attempts == 3


def test_an_overload_in_the_middle_of_an_answer_is_an_error(server: ScriptedServer, transport: DirectTransport) -> None:
    begun = argument('{"message": "Hel', name="generate_response")
    server.answer(
        lambda exchange: exchange.events(
            [begun, {"error": {"type": "overloaded_error", "message": "Overloaded"}}], done=False
        )
    )
    with pytest.raises(TransportError, match="Overloaded") as caught:
        answer_of(request(), transport)
    found = caught.value
    assert (found.status, found.retryable, found.streamed) == (529, True, {"message": "Hel"})


@pytest.mark.parametrize("last", ["message_delta", "content_block_stop", "content_block_delta"])
def test_a_stream_without_its_end_is_cut(last: str) -> None:
    """Also if the connection is closed in order."""
    answer = SpokenMessages().answering()
    data = answer.begin() + answer.chunk(argument('{"a', name="f")) + answer.chunk(delta(finish="stop")) + answer.end()
    whole = [event for event in data.decode().split("\n\n") if event]
    until = next(number for number, event in enumerate(whole) if f"event: {last}" in event)
    cut = "".join(event + "\n\n" for event in whole[: until + 1]).encode()
    for stream, reasons in ((cut, set()), (data, {"tool_calls"})):
        chunks = [chunk for part in MessagesApi().chunks(iter([stream]), streams=True) for chunk in part]
        found = {choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]} - {None}
        assert found == reasons


def test_half_a_text_of_a_cut_stream_is_no_answer(server: ScriptedServer, transport: DirectTransport) -> None:
    begun = argument('{"message": "Hel', name="generate_response")
    server.answer(lambda exchange: exchange.events([begun], done=False))
    with pytest.raises(Truncated):
        answer_of(request(), transport)


def test_a_call_without_arguments_has_empty_ones() -> None:
    stream = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "So:"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1,
         "content_block": {"type": "tool_use", "id": "toolu_1", "name": "list", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2,
         "content_block": {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {"path": "a"}}},
        {"type": "content_block_stop", "index": 2},
        {"type": "something_new"},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]  # fmt: skip
    parts = MessagesApi().chunks(iter([b"".join(map(event, stream))]), streams=True)
    chunks = [chunk for part in parts for chunk in part]
    assert Usage.parse(chunks[-1]["usage"]) == Usage(3, 9, None, None), "the prompt's tokens come with the beginning"
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert deltas == [
        {"content": "So:"},
        {"tool_calls": [{"index": 0, "id": "toolu_1", "type": "function",
                         "function": {"name": "list", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, "id": "toolu_2", "type": "function",
                         "function": {"name": "read", "arguments": '{"path": "a"}'}}]},
        {},
    ]  # fmt: skip


@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_of_another_api_is_named(streamed: bool) -> None:
    completion = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "x"}}]}
    data = event(completion) if streamed else json.dumps(completion).encode()
    with pytest.raises(TransportError, match="Anthropic's Messages API") as caught:
        list(MessagesApi().chunks(iter([data]), streams=streamed))
    assert caught.value.kind is FailureKind.PROTOCOL


def test_the_list_of_models_shows_whether_the_key_is_taken(server: ScriptedServer, transport: DirectTransport) -> None:
    server.answer(lambda exchange: exchange.send(response(200 if "x-api-key" in exchange.headers else 401, {})))
    assert transport.is_available(5, "m")
    assert server.received[0].path == "/v1/models"
