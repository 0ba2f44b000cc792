"""A web server in the test's process that answers as the test says: under every stand-in that is asked over HTTP."""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Self

from tests.waiting import PATIENCE

#: The end of a stream of events, as OpenAI has it.
DONE = b"data: [DONE]\n\n"


@dataclass
class Exchange:
    """One request, and the ways to answer it. Names of `headers` are in lower case; `connection` counts from 0."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes
    connection: int
    socket: socket.socket
    #: Does the connection end with the answer?
    closes: bool = False
    _chunked: bool = False

    @property
    def body(self) -> Any:
        """The JSON of the request, None if it has no body."""
        return json.loads(self.content) if self.content else None

    def send(self, data: bytes) -> None:
        """Send bytes as they are, in place of a response or as a part of one."""
        self.socket.sendall(data)

    def answer(self, status: int, content: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send(response(status, content, headers))

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        """`_` in a header's name stands for `-`."""
        self.send(response(status, value, {"content-type": "application/json", **_named(headers)}))

    def begin(self, status: int = 200, *, chunked: bool = True, **headers: str) -> None:
        """Start a stream of events: in chunks, which `end` ends, or else up to the end of the connection."""
        self._chunked, self.closes = chunked, not chunked
        form = {"transfer-encoding": "chunked"} if chunked else {"connection": "close"}
        self.send(_head(status, {"content-type": "text/event-stream", **_named(headers), **form}))

    def write(self, data: bytes) -> None:
        self.send(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        if self._chunked:
            self.send(b"0\r\n\r\n")

    def events(self, values: Iterable[Any], *, done: bool = True) -> None:
        """A whole stream of JSON events."""
        self.begin()
        for value in values:
            self.write(event(value))
        if done:  # Together: a client does not wait long for what follows.
            self.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(DONE), DONE))
        else:
            self.end()

    def closed_by_client(self, timeout: float = PATIENCE) -> bool:
        """Whether the client closes the connection within the timeout."""
        self.socket.settimeout(timeout)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def event(value: Any) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


Script = Callable[[Exchange], None]


class HttpServer:
    """`with HttpServer(answer) as server`. `received` are all requests; port 0 is any that is free."""

    def __init__(self, answer: Script | None = None, port: int = 0, tls: SSLContext | None = None) -> None:
        self.received: list[Exchange] = []
        self.connections = 0
        #: Close each connection after an answer without telling.
        self.closes = False
        #: Released for each connection that is closed.
        self.closed = threading.Semaphore(0)
        self._answer, self._tls = answer, tls
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._ends = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The thread must not be about to accept: it could do so on the next server's socket, which gets this number.
        self._ends = True
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def handle(self, exchange: Exchange) -> None:
        """Answer a request, by default as the constructor was told."""
        assert self._answer is not None
        self._answer(exchange)

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._ends:
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number, self.connections = self.connections, self.connections + 1
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                while start := stream.readline().decode("latin-1").split():
                    headers = {}
                    while line := stream.readline().decode("latin-1").strip():
                        name, _, value = line.partition(":")
                        headers[name.lower()] = value.strip()
                    content = stream.read(int(headers.get("content-length", 0)))
                    exchange = Exchange(start[0], start[1], headers, content, number, connection)
                    exchange.closes = headers.get("connection") == "close"
                    self.received.append(exchange)
                    closes = self.closes  # looked at before the answer, after which a test may change it
                    self.handle(exchange)
                    if closes or exchange.closes:
                        connection.shutdown(socket.SHUT_RDWR)
                        break
        self.closed.release()


class Site(HttpServer):
    """Answers by path, without its query; an unknown path with 404."""

    def __init__(self, pages: Mapping[str, Script]) -> None:
        super().__init__()
        self.pages = dict(pages)

    def handle(self, exchange: Exchange) -> None:
        self.pages.get(exchange.path.partition("?")[0], answering({}, 404))(exchange)


def answering(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Script:
    """Always the same `response`."""
    return lambda exchange: exchange.send(response(status, body, headers))


def response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole response; `body` is bytes, or a value that is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return _head(status, {"Content-Length": str(len(data)), **(headers or {})}) + data


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
