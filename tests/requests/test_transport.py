"""The openai SDK as a transport: bytes in, JSON objects out."""

from __future__ import annotations

from typing import Any

import pytest
from codelab.requests import Call, TransportError, openai_transport
from codelab.requests.openai_sdk import OpenAITransport

from tests.requests.server import ScriptedServer, delta, event, failing

BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}], "top_k": 3}


def received(transport: OpenAITransport, body: dict[str, Any] = BODY) -> list[dict[str, Any]]:
    return [chunk for chunks in transport.send(body, Call()) for chunk in chunks]


def test_events_cut_anywhere_and_comments_between_them(server: ScriptedServer, transport: OpenAITransport) -> None:
    stream = (
        b": a comment\n\nevent: message\r\n"
        + event(delta("é漢😀")).replace(b"\n", b"\r\n")
        + event(delta("b"))
        + b"data:[DONE]\n\n"
    )

    def dripping(exchange: Any) -> None:
        exchange.begin()
        for at in range(0, len(stream), 7):
            exchange.write(stream[at : at + 7])
        exchange.end()

    server.answer(dripping)
    assert received(transport) == [delta("é漢😀"), delta("b")]


def test_the_whole_body_is_sent_as_it_is(server: ScriptedServer, transport: OpenAITransport) -> None:
    server.answer(lambda exchange: exchange.events([]))
    received(transport)
    assert server.requests == [BODY]
    assert server.headers[0]["authorization"] == "Bearer test"


def test_a_key_that_changes_is_asked_for_each_time(server: ScriptedServer) -> None:
    keys = iter(("first", "second"))
    transport = openai_transport(base_url=server.url, api_key=lambda: next(keys), warm=False)
    server.answer(lambda exchange: exchange.events([]))
    received(transport)
    received(transport)
    assert [headers["authorization"] for headers in server.headers] == ["Bearer first", "Bearer second"]


def test_an_error_in_the_middle_of_a_stream_or_with_status_200(
    server: ScriptedServer, transport: OpenAITransport
) -> None:
    problem = {"error": {"message": "overloaded", "code": 529}}
    server.answer(
        lambda exchange: exchange.events([delta("a"), problem]),
        lambda exchange: exchange.json(problem),
    )
    for body in (BODY, {**BODY, "stream": False}):
        with pytest.raises(TransportError, match="overloaded") as caught:
            received(transport, body)
        assert (caught.value.status, caught.value.retryable) == (529, True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry_after": "7"}, 7), ({"retry_after_ms": "1500"}, 1.5), ({"retry_after": "soon"}, None), ({}, None)],
)
def test_how_long_the_provider_wants_us_to_wait(
    server: ScriptedServer, transport: OpenAITransport, headers: dict[str, str], seconds: float | None
) -> None:
    server.answer(failing(429, "slow down", **headers))
    with pytest.raises(TransportError) as caught:
        received(transport)
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (429, True, seconds)
    assert "slow down" in caught.value.message


def test_a_date_in_retry_after(server: ScriptedServer, transport: OpenAITransport) -> None:
    server.answer(failing(503, retry_after="Wed, 21 Oct 2065 07:28:00 GMT"))
    with pytest.raises(TransportError) as caught:
        received(transport)
    assert caught.value.retry_after is not None
    assert caught.value.retry_after > 1e6


def test_nobody_there() -> None:
    transport = openai_transport(base_url="http://127.0.0.1:9/v1", api_key="x", warm=False)
    with pytest.raises(TransportError) as caught:
        received(transport)
    assert caught.value.retryable


def test_warming_up_touches_no_network() -> None:
    openai_transport(base_url="http://127.0.0.1:9/v1", api_key="x", warm=True).close()
