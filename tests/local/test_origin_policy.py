"""How hosts and origins are normalized and compared, and the CORS headers of answers."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from codelab_local.http.origin_policy import OriginPolicy, normal_host, normal_origin
from codelab_local.http.protocol import HttpProtocol, Request, Response, Stream

from tests.cases import cases


@cases(
    ("given", "normal"),
    [
        ("LocalHost.", "localhost"),
        ("box.lan", "box.lan"),
        ("my_host-1", "my_host-1"),
        ("::1", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("10.0.0.1", "10.0.0.1"),
        ("box.lan:80", None),
        ("*", None),
        ("", None),
        ("a b", None),
        ("a/b", None),
        ("a@b", None),
    ],
)
def test_hosts_are_normalized(given: str, normal: str | None) -> None:
    assert normal_host(given) == normal


@cases(
    ("given", "normal"),
    [
        ("HTTPS://IDE.Example.com:443", "https://ide.example.com"),
        ("http://a.example:80", "http://a.example"),
        ("http://a.example:443", "http://a.example:443"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("tauri://localhost", "tauri://localhost"),
        ("https://a.example/", None),
        ("https://a.example?x", None),
        ("https://u@a.example", None),
        ("a.example", None),
        ("null", None),
        ("*", None),
        ("https://*.example", None),
    ],
)
def test_origins_are_normalized(given: str, normal: str | None) -> None:
    assert normal_origin(given) == normal


@cases("host", ["192.168.1.5", "box.lan", "0.0.0.0", "::1", "fe80::1"])
def test_the_listening_address_is_trusted_and_its_own_pages(host: str) -> None:
    policy = OriginPolicy(host, 8000, (), ())
    name = f"[{host}]" if ":" in host else host
    assert policy.refusal(f"{name}:1234", "", None, "") is None
    assert policy.refusal(name, "", f"http://{name}:8000", "same-origin") is None
    other = policy.refusal(name, "", f"http://{name}:8001", "same-site")
    assert (other is None) == (host == "::1"), "another port is another server's page, but for the loopback interface"


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self.closed.set()


def answer_to_a_page(given: Any) -> bytes:
    """The bytes written for an allowed page's request if the application answers `given`."""

    async def run() -> bytes:
        transport = Transport()
        policy = OriginPolicy("127.0.0.1", 8000, (), ())
        protocol = HttpProtocol(policy.protect(lambda _: given()), set())
        protocol.connection_made(transport)
        head = "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\nConnection: close\r\n\r\n"
        protocol.data_received(head.encode())
        await asyncio.wait_for(transport.closed.wait(), 10)
        return transport.written

    return asyncio.run(run())


def test_a_stream_gets_the_cors_headers_however_it_is_split() -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for piece in (b"HTT", b"P/1.1 200 OK\r", b"\nX: 1\r\n\r\n", b"a\r\nb", b"c"):
            yield piece

    async def stream() -> Stream:
        return Stream(chunks())

    head, _, body = answer_to_a_page(stream).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert (lines[0], lines[-1], body) == (b"HTTP/1.1 200 OK", b"X: 1", b"a\r\nbc")
    assert b"Access-Control-Allow-Origin: http://localhost:3000" in lines


def test_an_applications_own_cors_headers_are_replaced() -> None:
    own = {"access-control-allow-origin": "*", "Access-Control-Allow-Credentials": "true", "x-own": "1"}
    answer = answer_to_a_page(lambda: Response(200, b"x", headers=own)).decode()
    assert answer.lower().count("access-control-allow-origin") == 1
    assert "http://localhost:3000" in answer
    assert "Credentials" not in answer
    assert "x-own: 1" in answer


def test_a_request_has_the_authority_of_its_target() -> None:
    seen: list[Request] = []

    def application(request: Request) -> Response:
        seen.append(request)
        return Response(200)

    protocol = HttpProtocol(application, set())
    protocol.connection_made(Transport())
    for target in ("/a?b=http://x/", "http://Evil.test:1/a?b", "*"):
        protocol.data_received(f"OPTIONS {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert [(request.path, request.authority) for request in seen] == [("/a", ""), ("/a", "Evil.test:1"), ("*", "")]
