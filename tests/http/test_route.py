"""The way to a host whose addresses, proxy or TLS fail or never answer."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.client import RemoteDisconnected
from typing import Any

import pytest
from codelab.http.cancellation import Cancellation
from codelab.http.route import Route, connect

from tests.cases import cases
from tests.fakes.aws.server import AwsServer
from tests.fakes.http import response
from tests.waiting import PATIENCE

Address = tuple[Any, ...]


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a listener that takes no connection: whoever connects waits for an answer to its SYN."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def refusing() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        port: int = made.getsockname()[1]
    return port


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has a name these ports of this machine as its addresses."""

    def to(*ports: int, family: int = socket.AF_INET) -> None:
        found = [(family, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr("codelab.http.route.socket.getaddrinfo", lambda *_, **__: found)

    return to


def test_the_next_address_is_tried_while_the_first_is_silent(
    silent: int, listener: socket.socket, resolve: Callable[..., None]
) -> None:
    resolve(silent, silent, listener.getsockname()[1])
    with connect("host", 1, PATIENCE, Cancellation()) as connection:
        assert connection.getpeername() == listener.getsockname()


def test_an_address_that_refuses_costs_nothing(
    refusing: int, listener: socket.socket, resolve: Callable[..., None]
) -> None:
    resolve(*[refusing] * 6, listener.getsockname()[1])
    with connect("host", 1, PATIENCE, Cancellation()) as connection:
        assert connection.getpeername() == listener.getsockname()


def test_the_error_is_that_of_an_address(refusing: int, resolve: Callable[..., None]) -> None:
    resolve(refusing, refusing)
    with pytest.raises(ConnectionRefusedError):
        connect("host", 1, PATIENCE, Cancellation())


def test_addresses_that_are_all_silent_end_in_time(silent: int, resolve: Callable[..., None]) -> None:
    resolve(silent, silent)
    with pytest.raises(TimeoutError, match=r"no connection in 0\.3 s"):
        connect("host", 1, 0.3, Cancellation())


def test_a_family_that_this_machine_does_not_have_is_passed_over(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        (12345, socket.SOCK_STREAM, 0, "", ("::1", 1)),
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", listener.getsockname()),
    ]
    monkeypatch.setattr("codelab.http.route.socket.getaddrinfo", lambda *_, **__: found)
    connect("host", 1, PATIENCE, Cancellation()).close()


def test_families_take_turns_and_hundreds_of_addresses_are_not_all_tried() -> None:
    from codelab.http.route import _in_turn

    six: list[Address] = [(socket.AF_INET6, 0, 0, "", n) for n in range(300)]
    four: list[Address] = [(socket.AF_INET, 0, 0, "", n) for n in range(2)]
    assert [(found[0] == socket.AF_INET6, found[4]) for found in _in_turn([*six, *four])] == [
        *((True, 0), (False, 0), (True, 1), (False, 1), (True, 2), (True, 3), (True, 4), (True, 5))
    ]
    assert _in_turn([]) == []


def test_connecting_can_be_cancelled(silent: int, resolve: Callable[..., None]) -> None:
    resolve(silent)
    cancellation = Cancellation()
    threading.Timer(0.05, cancellation.cancel).start()
    with pytest.raises(ConnectionAbortedError):
        connect("host", 1, PATIENCE, cancellation)


@contextlib.contextmanager
def cancelling_once_spoken_to(listener: socket.socket) -> Iterator[Cancellation]:
    cancellation = Cancellation()

    def serve() -> None:
        with listener.accept()[0] as connection:
            connection.recv(1)
            cancellation.cancel()
            connection.recv(1 << 16)

    thread = threading.Thread(target=serve)
    thread.start()
    yield cancellation
    thread.join(PATIENCE)


def test_tls_with_a_server_that_says_nothing_can_be_cancelled(listener: socket.socket) -> None:
    route = Route("https://{}:{}".format(*listener.getsockname()))
    with cancelling_once_spoken_to(listener) as cancellation, pytest.raises(ssl.SSLEOFError):
        route.connect(PATIENCE, ssl.create_default_context(), cancellation)


def test_a_proxy_that_says_nothing_can_be_cancelled(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
    route = Route("https://a.example")
    with cancelling_once_spoken_to(listener) as cancellation, pytest.raises(RemoteDisconnected):
        route.connect(PATIENCE, ssl.create_default_context(), cancellation)


def test_what_a_proxy_sends_before_tls_begins_is_not_taken_for_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with AwsServer() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        proxy.answers = [response(200, b"") + b"\x16\x03\x03 this is not the host"]
        with pytest.raises(OSError, match="before it was asked for"):
            Route("https://a.example").connect(PATIENCE, ssl.create_default_context())


def test_a_proxy_is_asked_for_an_address_of_ipv6_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    with AwsServer() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        proxy.answers = [response(502, b"")]
        with pytest.raises(OSError, match="502"):
            Route("https://[fd00::1]").connect(PATIENCE, ssl.create_default_context())
        assert (proxy.received[0].method, proxy.received[0].path) == ("CONNECT", "[fd00::1]:443")
        assert proxy.received[0].headers["host"] == "[fd00::1]:443"


@cases("url", ["", "a.example", "ftp://a.example", "https://", "https://a:b", "https://ä.example", "http://[x"])
def test_what_is_no_url_of_a_host(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|[Pp]ort"):
        Route(url)


def test_connections_answer_at_once_and_notice_dead_peers(listener: socket.socket) -> None:
    with Route("http://{}:{}".format(*listener.getsockname())).connect(PATIENCE, None) as connection:
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.gettimeout() == PATIENCE
