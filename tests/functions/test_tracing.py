"""Spans of the model's calls, as X-Ray's daemon gets them."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from codelab.llm.errors import Cancelled, InvalidRequest, TransportError
from codelab.tracing import model_call

from tests.functions.system import Context, System

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=1:abcdef:0"
#: Of OpenTelemetry's "Semantic conventions for generative client AI spans" (inference), those without content.
ATTRIBUTES = {
    "gen_ai.operation.name": str,
    "gen_ai.provider.name": str,
    "gen_ai.request.model": str,
    "gen_ai.output.type": str,
    "gen_ai.conversation.id": str,
    "gen_ai.response.finish_reasons": list,
    "gen_ai.usage.input_tokens": int,
    "gen_ai.usage.output_tokens": int,
    "error.type": str,
}
SECRET, ANSWER = "the user's secret question", "a secret answer"

Spans = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """What X-Ray's daemon has got, checked against its protocol and its documents' schema."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.setblocking(False)
        monkeypatch.setenv("AWS_XRAY_DAEMON_ADDRESS", f"127.0.0.1:{daemon.getsockname()[1]}")
        monkeypatch.setenv("_X_AMZN_TRACE_ID", TRACE)
        yield lambda: [checked(packet) for packet in received(daemon)]


def received(daemon: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield daemon.recv(65_536)
        except BlockingIOError:
            return


def checked(packet: bytes) -> dict[str, Any]:
    assert SECRET.encode() not in packet
    assert ANSWER.encode() not in packet
    header, _, body = packet.partition(b"\n")
    assert json.loads(header) == {"format": "json", "version": 1}
    document: dict[str, Any] = json.loads(body)
    assert re.fullmatch(r"[\w\s.:/%&#=+\\\-@]{1,200}", document["name"])
    assert re.fullmatch(r"[0-9a-f]{16}", document["id"])
    assert re.fullmatch(r"1-[0-9a-f]{8}-[0-9a-f]{24}", document["trace_id"])
    assert (document["parent_id"], document["type"]) == ("53995c3f42cd8ad8", "subsegment")
    assert time.time() - 600 < document["start_time"] <= document["end_time"] <= time.time()
    assert all(re.fullmatch(r"[A-Za-z0-9]+", name) for name in document["annotations"])
    found = document["metadata"]["default"]
    assert {name: type(value) for name, value in found.items()} == {name: ATTRIBUTES[name] for name in found}
    assert document["name"] == f"{found['gen_ai.operation.name']} {found['gen_ai.request.model']}"
    return document


def test_a_step_is_a_span_with_its_tokens_and_without_its_words(system: System, spans: Spans) -> None:
    system.connect("c1")
    system.model.says(ANSWER)
    system.send("c1", "user_message", content=SECRET)
    system.run_step()
    (span,) = spans()
    assert span["metadata"]["default"] == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "aws.bedrock",
        "gen_ai.request.model": "openai.gpt-oss-120b-1:0",
        "gen_ai.output.type": "json",
        "gen_ai.conversation.id": "SESSION#ann#s1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
    }
    _, step = system.aws.last_invoke
    about = {"session": "SESSION#ann#s1", "turn": step["turn_id"]}
    assert span["annotations"] == {"model": "openai.gpt-oss-120b-1:0", **about}
    assert not {"fault", "error"} & span.keys()


def test_a_bare_request_is_a_span(system: System, spans: Spans) -> None:
    system.model.answers.append(json.dumps({"n": 1}))
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    context = [{"role": "user", "content": SECRET}]
    system.function("llm_request")({"kind": "request", "context": context, "schema": schema}, Context())
    (span,) = spans()
    assert span["annotations"] == {"model": "openai.gpt-oss-120b-1:0"}
    assert span["metadata"]["default"]["gen_ai.usage.input_tokens"] == 100


@pytest.mark.parametrize(
    ("error", "kind", "flags"),
    [
        (TransportError(SECRET, status=429, body=SECRET), "transport", {"error": True, "throttle": True}),
        (TransportError(SECRET, status=401), "transport", {"error": True, "throttle": False}),
        (TransportError(SECRET, status=503), "transport", {"fault": True}),
        (Cancelled(SECRET), "cancelled", {}),
        (KeyError(SECRET), "KeyError", {"fault": True}),
    ],
)
def test_a_failure_is_told_without_its_words(error: Exception, kind: str, flags: dict[str, bool], spans: Spans) -> None:
    with pytest.raises(type(error)), model_call("m", "openai", session="s"):
        raise error
    (span,) = spans()
    assert span["metadata"]["default"]["error.type"] == kind
    assert {name: span[name] for name in ("error", "throttle", "fault") if name in span} == flags
    assert span.get("http") == ({"response": {"status": error.status}} if isinstance(error, TransportError) else None)


def test_what_was_not_asked_is_no_span(spans: Spans) -> None:
    with pytest.raises(InvalidRequest), model_call("m", "openai"):
        raise InvalidRequest("no")
    assert spans() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_X_AMZN_TRACE_ID", TRACE.replace("Sampled=1", "Sampled=0")),
        ("_X_AMZN_TRACE_ID", ""),
        ("_X_AMZN_TRACE_ID", "nonsense;=;"),
        ("AWS_XRAY_DAEMON_ADDRESS", ""),
        ("AWS_XRAY_DAEMON_ADDRESS", "127.0.0.1"),
        ("AWS_XRAY_DAEMON_ADDRESS", "no.such.host.invalid:2000"),
        ("AWS_XRAY_DAEMON_ADDRESS", "127.0.0.1:99999"),
    ],
)
def test_without_a_trace_or_a_daemon_nothing_is_sent_and_nothing_breaks(
    name: str, value: str, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with model_call("m" * 300 + "?", "openai") as span:
        pass
    assert span.attributes["gen_ai.provider.name"] == "openai"
    assert spans() == []
