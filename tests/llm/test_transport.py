"""Both transports, our own and the openai SDK: bytes in, JSON objects out."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from codelab.http.cancellation import Cancellation
from codelab.llm.client.bedrock import BedrockKey
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Call
from codelab.llm.config import RequestConfig
from codelab.llm.errors import Cancelled, ModelError, TransportError

from tests.fakes.http import Exchange, Script, event
from tests.fakes.model.wire import ScriptedServer, delta, failing, saying
from tests.garbage import left_frames
from tests.llm.schemas import STRING
from tests.llm.sdk import sdk_transport
from tests.waiting import PATIENCE, until

BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}], "top_k": 3}

Kind = Callable[..., Any]


@pytest.fixture(params=[DirectTransport, sdk_transport])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def transport(server: ScriptedServer, kind: Kind) -> Iterator[Any]:
    made = kind(base_url=server.url, api_key="test")
    yield made
    made.close()


def received(transport: Any, body: dict[str, Any] = BODY) -> list[dict[str, Any]]:
    return [chunk for chunks in transport.send(body, Call()) for chunk in chunks]


def test_events_may_be_cut_anywhere(server: ScriptedServer, transport: Any) -> None:
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


def test_the_body_is_sent_unchanged(server: ScriptedServer, transport: Any) -> None:
    server.answer(lambda exchange: exchange.events([]))
    received(transport)
    assert server.requests == [BODY]
    assert server.received[0].headers["authorization"] == "Bearer test"


def test_who_asks_is_told_before_the_sdk_makes_a_connection(server: ScriptedServer) -> None:
    told: list[int] = []
    server.answer(lambda exchange: exchange.events([]))
    transport = sdk_transport(base_url=server.url, api_key="test")
    list(transport.send(BODY, Call(on_wait=lambda: told.append(server.connections))))
    assert told == [0]


def test_a_connection_is_made_while_who_asks_does_something_else(server: ScriptedServer) -> None:
    told: list[int] = []
    server.answer(lambda exchange: exchange.events([]))
    transport = DirectTransport(base_url=server.url, api_key="test")
    list(transport.send(BODY, Call(on_wait=lambda: told.append(until(lambda: server.connections)))))
    assert told == [1]


def test_who_asks_is_told_on_a_kept_connection_when_the_whole_request_has_been_sent(
    server: ScriptedServer, transport: Any
) -> None:
    """What the caller does may take as long as it likes: until the server has read everything."""
    told: list[int] = []
    server.answer(lambda exchange: exchange.events([]))
    list(transport.send(BODY, Call()))
    arrived, goes_on = threading.Event(), threading.Event()

    def answer(exchange: Exchange) -> None:
        arrived.set()
        assert goes_on.wait(PATIENCE), "nobody was told before the answer"
        exchange.events([delta("a")])

    def waits() -> None:
        told.append(server.connections)
        assert arrived.wait(PATIENCE), "the request was not sent"
        goes_on.set()

    server.answer(answer)
    body = {**BODY, "messages": [{"role": "user", "content": "x" * 50_000}]}
    chunks = [chunk for chunks in transport.send(body, Call(on_wait=waits)) for chunk in chunks]
    assert (chunks, told) == ([delta("a")], [1])


def test_who_asks_is_told_that_a_server_does_not_take_the_request(kind: Kind) -> None:
    over = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while b"}" not in connection.recv(65_536)[-2:]:
                pass
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            assert over.wait(PATIENCE), "nobody was told while the request was sent"

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        serving = threads.submit(serve)
        asking = kind(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", api_key="x")
        list(asking.send({**BODY, "stream": False}, Call()))
        cancellation = Cancellation()
        large = {**BODY, "messages": [{"role": "user", "content": "x" * 20_000_000}]}
        try:
            with pytest.raises(Cancelled):
                list(asking.send(large, Call(cancellation, on_wait=cancellation.cancel)))
        finally:
            over.set()
        serving.result()
        asking.close()


def test_who_asks_is_told_of_a_server_that_takes_the_request_slowly_but_steadily() -> None:
    over, taken = threading.Event(), [0]

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            while not over.wait(0.02):
                taken[0] += len(connection.recv(20_000))

    with socket.socket() as listener, ThreadPoolExecutor(1) as threads:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        serving = threads.submit(serve)
        asking = DirectTransport(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", api_key="x")
        list(asking.send({**BODY, "stream": False}, Call()))
        asking._connections._pool._idle[-1][0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        cancellation = Cancellation()
        large = {**BODY, "messages": [{"role": "user", "content": "x" * 20_000_000}]}
        try:
            with pytest.raises(Cancelled):
                list(asking.send(large, Call(cancellation, on_wait=cancellation.cancel)))
            assert taken[0] < 10_000_000, "told when it had taken nearly everything"
        finally:
            over.set()
        serving.result()
        asking.close()


def test_a_connection_that_cannot_be_made_leaves_no_frame() -> None:
    nobody = DirectTransport(base_url="http://127.0.0.1:1", api_key="x")
    with left_frames() as left:
        try:
            list(nobody.send(BODY, Call(on_wait=lambda: None)))
        except TransportError:
            pass
        else:
            pytest.fail("somebody has answered")
    assert left == []


def test_who_asks_is_told_of_a_server_that_cannot_be_reached() -> None:
    told: list[str] = []
    nobody = DirectTransport(base_url="http://127.0.0.1:1", api_key="x")
    request = Request(RequestConfig("m"), STRING, [{"role": "user", "content": "x"}], retry=RetryPolicy(base_s=0.01))
    with pytest.raises(TransportError):
        list(request.stream(nobody, on_wait=lambda: told.append("told")))
    assert told == ["told"]


def test_a_key_function_is_called_for_each_call(server: ScriptedServer, kind: Kind) -> None:
    keys = iter(("first", "second"))
    transport = kind(base_url=server.url, api_key=lambda: next(keys))
    server.answer(lambda exchange: exchange.events([]))
    received(transport)
    received(transport)
    assert [it.headers["authorization"] for it in server.received] == ["Bearer first", "Bearer second"]


def test_an_error_with_status_200_is_raised(server: ScriptedServer, transport: Any) -> None:
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
def test_retry_after_is_read_in_seconds(
    server: ScriptedServer, transport: Any, headers: dict[str, str], seconds: float | None
) -> None:
    server.answer(failing(429, "slow down", **headers))
    with pytest.raises(TransportError) as caught:
        received(transport)
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (429, True, seconds)
    assert "slow down" in caught.value.message


def test_retry_after_may_be_a_date(server: ScriptedServer, transport: Any) -> None:
    server.answer(failing(503, retry_after="Wed, 21 Oct 2065 07:28:00 GMT"))
    with pytest.raises(TransportError) as caught:
        received(transport)
    assert caught.value.retry_after is not None
    assert caught.value.retry_after > 1e6


def test_an_unreachable_endpoint_is_a_retryable_error(kind: Kind) -> None:
    transport = kind(base_url="http://127.0.0.1:9/v1", api_key="x")
    with pytest.raises(TransportError) as caught:
        received(transport)
    assert caught.value.retryable
    assert caught.value.public_message.startswith("127.0.0.1 cannot be reached, or broke off; ")


def closes(exchange: Exchange) -> None:
    exchange.socket.shutdown(socket.SHUT_RDWR)


def breaks_off(exchange: Exchange) -> None:
    exchange.begin()
    exchange.write(event(delta("a")))
    closes(exchange)


def is_silent(exchange: Exchange) -> None:
    exchange.closed_by_client()


def is_misshapen(exchange: Exchange) -> None:
    if exchange.body.get("stream"):
        exchange.events([delta("a"), {"choices": [5]}])
    else:
        exchange.json({"choices": [5]})


@pytest.mark.parametrize(
    "script", [closes, breaks_off, is_misshapen, is_silent, failing(500), failing(400, "no json_schema")]
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_failed_call_leaves_no_frame_with_its_messages(
    server: ScriptedServer, transport: Any, script: Script, stream: bool
) -> None:
    """A context manager that translates an error is left in a cycle with it (contextlib)."""
    server.answer(script)
    request = Request(RequestConfig("m"), STRING, BODY["messages"], retry=RetryPolicy(attempts=2, base_s=0.001))
    with left_frames() as left:
        try:
            deadline = time.monotonic() + (0.2 if script is is_silent else 10)
            if stream:
                list(request.stream(transport, deadline=deadline))
            else:
                request.run(transport, deadline=deadline)
        except ModelError:
            pass
        else:
            pytest.fail("the call did not fail")
    assert left == []


class Key:
    """A key that can be renewed."""

    def __init__(self, *values: str) -> None:
        self.values = list(values)
        self.rejected: list[str] = []

    def __call__(self) -> str:
        return self.values[0]

    def renew(self, rejected: str) -> bool:
        self.rejected.append(rejected)
        if len(self.values) > 1:
            self.values.pop(0)
        return self.values[0] != rejected


@pytest.mark.parametrize(
    ("status", "message", "renewed"),
    [
        (401, "no", True),
        (403, "Authentication failed: Please make sure your API Key is valid.", True),
        (403, "The security token included in the request is expired", True),
        (403, "User: arn:aws:sts::1:role/x is not authorized to perform: bedrock:InvokeModel", False),
        (400, "API key not valid. Please pass a valid API key.", True),
        (400, "Your prompt has too many tokens.", False),
        (404, "There is no such model.", False),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_rejected_key_is_renewed_and_the_call_repeated(
    server: ScriptedServer, status: int, message: str, renewed: bool, streamed: bool, kind: Kind
) -> None:
    key = Key("old", "new")
    transport = kind(base_url=server.url, api_key=key)
    server.answer(failing(status, message), saying("x"))
    body = {**BODY, "stream": streamed}
    if renewed:
        received(transport, body)
    else:
        with pytest.raises(TransportError, match=r".") as caught:
            received(transport, body)
        assert caught.value.status == status
    assert [it.headers["authorization"] for it in server.received] == ["Bearer old", "Bearer new"][: 1 + renewed]


def test_a_key_is_renewed_once_per_call(server: ScriptedServer, kind: Kind) -> None:
    key = Key("first", "second", "third")
    transport = kind(base_url=server.url, api_key=key)
    server.answer(failing(401))
    with pytest.raises(TransportError) as caught:
        received(transport)
    assert caught.value.status == 401
    assert key.rejected == ["first"]
    assert len(server.requests) == 2


def test_an_unchanged_key_is_not_tried_again(server: ScriptedServer, kind: Kind) -> None:
    transport = kind(base_url=server.url, api_key=Key("only"))
    server.answer(failing(401))
    with pytest.raises(TransportError):
        received(transport)
    assert len(server.requests) == 1


def test_a_rejected_bedrock_token_is_replaced_once_a_minute(server: ScriptedServer, kind: Kind) -> None:
    class Credentials:
        access_key, secret_key, token = "AKID", "SECRET", "SESSION"

    current = Credentials()
    now = [1000.0]
    key = BedrockKey("eu-west-1", credentials=lambda: current, clock=lambda: now[0])
    transport = kind(base_url=server.url, api_key=key)
    server.answer(failing(403, "The security token included in the request is expired"), saying("x"))
    first = key()
    current.token = "ANOTHER"
    received(transport)
    assert server.received[0].headers["authorization"] == f"Bearer {first}"
    assert server.received[1].headers["authorization"] == f"Bearer {key()}" != f"Bearer {first}"
    server.answer(failing(401))
    for seconds, calls in ((0, 1), (59, 1), (1, 2)):
        server.received.clear()
        now[0] += seconds
        current.token += "!"
        with pytest.raises(TransportError):
            received(transport)
        assert len(server.received) == calls


@pytest.mark.parametrize(
    ("status", "available"),
    [(200, True), (404, True), (405, True), (501, True), (401, False), (403, False), (429, False), (500, False)],
)
def test_an_endpoint_is_available_if_it_accepts_the_key(
    server: ScriptedServer, status: int, available: bool, kind: Kind
) -> None:
    transport = kind(base_url=server.url, api_key=Key("only"))
    answered = (lambda exchange: exchange.json({"object": "list", "data": []})) if status == 200 else failing(status)
    server.answer(answered)
    assert transport.is_available(5, "m") is available
    assert [it.headers["authorization"] for it in server.received] == ["Bearer only"]


def test_availability_follows_a_rotated_key_and_a_lost_endpoint(server: ScriptedServer, kind: Kind) -> None:
    server.answer(failing(401), lambda exchange: exchange.json({"object": "list", "data": []}))
    assert kind(base_url=server.url, api_key=Key("old", "new")).is_available(5, "m")
    assert not kind(base_url="http://127.0.0.1:9/v1", api_key="x").is_available(5, "m")
