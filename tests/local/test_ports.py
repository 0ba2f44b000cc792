"""The public port serves WebSocket and HTTP, however the bytes arrive; the internal port refuses unknown requests."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from codelab_local import LocalCloud
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

UPGRADE = (
    b"GET /ws/s1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def raw(cloud: LocalCloud, *pieces: bytes) -> str:
    """Send bytes in pieces, and return the first line of the answer."""
    with socket.create_connection(("127.0.0.1", cloud.info["port"]), 20) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            client.sendall(piece)
        return client.makefile("rb").readline().decode().strip()


def test_several_http_requests_use_one_connection(cloud: LocalCloud) -> None:
    with httpx.Client(base_url=cloud.http, timeout=20) as client:
        for path, status in [("/health", 200), ("/nothing", 404), ("/health?x=1", 200)]:
            response = client.get(path)
            assert (response.status_code, bool(response.json())) == (status, True)
        assert client.post("/health", content=b"{}").status_code == 405


def test_a_request_may_arrive_in_pieces(cloud: LocalCloud) -> None:
    for request, status in ((UPGRADE, 101), (HEALTH, 200)):
        assert raw(cloud, *[bytes([byte]) for byte in request]).startswith(f"HTTP/1.1 {status}")


def test_two_requests_may_arrive_at_once(cloud: LocalCloud) -> None:
    with socket.create_connection(("127.0.0.1", cloud.info["port"]), 20) as client:
        client.sendall(HEALTH * 2)
        received = b""
        while received.count(b"HTTP/1.1 200") < 2:
            piece = client.recv(65536)
            assert piece
            received += piece


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_invalid_requests_are_refused(cloud: LocalCloud, data: bytes) -> None:
    assert raw(cloud, data).startswith("HTTP/1.1 400")


@pytest.mark.parametrize("path", ["/", "/ws", "/ws/a/b", "/other/s1", "/devil"])
def test_a_websocket_to_an_unknown_path_is_forbidden(cloud: LocalCloud, path: str) -> None:
    with pytest.raises(InvalidStatus, match="403"), connect(f"ws://127.0.0.1:{cloud.info['port']}{path}"):
        pass


@pytest.mark.parametrize("path", ["/ws/s%201", "/api/v1/ws/s%201", "/dev?session_id=s%201"])
def test_every_path_form_reaches_the_api(cloud: LocalCloud, path: str) -> None:
    with connect(f"ws://127.0.0.1:{cloud.info['port']}{path}") as client:
        client.send('{"type": "command", "do": "event"}')
        assert json.loads(client.recv(15))["requestContext"]["authorizer"]["session"] == "s 1"


def test_the_readmes_url_contains_the_session(cloud: LocalCloud) -> None:
    assert urlsplit(cloud.url("s 1")).path == "/ws/s%201"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/other/@connections/abc="),
        ("POST", "/dev/connections/abc="),
        ("PUT", "/dev/@connections/abc="),
        ("POST", "/dev/@connections/"),
        ("GET", "/"),
    ],
)
def test_a_wrong_management_path_is_forbidden(cloud: LocalCloud, method: str, path: str) -> None:
    content = b"x" if method != "GET" else None
    refused = httpx.request(method, cloud.info["internal"] + path, content=content, timeout=20)
    assert (refused.status_code, refused.headers["x-amzn-ErrorType"]) == (403, "ForbiddenException")


def test_a_management_path_may_be_encoded(cloud: LocalCloud) -> None:
    with connect(cloud.url()) as client:
        client.send('{"type": "command", "do": "event"}')
        connection_id = json.loads(client.recv(15))["requestContext"]["connectionId"]
        path = f"{cloud.info['internal']}/dev/%40connections/{connection_id.replace('=', '%3D')}"
        assert httpx.post(path, content=b"hello", timeout=20).status_code == 200
        assert client.recv(15) == "hello"


def test_an_unknown_connection_is_gone(cloud: LocalCloud) -> None:
    client: Any = cloud.client("apigatewaymanagementapi")
    with pytest.raises(client.exceptions.GoneException):
        client.post_to_connection(ConnectionId="L0SM9cOFvHcCIhw=", Data=b"x")
