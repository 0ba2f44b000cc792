"""Our own transport does what the openai SDK does, with every kind of answer."""

from __future__ import annotations

import gzip
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from codelab.llm.client.direct import DirectTransport
from codelab.llm.client.transport import Call
from codelab.llm.errors import TransportError

from tests.cases import cases
from tests.fakes.http import Exchange, Script, event, response
from tests.fakes.model.wire import ScriptedServer, delta
from tests.llm.sdk import sdk_transport

Outcome = tuple[Any, ...]


def chunked(*pieces: bytes, head: bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n") -> bytes:
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def problem(message: str = "no", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "x", "param": None, "code": None, **more}}


SAID, DONE = event(delta("a")), b"data: [DONE]\n\n"
LIMIT = problem("Rate limit reached")

#: Answers after which the connection can be used again, if both sides agree.
ANSWERS: dict[str, bytes] = {
    **{
        f"status {status}": response(status, problem())
        for status in (300, 400, 401, 403, 404, 405, 408, 409, 413, 418, 422, 425, 429, 500, 501, 502, 503, 529)
    },
    "retried if the server says so": response(400, problem(), {"x-should-retry": "true"}),
    "not retried if the server says so": response(503, problem(), {"x-should-retry": "false"}),
    **{
        f"retry after {value}": response(429, LIMIT, {"retry-after": value})
        for value in ("7", "0", "-1", "1e9", "nan", "soon")
    },
    "retry after a date": response(429, LIMIT, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    "retry after milliseconds": response(429, LIMIT, {"retry-after-ms": "1500", "retry-after": "9"}),
    "retry after no milliseconds": response(429, LIMIT, {"retry-after-ms": "soon", "retry-after": "9"}),
    "an error as text": response(400, {"error": "no json_schema"}),
    "an error without a wrapper": response(400, {"object": "error", "message": "no tools", "code": 400}),
    "an error of FastAPI": response(422, {"detail": [{"loc": ["body"], "msg": "field required"}]}),
    "an error as a list": response(400, [problem()]),
    "an error as a number": response(500, 7),
    "an error in HTML": response(502, b"<html><body>Bad Gateway</body></html>"),
    "an error without words": response(500, b""),
    "an error in broken JSON": response(400, b'{"error": {"message": "no'),
    "an error in broken UTF-8": response(400, b'{"error": {"message": "\xff\xfe"}}'),
    "an error whose message is no text": response(400, {"error": {"message": {"a": 1}}}),
    "a failed generation": response(400, problem(code="tool_use_failed")),
    "a long error": response(400, problem("x" * 10_000)),
    "a stream": chunked(SAID, event(delta("b")), DONE),
    "a stream without an end": chunked(SAID),
    "a stream of one piece": chunked(SAID + event(delta("b")) + DONE),
    "a stream in small pieces": chunked(*[bytes([byte]) for byte in SAID + DONE]),
    "a stream with a length": response(200, SAID + DONE),
    "a stream with comments": chunked(
        b": PROCESSING\n\n", b"event: x\r\nid: 1\r\n" + SAID.replace(b"\n", b"\r\n"), DONE
    ),
    "a stream that ends in the middle of a line": chunked(SAID, b'data: {"choices": ['),
    "a stream that ends without a line break": chunked(SAID, event(delta("b")).rstrip()),
    "a stream with more after its end": chunked(SAID, DONE, SAID),
    "a stream with broken JSON": chunked(SAID, b"data: {nothing}\n\n", DONE),
    "a stream with broken UTF-8": chunked(SAID, b'data: {"a": "\xff"}\n\n', DONE),
    "a stream with too deep JSON": chunked(SAID, b"data: " + b"[" * 100_000 + b"\n\n", DONE),
    "a stream with a list": chunked(SAID, b"data: [1]\n\n", DONE),
    "a stream with an error": chunked(SAID, event(problem("overloaded", code=529)), DONE),
    "a stream with an error as text": chunked(SAID, event({"error": "overloaded"}), DONE),
    "a stream with an error that is none": chunked(event({**delta("a"), "error": None}), DONE),
    "a stream of nothing": chunked(),
    "a whole answer": response(200, {"choices": []}),
    "a whole answer in chunks": chunked(b'{"choices"', b": []}"),
    "a whole answer with an error": response(200, problem("overloaded", code=503)),
    "a whole answer in HTML": response(200, b"<html><body>Welcome</body></html>"),
    "a whole answer that is a list": response(200, [1]),
    "a whole answer of nothing": response(200, b""),
    "a whole answer in broken UTF-8": response(200, b'{"a": "\xff"}'),
    "a whole answer in too deep JSON": response(200, b"[" * 100_000),
    "not modified": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an early hint": b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + chunked(SAID, DONE),
    "to be continued": b"HTTP/1.1 100 Continue\r\n\r\n" + chunked(SAID, DONE),
    "trailers": chunked(SAID, DONE)[:-2] + b"x-checksum: 1\r\n\r\n",
    "extensions of chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x;a=b\r\n%s\r\n0\r\n\r\n"
    % (len(SAID), SAID),
}
#: Answers after which the server closes the connection.
LAST: dict[str, bytes] = {
    "nothing": b"",
    "a stream until the connection closes": b"HTTP/1.1 200 OK\r\n\r\n" + SAID + DONE,
    "a stream that is broken off": chunked(SAID)[:-5],
    "a stream that is broken off in a piece": chunked(SAID, event(delta("b")))[:-20],
    "a stream that is shorter than its length": response(200, SAID + DONE)[:-8],
    "an error that is broken off": response(400, problem())[:-5],
    "a whole answer that is broken off": response(200, {"choices": []})[:-3],
    "a head that is broken off": b"HTTP/1.1 200 OK\r\ncontent-le",
    "of HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n" + SAID + DONE,
    "a connection to be closed": b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\n{}\n",
    "not HTTP": b"SSH-2.0-OpenSSH\r\n",
    "a chunk without a size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n" + SAID,
}


def scripted(data: bytes, *, close: bool = False, reset: bool = False) -> Script:
    def script(exchange: Exchange) -> None:
        exchange.send(data)
        if reset:
            exchange.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            socket.close(exchange.socket.detach())  # at once: a file of the server refers to it
        elif close:
            exchange.socket.shutdown(socket.SHUT_RDWR)

    return script


def outcome(transport: Any, *, stream: bool) -> Outcome:
    """The objects that arrived, and how the call ended."""
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]} | ({"stream": True} if stream else {})
    found: list[Any] = []
    try:
        for chunks in transport.send(body, Call()):
            found += chunks
    except TransportError as error:
        words = (error.message, error.body) if error.status else ()
        return found, error.status, error.retryable, error.retry_after, words
    return (found,)


class Pair:
    """Both transports, to one server."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.transports: list[Any] = [
            kind(base_url=server.url, api_key="test", timeout=10) for kind in (DirectTransport, sdk_transport)
        ]

    def outcomes(self, script: Script, *, stream: bool) -> list[tuple[Outcome, Outcome]]:
        """Per transport, what comes of the answer, and of the next call."""
        self.server.received.clear()
        found = []
        for transport in self.transports:
            following = chunked(event(delta("next")), DONE) if stream else response(200, delta("next"))
            self.server.answer(script, scripted(following))
            found.append((outcome(transport, stream=stream), outcome(transport, stream=stream)))
        return found


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with ScriptedServer() as server:
        made = Pair(server)
        yield made
        for transport in made.transports:
            transport.close()


@cases("stream", [True, False], ids=["streamed", "whole"])
@cases("name", [*ANSWERS, *LAST])
def test_an_answer_has_the_same_outcome(pair: Pair, name: str, stream: bool) -> None:
    script = scripted(ANSWERS[name]) if name in ANSWERS else scripted(LAST[name], close=True)
    ours, theirs = pair.outcomes(script, stream=stream)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1] == ([delta("next")],), "each call gets its own answer"


@pytest.mark.parametrize("data", [b"", chunked(SAID)[:-5]], ids=["at once", "in the middle"])
def test_a_reset_has_the_same_outcome(pair: Pair, data: bytes) -> None:
    ours, theirs = pair.outcomes(scripted(data, reset=True), stream=True)
    assert ours == theirs
    assert ours[0][1:] == (None, True, None, ())


@pytest.mark.parametrize("script", [scripted(chunked(SAID, DONE)), scripted(b"", close=True)])
def test_what_is_sent_is_what_the_sdk_sends(pair: Pair, script: Script) -> None:
    """Ours asks for no compression, and sends nothing about this machine."""
    pair.outcomes(script, stream=True)
    ours, theirs = pair.server.received[0].headers, pair.server.received[2].headers
    assert pair.server.requests[0] == pair.server.requests[2]
    own = {"user-agent": "codelab", "accept-encoding": "identity"}
    assert ours == {name: own.get(name, theirs[name]) for name in ours if name != "content-length"} | {
        "content-length": ours["content-length"]
    }
    assert {name for name in theirs if not name.startswith("x-stainless")} - ours.keys() == {"connection"}


# Where ours differs, on purpose.


@cases("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(pair: Pair, status: int) -> None:
    """It would take the key and the conversation to another place."""
    with ScriptedServer() as elsewhere:
        elsewhere.answer(scripted(chunked(SAID, DONE)))
        ours, _ = pair.outcomes(scripted(response(status, b"", {"location": elsewhere.url})), stream=True)
        assert ours[0] == ([], status, False, None, (f"Error code: {status}", ""))
        assert all(it.headers.get("user-agent") != "codelab" for it in elsewhere.received)


def test_compression_that_nobody_asked_for_is_an_error(pair: Pair) -> None:
    data = response(200, gzip.compress(b'{"choices": []}'), {"content-encoding": "gzip"})
    ours, theirs = pair.outcomes(scripted(data), stream=False)
    assert theirs[0] == ([{"choices": []}],)
    assert ours[0] == ([], None, False, None, ())
    ours, theirs = pair.outcomes(scripted(data.replace(b"200", b"503", 1)), stream=False)
    assert ours[0][:4] == theirs[0][:4] == ([], 503, True, None)
