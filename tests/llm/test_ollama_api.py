"""Ollama's own API: how a request is translated, and what its answers mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.ollama_api import OllamaApi
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Call
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import ContextOverflow, InvalidRequest, TransportError, Truncated
from codelab.llm.failures import FailureKind
from codelab.llm.outcome import Usage

from tests.cases import cases
from tests.fakes.http import Exchange, response
from tests.fakes.model.apis import WINDOW, SpokenOllama
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
    with ScriptedServer(spoken=SpokenOllama()) as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[DirectTransport]:
    made = DirectTransport(base_url=server.url, api_key="", api=OllamaApi(lambda _: WINDOW))
    yield made
    made.close()


def request(context: Any = ASK, **config: Any) -> Request:
    settings = RequestConfig(**{"model": "qwen3:8b", "provider": "ollama-chat", **config})
    return Request(settings, ANSWER, context, unsupported=UnsupportedFeatures(), retry=QUICK)


def encoded(**body: Any) -> Json:
    api = OllamaApi({"qwen3:8b": 9_000}.__getitem__)
    made: Json = json.loads(api.encode({"model": "qwen3:8b", "messages": ASK, **body}))
    return made


def test_a_step_is_asked_as_the_documents_say(server: ScriptedServer, transport: DirectTransport) -> None:
    server.says(SAID, usage={"prompt_tokens": 70, "completion_tokens": 5})
    answer = answer_of(request(temperature=0, top_p=0.5, seed=7, max_output_tokens=100), transport)
    assert (answer.text, answer.result.strategy) == ("Hello", "native")
    assert answer.result.usage == Usage(70, 5, None, None)
    body = json.loads(server.received[-1].content)
    assert body.pop("format")["type"] == "object"
    prompt, question = body.pop("messages")
    assert '"message"' in prompt["content"], "the schema is a grammar only, so the form is told"
    assert question == ASK[0]
    assert body == {
        "model": "qwen3:8b",
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": WINDOW, "temperature": 0, "top_p": 0.5, "seed": 7, "num_predict": 100},
    }


def test_an_answer_that_is_not_streamed_says_so() -> None:
    assert encoded()["stream"] is False


def test_the_window_is_that_of_the_model_unless_the_operator_says_otherwise() -> None:
    assert encoded()["options"] == {"num_ctx": 9_000}
    assert encoded(options={"num_ctx": 5_000, "top_k": 3})["options"] == {"num_ctx": 5_000, "top_k": 3}


def test_a_prompt_that_is_too_long_is_an_error_and_not_cut(server: ScriptedServer, transport: DirectTransport) -> None:
    server.says(SAID)
    long = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "word " * WINDOW}]
    with pytest.raises(ContextOverflow):
        request(long).run(transport)
    with pytest.raises(TransportError, match="exceeds the context length") as caught:
        list(transport.send({"model": "qwen3:8b", "messages": long}, Call()))
    assert caught.value.kind is FailureKind.WINDOW


@cases(
    ("asked", "think"),
    [
        ({}, None),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "low"}, "low"),
        ({"think": True}, True),
        ({"think": False}, False),
    ],
)
def test_thinking_is_asked_for(asked: Json, think: Any) -> None:
    assert encoded(**asked).get("think") is think or encoded(**asked)["think"] == think


def test_thoughts_are_shown(server: ScriptedServer, transport: DirectTransport) -> None:
    server.answer(
        lambda exchange: exchange.events(
            [delta(reasoning_content="Hm. "), delta(reasoning_content="Yes."), delta(SAID), delta(finish="stop")]
        )
    )
    answer = answer_of(request(thinking=True), transport)
    assert (answer.thoughts, answer.text) == ("Hm. Yes.", "Hello")
    assert json.loads(server.received[-1].content)["think"] is True


def test_calls_have_objects_as_arguments_and_results_name_their_tool() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
    broken = {"id": "c2", "type": "function", "function": {"name": "list", "arguments": '{"path'}}
    body = encoded(
        messages=[
            {"role": "developer", "content": "Be brief."},
            *ASK,
            {"role": "assistant", "content": None, "tool_calls": [call, broken]},
            {"role": "tool", "tool_call_id": "c1", "content": "text"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "none"}]},
        ]
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        *ASK,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c1", "function": {"name": "read", "arguments": {"path": "a"}}},
                {"id": "c2", "function": {"name": "list", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "text", "tool_call_id": "c1", "tool_name": "read"},
        {"role": "tool", "content": "none", "tool_call_id": "c2", "tool_name": "list"},
    ]


def test_tools_are_offered_as_they_are_and_not_if_none_is_to_be_called() -> None:
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    assert encoded(tools=tools, tool_choice="auto")["tools"] == tools
    assert "tools" not in encoded(tools=tools, tool_choice="none")


def test_images_are_data() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    parts = [{"type": "text", "text": "What is"}, image, {"type": "text", "text": "it?"}]
    assert encoded(messages=[{"role": "user", "content": parts}])["messages"] == [
        {"role": "user", "content": "What is\n\nit?", "images": [PIXEL]}
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"n": 2}, "one answer"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input_audio"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}]},
         "fetches no images"),
    ],
)  # fmt: skip
def test_what_the_api_does_not_have_is_an_error_before_the_call(body: Json, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        encoded(**body)


def test_parallel_calls_come_whole_and_are_numbered() -> None:
    read, listed = ({"function": {"name": name, "arguments": {"path": name}}} for name in ("read", "list"))
    lines = [
        {"message": {"role": "assistant", "content": "", "tool_calls": [read]}, "done": False},
        {"message": {"role": "assistant", "content": "", "tool_calls": [{"id": "call_x", **listed}]}, "done": False},
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", "eval_count": 4},
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    chunks = [chunk for part in OllamaApi(len).chunks(iter([data]), streams=True) for chunk in part]
    calls = [call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]
    assert [(call["index"], call["id"], call["function"]["name"]) for call in calls] == [
        (0, "call_0", "read"),
        (1, "call_x", "list"),
    ]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"path": "read"}, {"path": "list"}]
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert Usage.parse(chunks[-1]["usage"]) == Usage(None, 4, None, None)


def test_lines_may_be_cut_anywhere(server: ScriptedServer, transport: DirectTransport) -> None:
    def dripping(exchange: Exchange) -> None:
        spoken = SpokenOllama().answering()
        stream = b"\r\n" + spoken.chunk(delta("é漢😀")) + spoken.chunk(delta("b")) + spoken.chunk(delta(finish="stop"))
        stream += spoken.end().rstrip(b"\n")  # the last line need not end
        Exchange.begin(exchange)
        for at in range(0, len(stream), 7):
            Exchange.write(exchange, stream[at : at + 7])
        exchange.end()

    server.answer(dripping)
    body = {"model": "qwen3:8b", "stream": True, "messages": ASK}
    chunks = [chunk for chunks in transport.send(body, Call()) for chunk in chunks]
    texts = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    assert texts == ["é漢😀", "b", None]


@pytest.mark.parametrize(
    ("status", "message", "kind", "retryable"),
    [
        (400, '"qwen2.5:7b" does not support thinking', FailureKind.OTHER, False),
        (404, "model 'qwen9' not found", FailureKind.MODEL, False),
        (429, "too many concurrent requests", FailureKind.RATE, True),
        (500, "the model failed to generate a response", FailureKind.OTHER, True),
        (503, "server busy, please try again", FailureKind.BUSY, True),
    ],
)
def test_errors_are_read_by_their_kind(
    server: ScriptedServer, transport: DirectTransport, status: int, message: str, kind: FailureKind, retryable: bool
) -> None:
    server.answer(failing(status, message))
    with pytest.raises(TransportError) as caught:
        list(transport.send({"model": "qwen3:8b", "messages": ASK}, Call()))
    found = caught.value
    assert (found.status, found.kind, found.retryable) == (status, kind, retryable)
    assert message in found.message


def test_an_error_in_the_middle_of_an_answer_keeps_its_text(server: ScriptedServer, transport: DirectTransport) -> None:
    problem = {"error": {"message": "an error was encountered while running the model"}}
    server.answer(lambda exchange: exchange.events([delta('{"message": "Hel'), problem], done=False))
    with pytest.raises(TransportError, match="while running the model") as caught:
        answer_of(request(), transport)
    assert (caught.value.streamed, caught.value.attempts) == ({"message": "Hel"}, 1)


def test_an_error_before_the_first_token_is_waited_out(server: ScriptedServer, transport: DirectTransport) -> None:
    problem = {"error": {"message": "llama runner process has terminated"}}
    server.answer(lambda exchange: exchange.events([problem], done=False), saying(SAID))
    assert answer_of(request(), transport).result.attempts == 2


def test_half_a_text_of_a_cut_stream_is_no_answer(server: ScriptedServer, transport: DirectTransport) -> None:
    server.answer(lambda exchange: exchange.events([delta('{"message": "Hel')], done=False))
    with pytest.raises(Truncated):
        answer_of(request(), transport)


def test_a_model_without_native_schemas_gets_a_tool(server: ScriptedServer, transport: DirectTransport) -> None:
    def called(exchange: Exchange) -> None:
        exchange.events([argument(SAID, name="generate_response"), delta(finish="stop")])

    server.answer(called)
    answer = answer_of(request(strategy="tool"), transport)
    assert (answer.text, answer.result.finish_reason) == ("Hello", "tool_calls")
    assert "tool_choice" not in json.loads(server.received[-1].content)


@cases("data", [b"<html>no</html>\n", b"404 page not found", b'{"object": "chat.completion", "choices": []}\n'])
@cases("streamed", [True, False])
def test_an_answer_of_another_api_is_named(data: bytes, streamed: bool) -> None:
    with pytest.raises(TransportError, match="is its address that of") as caught:
        list(OllamaApi(len).chunks(iter([data]), streams=streamed))
    assert caught.value.kind is FailureKind.PROTOCOL


def test_a_line_that_is_no_json_ends_the_answer(server: ScriptedServer, transport: DirectTransport) -> None:
    def broken(exchange: Exchange) -> None:
        exchange.begin()
        exchange.write(b"data: " + json.dumps(delta('{"message": "Hel')).encode() + b"\n\n")
        Exchange.write(exchange, b"oh no\n")
        exchange.end()

    server.answer(broken)
    with pytest.raises(TransportError, match="not JSON") as caught:
        answer_of(request(), transport)
    assert caught.value.streamed == {"message": "Hel"}


def test_the_list_of_models_shows_that_the_server_is_there(server: ScriptedServer, transport: DirectTransport) -> None:
    server.answer(lambda exchange: exchange.send(response(200, {"models": []})))
    assert transport.is_available(5, "m")
    assert server.received[0].path == "/v1/tags"
