"""OpenAI's Responses API: how a request is translated, and what its answers mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.responses_api import ResponsesApi
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest, TransportError, Truncated
from codelab.llm.failures import FailureKind
from codelab.llm.outcome import Usage

from tests.fakes.http import Exchange, event
from tests.fakes.model.apis import SpokenResponses
from tests.fakes.model.wire import ScriptedServer, delta, saying
from tests.llm.answer import answer_of
from tests.llm.schemas import STRING, array, obj

ANSWER = obj(message=STRING, calls=array(STRING))
SAID = '{"message": "Hello", "calls": []}'
ASK = [{"role": "user", "content": "What now?"}]
QUICK = RetryPolicy(base_s=0.01)
PIXEL = "data:image/png;base64,iVBORw0KGgo="

Json = dict[str, Any]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(spoken=SpokenResponses()) as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[DirectTransport]:
    made = DirectTransport(base_url=server.url, api_key="sk-1", api=ResponsesApi())
    yield made
    made.close()


def request(context: Any = ASK, **config: Any) -> Request:
    settings = RequestConfig(**{"model": "gpt-6", "provider": "openai-responses", **config})
    return Request(settings, ANSWER, context, unsupported=UnsupportedFeatures(), retry=QUICK)


def encoded(**body: Any) -> Json:
    made: Json = json.loads(ResponsesApi().encode({"model": "gpt-6", "messages": ASK, **body}))
    return made


def test_a_step_is_asked_as_the_documents_say(server: ScriptedServer, transport: DirectTransport) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 3}}
    server.says(SAID, usage={"prompt_tokens": 70, "completion_tokens": 5, **details})
    asked = request(reasoning_effort="low", max_output_tokens=100, seed=7)
    for streamed in (True, False):
        result = answer_of(asked, transport, streamed=streamed).result
        assert (result.solution["message"], result.strategy) == ("Hello", "native")
        assert result.usage == Usage(70, 5, 60, 3)
    body = json.loads(server.received[0].content)
    answer_format = body.pop("text")["format"]
    assert (answer_format["type"], answer_format["name"], answer_format["strict"]) == ("json_schema", "answer", True)
    assert len(body.pop("prompt_cache_key")) == 32
    assert body == {
        "model": "gpt-6",
        "input": ASK,
        "stream": True,
        "store": False,
        "max_output_tokens": 100,
        "reasoning": {"effort": "low"},
        "prompt_cache_options": {"mode": "explicit"},
    }


def test_calls_and_results_are_items_of_their_own() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
    parts = [{"type": "text", "text": "And?"}, {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}]
    body = encoded(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "assistant", "content": "Reading.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "text"},
            {"role": "assistant", "content": [{"type": "text", "text": "Well."}]},
            {"role": "user", "content": parts},
        ]
    )
    assert body["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Reading."},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "text"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Well."}]},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "And?"},
                {"type": "input_image", "image_url": PIXEL, "detail": "low"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("choice", "made"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "read"}}, {"type": "function", "name": "read"}),
    ],
)
def test_functions_are_not_nested_and_not_strict_unless_they_are(choice: Any, made: Any) -> None:
    function = {"name": "read", "description": "Read", "parameters": {"type": "object"}}
    body = encoded(tools=[{"type": "function", "function": function}], tool_choice=choice, parallel_tool_calls=False)
    assert body["tools"] == [{"type": "function", "strict": False, **function}]
    assert (body["tool_choice"], body["parallel_tool_calls"]) == (made, False)
    strict = encoded(tools=[{"type": "function", "function": {**function, "strict": True}}])
    assert strict["tools"][0]["strict"] is True


def test_an_operators_own_fields_are_kept() -> None:
    body = encoded(reasoning={"summary": "auto"}, reasoning_effort="high", text={"verbosity": "low"}, store=True)
    assert body["reasoning"] == {"summary": "auto", "effort": "high"}
    assert (body["text"], body["store"]) == ({"verbosity": "low"}, True)


@pytest.mark.parametrize(
    ("body", "message"),
    [({"n": 2}, "one answer"), ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input_audio")],
)
def test_what_the_api_does_not_have_is_an_error_before_the_call(body: Json, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        encoded(**body)


def test_summaries_of_thoughts_are_shown(server: ScriptedServer, transport: DirectTransport) -> None:
    server.answer(lambda exchange: exchange.events([delta(reasoning_content="Hm."), delta(SAID), delta(finish="stop")]))
    answer = answer_of(request(), transport)
    assert (answer.thoughts, answer.text) == ("Hm.", "Hello")


def test_a_call_may_come_whole() -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": ""}
    stream = [
        {"type": "response.created", "response": {"object": "response", "status": "in_progress", "error": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
        {"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning"}},
        {"type": "response.output_item.added", "output_index": 1, "item": item},
        {"type": "response.output_item.done", "output_index": 1, "item": {**item, "arguments": '{"a": 1}'}},
        {"type": "response.completed", "response": {"object": "response", "status": "completed", "output": []}},
    ]
    parts = ResponsesApi().chunks(iter([b"".join(map(event, stream))]), streams=True)
    choices = [choice for part in parts for chunk in part for choice in chunk["choices"]]
    assert [choice["delta"] for choice in choices] == [
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]},
        {},
    ]
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("type_", ["error", "response.failed"])
def test_an_error_in_the_middle_of_an_answer_keeps_its_text(
    server: ScriptedServer, transport: DirectTransport, type_: str
) -> None:
    error = {"code": "server_error", "message": "The server had an error"}
    problem = {"type": type_, **error} if type_ == "error" else {
        "type": type_, "response": {"object": "response", "status": "failed", "error": error}}  # fmt: skip

    def breaks(exchange: Exchange) -> None:
        exchange.begin()
        exchange.write(event(delta('{"message": "Hel')))
        Exchange.write(exchange, event(problem))
        exchange.end()

    server.answer(breaks)
    with pytest.raises(TransportError, match="The server had an error") as caught:
        answer_of(request(), transport)
    found = caught.value
    assert (found.status, found.retryable, found.streamed) == (500, True, {"message": "Hel"})


def test_a_failed_answer_before_the_first_token_is_asked_again(
    server: ScriptedServer, transport: DirectTransport
) -> None:
    server.answer(
        lambda exchange: exchange.events([{"error": {"code": "server_error", "message": "no"}}], done=False),
        saying(SAID),
    )
    assert answer_of(request(), transport).result.attempts == 2


def test_half_a_text_of_a_cut_stream_is_no_answer(server: ScriptedServer, transport: DirectTransport) -> None:
    server.answer(lambda exchange: exchange.events([delta('{"message": "Hel')], done=False))
    with pytest.raises(Truncated):
        answer_of(request(), transport)


@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_of_another_api_is_named(streamed: bool) -> None:
    completion = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "x"}}]}
    data = event(completion) if streamed else json.dumps(completion).encode()
    with pytest.raises(TransportError, match="OpenAI's Responses API") as caught:
        list(ResponsesApi().chunks(iter([data]), streams=streamed))
    assert caught.value.kind is FailureKind.PROTOCOL
