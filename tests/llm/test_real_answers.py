"""The answers of real providers that are not what the protocol promises, each with the outcome that people need.

The texts are our own; what is wrong with each answer was reported of the provider that the row names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from codelab.llm.client.bedrock import bedrock_base_url
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import (
    ContentFilter,
    ContextOverflow,
    InvalidRequest,
    Length,
    ModelError,
    Prose,
    Refusal,
    TransportError,
    Truncated,
)
from codelab.llm.failures import FailureKind
from codelab.llm.profiles import PROFILES

from tests.fakes.http import DONE, Exchange, Script, event
from tests.fakes.model.wire import ScriptedServer, delta, saying
from tests.llm.answer import Answer
from tests.llm.schemas import STRING, array, closed, obj
from tests.llm.sdk import sdk_transport

SCHEMA = closed(obj(message=STRING, calls=array(closed(obj(path=STRING)))))
SOLUTION = {"message": "I read it first.", "calls": [{"path": "src/a.py"}]}
WHOLE = json.dumps(SOLUTION)
CUT_TEXT, CUT_CALL = WHOLE[:18], WHOLE[:45]
CONTEXT = [{"role": "user", "content": "What does it do?"}]
QUICK = RetryPolicy(base_s=0.001)
ANSWER = "the answer"


@dataclass
class Row:
    """What a provider answers, in order (the last one again and again), and what comes of it.

    outcome: ANSWER, or the error. calls: the most requests. kind, retryable: of a TransportError. shown: the text that
    people see before an error. rungs: the strategies of the requests, if they matter.
    """

    answers: Sequence[Script]
    outcome: Any = ANSWER
    calls: int = 1
    kind: FailureKind | None = None
    retryable: bool | None = None
    shown: str | None = None
    provider: str = "generic"
    remembered: set[str] = field(default_factory=set)
    streamed_only: bool = False


def refused(status: int, body: Any) -> Script:
    return lambda exchange: exchange.json(body, status)


def error(status: int, message: str, **more: Any) -> Script:
    return refused(status, {"error": {"message": message, **more}})


def text(body: str, kind: str = "text/html", status: str = "200 OK") -> Script:
    def script(exchange: Exchange) -> None:
        data = body.encode()
        exchange.send(
            f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data
        )

    return script


def answer(content: str, finish: str | None) -> Script:
    """An answer with any finish reason, or none."""

    def script(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            exchange.events([delta(content[:9]), delta(content[9:]), delta(finish=finish)])
        else:
            message = {"role": "assistant", "content": content}
            exchange.json({"choices": [{"index": 0, "message": message, "finish_reason": finish}]})

    return script


def chunk(body: dict[str, Any]) -> Script:
    """An object with status 200, in a stream if one was asked for."""

    def script(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            exchange.events([body])
        else:
            exchange.json(body)

    return script


def whole_beside_empty_deltas(exchange: Exchange) -> None:
    """Perplexity: each chunk has all of the answer so far beside an empty delta."""
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None,
                      "message": {"role": "assistant", "content": WHOLE[:end]}}]}
        for end in (10, len(WHOLE))
    ]  # fmt: skip
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    if exchange.body.get("stream"):
        exchange.events(chunks)
    else:
        exchange.json(chunks[-1])


def open_after_the_end(exchange: Exchange) -> None:
    """The finish reason has come; the connection stays open, without usage and `[DONE]`."""
    exchange.begin()
    exchange.write(event(delta(WHOLE)) + event(delta(finish="stop")))
    exchange.closed_by_client()


def whole_in_place_of_a_stream(exchange: Exchange) -> None:
    message = {"role": "assistant", "content": WHOLE}
    exchange.json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


FILTERED = {
    "code": "content_filter",
    "message": "The response was filtered: the prompt triggered the content management policy.",
    "status": 400,
    "innererror": {"code": "ResponsibleAIPolicyViolation"},
}
RETRY_INFO = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current requests.",
              "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.05s"}]}  # fmt: skip
HTML = "<!DOCTYPE html><html><body>Sign in to continue</body></html>"
NDJSON = (
    '{"model":"m","message":{"content":"Hel"},"done":false}\n{"model":"m","message":{"content":"lo"},"done":true}\n'
)
FENCED = f"```json\n{json.dumps(SOLUTION, indent=1)}\n```"

ROWS: dict[str, Row] = {
    # A grammar is refused.
    "vLLM: features not supported by xgrammar": Row(
        [error(400, "The provided JSON schema contains features not supported by xgrammar."), saying(WHOLE)],
        calls=2,
        remembered={"native"},
    ),
    "paroquant: Unknown format: uri": Row(
        [error(400, "Unknown format: uri in the grammar"), saying(WHOLE)], calls=2, remembered={"keyword:format"}
    ),
    "llama.cpp: failed to parse grammar": Row(
        [error(400, "Failed to initialize samplers: failed to parse grammar"), saying(WHOLE)],
        calls=2,
        remembered={"native"},
    ),
    "500 Unimplemented keys": Row(
        [error(500, "ValueError: Unimplemented keys in the schema: 'patternProperties'"), saying(WHOLE)],
        calls=2,
        remembered={"native"},
    ),
    "Gemini: Unknown name at response_schema": Row(
        [
            refused(
                400,
                [
                    {
                        "error": {
                            "code": 400,
                            "status": "INVALID_ARGUMENT",
                            "message": "Unknown name \"additionalProperties\" at 'generation_config.response_schema'.",
                        }
                    }
                ],
            ),
            saying(WHOLE),
        ],
        calls=2,
        remembered={"native"},
    ),
    "too many states": Row(
        [error(400, "The specified schema produces a constraint that has too many states for serving."), saying(WHOLE)],
        calls=2,
        remembered={"native"},
    ),
    "a grammar that is refused in all ways": Row(
        [error(400, "failed to parse grammar")], outcome=TransportError, calls=4, retryable=False
    ),
    "a grammar that is refused three times, then JSON": Row(
        [*[error(400, "failed to parse grammar")] * 3, saying(WHOLE)], calls=4
    ),
    # Answers that are whole.
    "Ollama: a JSON fence under native": Row([answer(FENCED, "stop")]),
    "a fence that is not closed": Row([answer(FENCED.removesuffix("\n```"), "stop")]),
    "Kimi at Novita: no finish reason": Row([answer(WHOLE, None)]),
    "Snowflake: an empty finish reason": Row([answer(WHOLE, "")]),
    "Perplexity: whole answers beside empty deltas": Row([whole_beside_empty_deltas]),
    "one object in place of a stream": Row([whole_in_place_of_a_stream]),
    "an open connection after the finish reason": Row([open_after_the_end], streamed_only=True),
    # Answers that are not.
    "a text is cut: insufficient_system_resource": Row(
        [answer(CUT_TEXT, "insufficient_system_resource")], outcome=TransportError, retryable=True
    ),
    "a text is cut: network_error": Row([answer(CUT_TEXT, "network_error")], outcome=TransportError, retryable=True),
    "a text is cut: no finish reason": Row([answer(CUT_TEXT, None)], outcome=Truncated),
    "a call is cut: no finish reason": Row([answer(CUT_CALL, None)], outcome=Truncated),
    "sensitive": Row([answer(WHOLE, "sensitive")], outcome=ContentFilter),
    "content_filter: RECITATION": Row([answer(CUT_TEXT, "content_filter: RECITATION")], outcome=ContentFilter),
    "a filter's reason beside a valid answer": Row([answer(WHOLE, "content_filter")], outcome=ContentFilter),
    "refusal": Row([answer("I cannot help with that.", "refusal")], outcome=Refusal),
    "model_context_window_exceeded": Row(
        [answer(CUT_TEXT, "model_context_window_exceeded")],
        outcome=ContextOverflow,
        kind=FailureKind.WINDOW,
        retryable=False,
    ),
    "MAX_TOKENS": Row([answer(CUT_TEXT, "MAX_TOKENS")], outcome=Length),
    "prose though a format was asked": Row([answer("I would look at the file first.", "stop")], outcome=Prose, calls=2),
    "prose, then the answer": Row([answer("I would look.", "stop"), answer(WHOLE, "stop")], calls=2),
    # Errors with status 200.
    "HTML": Row([text(HTML)], outcome=TransportError, kind=FailureKind.PROTOCOL, retryable=False),
    "a text that is no event": Row(
        [text("upstream said hello", "text/plain")], outcome=TransportError, kind=FailureKind.PROTOCOL, retryable=False
    ),
    "NDJSON": Row(
        [text(NDJSON, "application/x-ndjson")], outcome=TransportError, kind=FailureKind.PROTOCOL, retryable=False
    ),
    "vLLM: object error": Row(
        [chunk({"object": "error", "message": "This model's maximum context length is 8192 tokens.", "code": 400})],
        outcome=ContextOverflow,
        kind=FailureKind.WINDOW,
        retryable=False,
    ),
    "MiniMax: base_resp": Row(
        [chunk({"choices": None, "base_resp": {"status_code": 1004, "status_msg": "invalid api key"}})],
        outcome=TransportError,
        kind=FailureKind.KEY,
    ),
    "Azure: a filter's error with status 200": Row([chunk({"error": FILTERED})], outcome=ContentFilter),
    # Errors, each its own.
    "Azure: 400 content_filter": Row([refused(400, {"error": FILTERED})], outcome=ContentFilter),
    "an error in the stream with a code in words": Row(
        [chunk({"error": {"message": "No such key", "code": "invalid_api_key"}})],
        outcome=TransportError,
        kind=FailureKind.KEY,
        retryable=False,
    ),
    "the context in the stream": Row(
        [chunk({"error": {"message": "Too long", "code": "context_length_exceeded"}})],
        outcome=ContextOverflow,
        kind=FailureKind.WINDOW,
        retryable=False,
    ),
    "Gemini: RetryInfo": Row([refused(429, [{"error": RETRY_INFO}]), answer(WHOLE, "stop")], calls=2),
    "FastAPI: detail": Row(
        [refused(422, {"detail": [{"loc": ["body", "messages"], "msg": "field required"}]})],
        outcome=TransportError,
        retryable=False,
    ),
}


def asked(row: Row, unsupported: UnsupportedFeatures) -> Request:
    config = RequestConfig("m", provider=row.provider)
    return Request(config, SCHEMA, CONTEXT, unsupported=unsupported, retry=QUICK)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", ROWS)
def test_an_answer_has_the_outcome_that_people_need(
    server: ScriptedServer, transport: Any, name: str, streamed: bool
) -> None:
    row = ROWS[name]
    if row.streamed_only and not streamed:
        return
    server.answer(*row.answers)
    unsupported, got = UnsupportedFeatures(), Answer()
    if row.outcome is ANSWER:
        result = got.read(asked(row, unsupported), transport, streamed=streamed).result
        assert result.solution == SOLUTION
        assert not streamed or got.text == SOLUTION["message"]
    else:
        with pytest.raises(ModelError) as caught:
            got.read(asked(row, unsupported), transport, streamed=streamed)
        assert type(caught.value) is row.outcome, caught.value
        for attribute in ("kind", "retryable"):
            if getattr(row, attribute) is not None:
                assert getattr(caught.value, attribute) == getattr(row, attribute), attribute
        assert "Error code: 422" not in str(caught.value) or "field required" in str(caught.value)
    assert len(server.requests) <= row.calls
    if row.remembered:
        assert unsupported.of(server.url, "m") == row.remembered


def test_what_follows_a_complete_answer_is_awaited_for_a_second(server: ScriptedServer, transport: Any) -> None:
    server.answer(open_after_the_end)
    began = time.monotonic()
    assert Answer().read(asked(Row([]), UnsupportedFeatures()), transport).result.solution == SOLUTION
    assert time.monotonic() - began < 60, "not for the ten minutes of a silent connection"


def test_usage_that_comes_late_is_still_counted(server: ScriptedServer, transport: Any) -> None:
    def late(exchange: Exchange) -> None:
        exchange.begin()
        exchange.write(event(delta(WHOLE)) + event(delta(finish="stop")))
        time.sleep(0.1)
        exchange.write(event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}) + DONE)
        exchange.end()

    server.answer(late)
    assert Answer().read(asked(Row([]), UnsupportedFeatures()), transport).result.usage.prompt == 7


def test_the_delay_in_googles_error_is_honoured(server: ScriptedServer, transport: Any) -> None:
    server.answer(refused(429, [{"error": {**RETRY_INFO, "details": [{"retryDelay": "34s"}]}}]))
    request = Request(RequestConfig("m"), SCHEMA, CONTEXT, retry=RetryPolicy(longest_s=1.0))
    with pytest.raises(TransportError) as caught:
        request.run(transport)
    assert (caught.value.retry_after, caught.value.attempts) == (34.0, 1)


ENTRA = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwczovL2NvZ25pdGl2ZXNlcnZpY2VzIn0.c2ln"


@pytest.mark.parametrize("client", [DirectTransport, sdk_transport])
@pytest.mark.parametrize(
    ("provider", "key", "sent"),
    [
        ("azure", "0123456789abcdef", {"api-key": "0123456789abcdef"}),
        ("azure", ENTRA, {"authorization": f"Bearer {ENTRA}"}),
        ("openai", "sk-1", {"authorization": "Bearer sk-1"}),
    ],
)
def test_a_key_is_sent_where_the_provider_takes_it(
    server: ScriptedServer, client: Any, provider: str, key: str, sent: dict[str, str]
) -> None:
    server.says(WHOLE)
    transport = client(base_url=server.url, api_key=key, key_header=PROFILES[provider].key_header)
    Request(RequestConfig("m", provider=provider), SCHEMA, CONTEXT).run(transport)
    headers = server.received[-1].headers
    assert {name: headers[name] for name in ("authorization", "api-key") if name in headers} == sent


@pytest.mark.parametrize(
    ("region", "fips", "url"),
    [
        ("eu-west-1", "", "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"),
        ("us-gov-west-1", "true", "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/openai/v1"),
    ],
)
def test_bedrocks_address_follows_the_region(monkeypatch: pytest.MonkeyPatch, region: str, fips: str, url: str) -> None:
    monkeypatch.setenv("AWS_REGION", region)
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", fips)
    assert bedrock_base_url() == url


@pytest.mark.parametrize("region", ["cn-north-1", "eusc-de-east-1", "us-iso-east-1"])
def test_where_bedrock_has_no_known_address_it_is_refused_with_a_word(
    monkeypatch: pytest.MonkeyPatch, region: str
) -> None:
    monkeypatch.setenv("AWS_REGION", region)
    with pytest.raises(InvalidRequest, match=f"{region}.*LLM_BASE_URL"):
        bedrock_base_url()
