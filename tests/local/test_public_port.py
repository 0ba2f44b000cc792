"""A connection that is used for both HTTP and a WebSocket."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from codelab_local import LocalCloud
from websockets.sync.client import connect

GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def connection(cloud: LocalCloud) -> Iterator[socket.socket]:
    with closing(socket.create_connection(("127.0.0.1", cloud.info["port"]), timeout=10)) as opened:
        yield opened


def answers(connection: socket.socket, count: int) -> list[bytes]:
    """The status lines of the next `count` answers. Takes no byte of what follows them."""
    found = []
    with connection.makefile("rb", buffering=0) as received:
        for _ in range(count):
            head = [line := received.readline()]
            while line not in (b"\r\n", b""):
                head.append(line := received.readline())
            length = next(line for line in head if line.lower().startswith(b"content-length:"))
            for _ in range(int(length.split(b":")[1])):
                assert received.read(1)
            found.append(head[0].rstrip())
    return found


@pytest.mark.parametrize("count", [1, 3])
def test_a_kept_connection_can_become_a_websocket(cloud: LocalCloud, connection: socket.socket, count: int) -> None:
    for _ in range(count):
        connection.sendall(GET + b"\r\n")
        assert answers(connection, 1) == [b"HTTP/1.1 200 OK"]
    with connect(cloud.url(session_id="s 1"), sock=connection, additional_headers={"X-Own": "Yes"}) as client:
        client.send(json.dumps({"type": "command", "do": "event"}))
        context = json.loads(client.recv(10))["requestContext"]
        assert context["authorizer"]["session"] == "s 1"
        asked = {"type": "command", "do": "recorded", "kind": "connect", "name": context["connectionId"]}
        client.send(json.dumps(asked))
        assert json.loads(client.recv(10))["headers"]["X-Own"] == "Yes"


def test_requests_sent_before_an_upgrade_are_answered_first(cloud: LocalCloud, connection: socket.socket) -> None:
    """All in one packet: two requests and the upgrade."""
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    upgrade = f"GET /{cloud.info['stage']} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    upgrade += b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" + key + b"\r\n"
    connection.sendall((GET + b"\r\n") * 2 + upgrade)
    assert answers(connection, 2) == [b"HTTP/1.1 200 OK"] * 2
    with connection.makefile("rb") as received:
        assert received.readline() == b"HTTP/1.1 101 Switching Protocols\r\n"
        while received.readline() not in (b"\r\n", b""):
            pass
        connection.sendall(b"\x89\x80mask")  # a ping without content
        assert received.read(2) == b"\x8a\x00"  # the pong


def test_a_refused_upgrade_on_a_kept_connection_closes_it(connection: socket.socket, cloud: LocalCloud) -> None:
    connection.sendall(GET + b"\r\n")
    answers(connection, 1)
    connection.sendall(
        f"GET /{cloud.info['stage']} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\n".encode()
        + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        + b"Sec-WebSocket-Version: 13\r\n\r\n"
    )
    assert answers(connection, 1) == [b"HTTP/1.1 403 Forbidden"]
    assert connection.recv(1) == b""


def test_an_upgrade_to_another_protocol_is_ignored(connection: socket.socket) -> None:
    """As `curl --http2` sends it; the answer is the only one, and ends the connection."""
    connection.sendall(GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n")
    assert answers(connection, 1) == [b"HTTP/1.1 200 OK"]
    assert connection.recv(1) == b""


def test_clients_may_close_a_connection_in_the_middle_of_an_upgrade(cloud: LocalCloud) -> None:
    with ExitStack() as opened:
        for end in range(0, 60, 10):
            one = opened.enter_context(closing(socket.create_connection(("127.0.0.1", cloud.info["port"]), timeout=10)))
            one.sendall(GET + b"\r\n")
            answers(one, 1)
            one.sendall((GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n")[:end])
    with connect(cloud.url(session_id="s 2")) as client:
        client.send(json.dumps({"type": "command", "do": "event"}))
        assert json.loads(client.recv(10))["requestContext"]["authorizer"]["session"] == "s 2"
