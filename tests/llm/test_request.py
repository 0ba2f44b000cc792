"""A Request from start to end, against an independent server and a scripted one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from codelab.http.cancellation import Cancellation
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import (
    Cancelled,
    ContentFilter,
    ContextOverflow,
    DeadlineExceeded,
    Empty,
    InvalidAnswer,
    InvalidJson,
    Length,
    Refusal,
    TransportError,
    Truncated,
)
from codelab.llm.outcome import TextDelta, Usage
from codelab.llm.profiles import STRATEGIES

from tests.fakes.http import Exchange, Script, event
from tests.fakes.model import apis
from tests.fakes.model.apis import SPOKEN, SpokenApi
from tests.fakes.model.wire import ScriptedServer, delta, failing, saying
from tests.llm.answer import answer_of
from tests.llm.schemas import INTEGER, STRING, array, closed, obj, optional

READ = closed(optional(_tool={"const": "read"}, path=STRING, limit=INTEGER)) | {"required": ["_tool", "path"]}
ENV = closed(obj(_tool={"const": "env"}, set={"additionalProperties": STRING}))
TURN = obj(message=STRING, calls=array({"anyOf": [READ, ENV]}))
ASK = [{"role": "user", "content": "What now?"}]
QUICK = RetryPolicy(base_s=0.01)


def request(
    schema: Any = TURN, context: Any = ASK, unsupported: UnsupportedFeatures | None = None, **config: Any
) -> Request:
    settings = RequestConfig(**{"model": "test-model", **config})
    return Request(settings, schema, context, unsupported=unsupported or UnsupportedFeatures(), retry=QUICK)


# Against llmock, an independent OpenAI-compatible server that fills schemas and fails on demand.


@pytest.fixture
def mocked(llmock: Any) -> DirectTransport:
    return DirectTransport(base_url=llmock.base_url(), api_key="test")


@pytest.mark.parametrize("strategy", ["native", "tool", "calls"])
@pytest.mark.parametrize("streamed", [True, False])
def test_native_and_tool_work_with_and_without_streaming(
    mocked: Any, llmock: Any, strategy: str, streamed: bool
) -> None:
    answer = answer_of(request(strategy=strategy), mocked, streamed=streamed)
    result = answer.result
    if streamed:
        assert {"message": answer.text, "calls": answer.items} == result.solution
    assert result.solution["calls"][0]["_tool"] == "read"
    assert result.strategy == strategy
    assert result.usage.completion
    llmock.assert_resilient()


@pytest.mark.parametrize("streamed", [True, False])
def test_a_rate_limit_is_waited_out(mocked: Any, llmock: Any, streamed: bool) -> None:
    llmock.rate_limit(times=2, retry_after=0.2)
    assert answer_of(request(), mocked, streamed=streamed).result.attempts == 3
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [408, 409, 500, 503, 529])
def test_temporary_errors_are_retried(mocked: Any, llmock: Any, status: int) -> None:
    llmock.fail(status)
    assert request().run(mocked).attempts == 2


@pytest.mark.parametrize("status", [401, 403, 404])
def test_permanent_errors_are_not_retried(mocked: Any, llmock: Any, status: int) -> None:
    llmock.fail(status, times=None)
    with pytest.raises(TransportError) as caught:
        request().run(mocked)
    assert (caught.value.status, caught.value.retryable, caught.value.attempts) == (status, False, 1)


def test_an_outage_fails_after_a_few_attempts(mocked: Any, llmock: Any) -> None:
    llmock.outage()
    with pytest.raises(TransportError) as caught:
        request().run(mocked)
    assert (caught.value.status, caught.value.retryable, caught.value.attempts) == (503, True, 4)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
@pytest.mark.parametrize("strategy", ["native", "tool", "calls"])
def test_a_broken_stream_is_an_error(mocked: Any, llmock: Any, fault: str, strategy: str) -> None:
    getattr(llmock, fault)(after_chunks=3)
    with pytest.raises((Truncated, TransportError)):
        answer_of(request(strategy=strategy), mocked)


@pytest.mark.parametrize("strategy", ["tool", "calls"])
@pytest.mark.parametrize("fault", ["malformed_arguments", "unknown_tool"])
def test_a_broken_function_call_is_repaired(mocked: Any, llmock: Any, fault: str, strategy: str) -> None:
    llmock.break_tool_call(fault)
    result = request(strategy=strategy).run(mocked)
    assert (result.attempts, result.strategy) == (2, strategy)
    assert result.solution["calls"] or strategy == "calls", "this server says something after results of functions"


def test_an_unsupported_format_is_replaced_and_remembered(mocked: Any, llmock: Any) -> None:
    unsupported = UnsupportedFeatures()
    llmock.fail(400, message="Unknown parameter: 'response_format'.")
    first = request(unsupported=unsupported).run(mocked)
    assert (first.strategy, first.attempts) == ("tool", 2)
    second = request(unsupported=unsupported).run(mocked)
    assert (second.strategy, second.attempts) == ("tool", 1)
    assert request(unsupported=unsupported, model="another").run(mocked).strategy == "native"


# Against a scripted server of each API.


@pytest.fixture(params=["openai", *SPOKEN])
def api(request: pytest.FixtureRequest) -> SpokenApi | None:
    return apis.spoken(request.param)


#: What only the chat completions API has.
chat_completions = pytest.mark.parametrize("api", ["openai"], indirect=True)


@pytest.fixture
def server(api: SpokenApi | None) -> Iterator[ScriptedServer]:
    with ScriptedServer(spoken=api) as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer, api: SpokenApi | None) -> Iterator[DirectTransport]:
    header = "Authorization" if api is None else api.key_header
    made = DirectTransport(base_url=server.url, api_key="test", key_header=header, api=apis.client(api))
    yield made
    made.close()


def reported(api: SpokenApi | None, **tokens: int | None) -> Usage:
    """The tokens that the API counts."""
    known = {name: count for name, count in tokens.items()
             if api is None or name in ("prompt", "completion", *api.reports)}  # fmt: skip
    return Usage(**known)


ANSWER = {
    "message": "Hello, “wörld” 😀",
    "calls": [{"_tool": "read", "path": "a.py"}, {"_tool": "env", "set": {"A": "1"}}],
}
STRICT = {
    "message": ANSWER["message"],
    "calls": [{"_tool": "read", "path": "a.py", "limit": None}, {"_tool": "env", "set": [{"key": "A", "value": "1"}]}],
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("streamed", [True, False])
def test_the_solution_has_the_shape_of_the_schema(
    server: ScriptedServer, transport: Any, api: SpokenApi | None, strategy: str, streamed: bool
) -> None:
    said = json.dumps(ANSWER if strategy == "json" else STRICT)
    server.says(
        said,
        usage={
            "prompt_tokens": 7,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        },
    )
    answer = answer_of(request(strategy=strategy), transport, streamed=streamed)
    result = answer.result
    if streamed:
        assert (answer.text, answer.items) == (ANSWER["message"], ANSWER["calls"])
        assert result.streamed == {"message": ANSWER["message"]}
    assert result.solution == ANSWER
    assert result.usage == reported(api, prompt=7, completion=9, cached=3, cache_writes=2)
    assert result.finish_reason == ("tool_calls" if strategy in ("tool", "calls") and api is not None else "stop")


def test_an_invalid_answer_is_repaired_without_streaming_text_again(server: ScriptedServer, transport: Any) -> None:
    wrong = {"message": "Reading.", "calls": [{"_tool": "read", "path": 5, "limit": None}]}
    right = {"calls": [{"_tool": "read", "path": "a", "limit": None}]}
    server.says(json.dumps(wrong), json.dumps(right), usage={"prompt_tokens": 10, "completion_tokens": 5})
    answer = answer_of(request(), transport)
    result = answer.result
    assert answer.text == "Reading."
    assert result.solution == {"message": "Reading.", "calls": [{"_tool": "read", "path": "a"}]}
    assert answer.items == [{"_tool": "read", "path": "a"}]
    assert (result.attempts, result.usage.prompt, result.usage.completion) == (2, 20, 10)
    again = server.requests[1]
    assert "message" not in again["response_format"]["json_schema"]["schema"]["properties"]
    assert again["messages"][-2] == {"role": "assistant", "content": json.dumps(wrong)}
    assert "/calls/0/path" in again["messages"][-1]["content"]
    assert '5 is not of type "string"' in again["messages"][-1]["content"]


def test_repairs_are_limited(server: ScriptedServer, transport: Any) -> None:
    server.says('{"message": 1, "calls": []}', usage={"prompt_tokens": 1, "completion_tokens": 1})
    with pytest.raises(InvalidAnswer) as caught:
        request(max_repairs=2).run(transport)
    assert caught.value.code == "invalid_answer"
    assert (caught.value.attempts, caught.value.usage.prompt) == (3, 3)
    assert "/message" in caught.value.errors[0]
    server.says("not json")
    with pytest.raises(InvalidJson):
        request(max_repairs=0, strategy="json").run(transport)


@pytest.mark.parametrize(
    ("api", "finish", "message", "error"),
    [
        ("openai", "stop", {"refusal": "I will not."}, Refusal),
        ("openai", "length", {}, Length),
        ("openai", "content_filter", {}, ContentFilter),
        ("openai", None, {}, Truncated),
        ("openai-responses", "stop", {"refusal": "I will not."}, Refusal),
        ("openai-responses", "length", {}, Length),
        ("openai-responses", "content_filter", {}, ContentFilter),
        ("openai-responses", None, {}, Truncated),
        ("anthropic-messages", "stop", {"refusal": "I will not."}, Refusal),
        ("anthropic-messages", "refusal", {}, Refusal),
        ("anthropic-messages", "length", {}, Length),
        ("anthropic-messages", "model_context_window_exceeded", {}, ContextOverflow),
        ("anthropic-messages", "pause_turn", {}, TransportError),
        ("anthropic-messages", None, {}, Truncated),
        ("ollama-chat", "length", {}, Length),
        ("ollama-chat", None, {}, Truncated),
    ],
    indirect=["api"],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_each_end_without_an_answer_has_its_error(
    server: ScriptedServer, transport: Any, api: SpokenApi | None, finish: Any, message: Any, error: Any, streamed: bool
) -> None:
    details = {
        "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 4, **details}
    server.answer(saying('{"message": "half an ans', finish=finish, usage=usage, **message))
    with pytest.raises(error) as caught:
        answer_of(request(), transport, streamed=streamed)
    if finish is not None or api is None:  # the others report it at the end only
        assert caught.value.usage == reported(api, prompt=3, completion=4, cached=1, cache_writes=2, reasoning=2)
    assert caught.value.streamed == ({"message": "half an ans"} if streamed else {})
    assert caught.value.code == error.code


@chat_completions
@pytest.mark.parametrize("last", [{"index": 0, "error": {"message": "overloaded"}}, 5])
def test_text_that_arrives_with_a_problem_is_kept(server: ScriptedServer, transport: Any, last: Any) -> None:
    def at_once(exchange: Exchange) -> None:
        exchange.begin()
        exchange.write(event(delta('{"message": "half an ')) + event(delta("answer")) + event({"choices": [last]}))
        exchange.closed_by_client()

    server.answer(at_once)
    with pytest.raises(TransportError) as caught:
        answer_of(request(), transport)
    assert caught.value.streamed == {"message": "half an answer"}
    assert caught.value.attempts == 1


def test_an_empty_answer_is_an_error(server: ScriptedServer, transport: Any) -> None:
    server.says("")
    with pytest.raises(Empty):
        request().run(transport)


def test_json_mode_allows_prose_and_a_fence_around_the_object(
    server: ScriptedServer, transport: Any, api: SpokenApi | None
) -> None:
    server.says(f"<think>Hm {{}}</think>Sure {{here}}:\n```json\n{json.dumps(ANSWER, indent=1)}\n```\nDone.")
    answer = answer_of(request(strategy="json"), transport)
    assert (answer.text, answer.result.solution) == (ANSWER["message"], ANSWER)
    system = server.requests[0]["messages"][0]
    assert system["role"] == "system"
    assert "JSON" in system["content"]
    assert '"_tool"' in system["content"]
    expected = {"type": "json_object"} if api is None or api.has_json_object else None
    assert server.requests[0].get("response_format") == expected


def test_a_model_may_answer_without_calling_the_function(server: ScriptedServer, transport: Any) -> None:
    server.answer(lambda exchange: exchange.events([delta(json.dumps(ANSWER)), delta(finish="stop")]))
    assert answer_of(request(strategy="tool"), transport).result.solution == ANSWER


WRITTEN_CALL = json.dumps({"name": "generate_response", "arguments": ANSWER}, indent=1)


def writing(*texts: str, finish: str = "stop") -> list[Script]:
    """Answers whose text is streamed as content, whatever functions were offered."""
    return [lambda exchange, text=text: exchange.events([delta(text), delta(finish=finish)]) for text in texts]


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        (WRITTEN_CALL, "stop"),
        (f"```json\n{WRITTEN_CALL}\n```", "stop"),
        (f"```json\n{WRITTEN_CALL}\n```\n\n\n", "length"),
    ],
    ids=["bare", "fence", "until the output limit"],
)
def test_a_model_may_write_the_call_of_the_function_as_text(
    server: ScriptedServer, transport: Any, said: str, finish: str
) -> None:
    server.answer(*writing(said, finish=finish))
    result = answer_of(request(strategy="tool"), transport).result
    assert (result.solution, result.attempts) == (ANSWER, 1)


@pytest.mark.parametrize(
    "said",
    [f"The file says:\n```json\n{WRITTEN_CALL}\n```", WRITTEN_CALL.replace("generate_response", "write_file")],
    ids=["quoted", "of another function"],
)
def test_a_written_call_that_is_not_the_whole_answer_or_not_of_the_function_is_none(
    server: ScriptedServer, transport: Any, said: str
) -> None:
    server.answer(*writing(said, json.dumps(ANSWER)))
    result = answer_of(request(strategy="tool"), transport).result
    assert (result.solution, result.repairs) == (ANSWER, 1)


def test_an_answer_that_looks_like_a_written_call_is_kept_where_the_schema_wants_it(
    server: ScriptedServer, transport: Any
) -> None:
    answer = {"name": "generate_response", "arguments": {"path": "a"}}
    server.answer(*writing(json.dumps(answer)))
    assert (
        answer_of(request(obj(name=STRING, arguments=obj(path=STRING)), strategy="tool"), transport).result.solution
        == answer
    )


@chat_completions
def test_n_choices_give_n_solutions(server: ScriptedServer, transport: Any) -> None:
    def two(exchange: Any) -> None:
        texts = ['{"message": "one", "calls": []}', '{"message": "two", "calls": []}']
        exchange.events([delta(t, index=i, finish="stop") for i, t in enumerate(texts)])

    server.answer(two)
    answer = answer_of(request(n=2), transport)
    assert server.requests[0]["n"] == 2
    assert answer.text == "one"
    assert [solution["message"] for solution in answer.result.solutions] == ["one", "two"]


def test_the_root_of_a_schema_need_not_be_an_object(server: ScriptedServer, transport: Any) -> None:
    for strategy in STRATEGIES:
        server.says('{"value": [1, 2]}')
        assert request(array(INTEGER), strategy=strategy).run(transport).solution == [1, 2]


@chat_completions
def test_blamed_keywords_and_strict_are_dropped(server: ScriptedServer, transport: Any) -> None:
    server.answer(
        failing(400, "Invalid schema for response_format 'answer': In context=(), 'const' is not permitted."),
        failing(400, "Unknown parameter: 'response_format.json_schema.strict'."),
        saying(json.dumps(STRICT)),
    )
    unsupported = UnsupportedFeatures()
    assert request(unsupported=unsupported).run(transport).attempts == 3
    schemas = [body["response_format"]["json_schema"] for body in server.requests]
    assert '"const"' in json.dumps(schemas[0])
    assert '"const"' not in json.dumps(schemas[1])
    assert [schema.get("strict") for schema in schemas] == [True, True, None]
    assert unsupported.of(transport.base_url, "test-model") == {"keyword:const", "native:strict"}


def test_an_unsupported_parameter_is_left_out(server: ScriptedServer, transport: Any) -> None:
    server.answer(
        failing(400, "Unsupported value: 'temperature' does not support 0 with this model."), saying(json.dumps(STRICT))
    )
    request(temperature=0).run(transport)
    assert ["temperature" in body for body in server.requests] == [True, False]


def test_a_store_keeps_unsupported_features(server: ScriptedServer, transport: Any) -> None:
    class Store:
        def __init__(self) -> None:
            self.kept: dict[tuple[str, str], frozenset[str]] = {}

        def load(self, base_url: str, model: str) -> dict[str, float]:
            return dict.fromkeys(self.kept.get((base_url, model), ()), time.time() + 60)

        def save(self, base_url: str, model: str, unsupported: frozenset[str]) -> None:
            self.kept[base_url, model] = unsupported

    store = Store()
    server.answer(failing(400, "response_format is not supported"), saying(json.dumps(STRICT)))
    request(unsupported=UnsupportedFeatures(store)).run(transport)
    assert store.kept == {(server.url, "test-model"): frozenset({"native"})}
    assert request(unsupported=UnsupportedFeatures(store)).run(transport).attempts == 1


def test_what_another_process_has_learnt_costs_one_refusal(server: ScriptedServer, transport: Any) -> None:
    class Shared:
        def __init__(self) -> None:
            self.features, self.reads = frozenset[str](), 0

        def load(self, base_url: str, model: str) -> dict[str, float]:
            self.reads += 1
            return dict.fromkeys(self.features, time.time() + 60)

        def save(self, base_url: str, model: str, unsupported: frozenset[str]) -> None:
            self.features = unsupported

    shared, schema = Shared(), obj(summary=STRING)
    no_format, no_tools = "response_format is not supported", "tools are not supported"
    answer = saying('{"summary": "x"}')
    server.answer(failing(400, no_format), failing(400, no_tools), answer, failing(400, no_format), answer, answer)
    first, second = (UnsupportedFeatures(shared, lazy=True) for _ in range(2))
    assert request(schema, unsupported=first).run(transport).strategy == "json"
    assert len(server.requests) == 3
    assert request(schema, unsupported=second).run(transport).strategy == "json"
    assert len(server.requests) == 5
    assert request(schema, unsupported=second).run(transport).strategy == "json"
    assert (len(server.requests), shared.reads) == (6, 2)


def test_what_is_loaded_is_forgotten_when_it_was_to_be() -> None:
    class Shared:
        def load(self, base_url: str, model: str) -> dict[str, float]:
            return {"native": 90.0}

        def save(self, base_url: str, model: str, unsupported: frozenset[str]) -> None: ...

    now = [60.0]
    features = UnsupportedFeatures(Shared(), clock=lambda: now[0])
    assert features.of("url", "m") == {"native"}
    now[0] = 91.0
    assert features.of("url", "m") == frozenset()


def test_a_400_about_something_else_is_an_error(server: ScriptedServer, transport: Any) -> None:
    server.answer(failing(400, "Your prompt is too long."))
    with pytest.raises(TransportError) as caught:
        request().run(transport)
    assert (caught.value.status, caught.value.attempts) == (400, 1)


@chat_completions
def test_history_with_calls_is_sent_unchanged_if_the_answer_has_none(server: ScriptedServer, transport: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    context = [
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Reading.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "text"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": [{"type": "text", "text": "And?"}]},
    ]
    server.says('{"summary": "x"}')
    request(obj(summary=STRING), context=context).run(transport)
    assert server.requests[0]["messages"] == context


def test_instructions_of_a_strategy_come_first(server: ScriptedServer, transport: Any) -> None:
    server.says(json.dumps(ANSWER))
    context = [{"role": "system", "content": "Be brief."}, *ASK]
    for strategy in ("json", "tool", "calls"):
        for more in ([], [{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]):
            request(context=context + more, strategy=strategy).run(transport)
    sent = [body["messages"] for body in server.requests]
    assert sent[1][:2] == sent[0]
    assert sent[3][:2] == sent[2]
    assert sent[5][:2] == sent[4]


# Bounds: cancellation, deadlines, connections.


class Stalled:
    """Begins an answer, if it has a beginning, and waits until the client closes the connection."""

    def __init__(self, beginning: str = "", then: Callable[[], object] = lambda: None) -> None:
        self.beginning, self.then = beginning, then
        self.closed = threading.Event()

    def __call__(self, exchange: Exchange) -> None:
        if self.beginning:
            exchange.begin()
            exchange.write(event(delta(self.beginning)))
        self.then()
        if exchange.closed_by_client():
            self.closed.set()


def test_cancel_interrupts_a_silent_model(server: ScriptedServer, transport: Any) -> None:
    switch = Cancellation()
    silent = Stalled(then=threading.Timer(0.1, switch.cancel).start)
    server.answer(silent)
    with pytest.raises(Cancelled):
        request().run(transport, cancel=switch)
    assert silent.closed.wait(30)


def test_cancel_interrupts_a_stream_and_keeps_its_text(server: ScriptedServer, transport: Any) -> None:
    stalled = Stalled('{"message": "Hel')
    server.answer(stalled)
    switch = Cancellation()
    events = request().stream(transport, cancel=switch)
    assert next(iter(events)) == TextDelta("message", "Hel")
    threading.Timer(0.1, switch.cancel).start()
    with pytest.raises(Cancelled) as caught:
        next(iter(events))
    assert caught.value.streamed == {"message": "Hel"}
    assert stalled.closed.wait(30)


def test_a_cancel_may_come_before_or_after_the_run(server: ScriptedServer, transport: Any) -> None:
    server.says(json.dumps(STRICT))
    token = Cancellation()
    asked = request()
    answer_of(asked, transport, cancel=token)
    token.cancel()  # too late: the connection is in the pool, and stays usable
    with pytest.raises(Cancelled):
        answer_of(asked, transport, cancel=token)
    assert request().run(transport).solution == ANSWER
    assert server.connections == 1


def test_closing_the_stream_closes_the_connection(server: ScriptedServer, transport: Any) -> None:
    stalled = Stalled('{"message": "Hel')
    server.answer(stalled)
    events = request().stream(transport)
    next(iter(events))
    events.close()
    assert stalled.closed.wait(30)


@pytest.mark.parametrize("when", ["silent", "dripping"])
def test_a_deadline_ends_a_slow_answer(server: ScriptedServer, transport: Any, when: str) -> None:
    def slow(exchange: Any) -> None:
        if when == "silent":
            exchange.closed_by_client()
            return
        exchange.begin()
        while True:
            exchange.write(b": keep-alive\n\n")
            time.sleep(0.02)

    server.answer(slow)
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        answer_of(request(), transport, deadline=started + 0.3)
    assert time.monotonic() - started < 30


def test_a_deadline_ends_the_wait_for_a_retry(server: ScriptedServer, transport: Any) -> None:
    server.answer(failing(429, retry_after="50"))
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        request().run(transport, deadline=started + 40)
    assert time.monotonic() - started < 30


def test_a_connection_lost_before_the_first_token_is_retried(server: ScriptedServer, transport: Any) -> None:
    def lost(exchange: Any) -> None:
        exchange.socket.shutdown(socket.SHUT_RDWR)

    def begun(exchange: Any) -> None:
        exchange.events([delta(role="assistant")], done=False)

    server.answer(lost, begun, saying(json.dumps(STRICT)))
    assert answer_of(request(), transport).result.attempts == 3


def test_a_connection_is_reused(server: ScriptedServer, transport: Any) -> None:
    server.says(json.dumps(STRICT))
    for _ in range(3):
        answer_of(request(), transport)
        request().run(transport)
    assert server.connections == 1


@chat_completions
def test_a_silent_provider_ends_with_the_timeout(server: ScriptedServer) -> None:
    server.answer(lambda exchange: exchange.closed_by_client())
    transport = DirectTransport(base_url=server.url, api_key="x", timeout=0.2)
    with pytest.raises(TransportError) as caught:
        Request(RequestConfig("m"), TURN, ASK, retry=RetryPolicy(attempts=1)).run(transport)
    assert (caught.value.retryable, caught.value.status) == (True, None)


def test_preparing_a_request_imports_no_client_of_any_service() -> None:
    code = """
import sys
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig

schema = {"type": "object", "properties": {"a": {"type": "string"}}}
Request(RequestConfig("m"), schema, [{"role": "user", "content": "x"}])
print(*sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = run.stdout.split()
    services = {"boto3", "botocore", "openai", "httpx", "httpx2", "urllib3", "aws_lambda_powertools", "fastapi"}
    assert not {name.partition(".")[0] for name in names} & {*services, "pydantic", "llguidance"}
    assert {name.split(".")[1] for name in names if name.startswith("codelab.")} == {"http", "llm"}
