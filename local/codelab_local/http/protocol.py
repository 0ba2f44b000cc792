"""A small HTTP/1.1 server on `httptools`, for the two ports of the local cloud.

Every Lambda invocation makes several requests to the internal port, on the cores that the functions need too. So there
is no framework and, if an answer is known at once, no task: an application is a function from :class:`Request` to a
:class:`Response` or an awaitable of one.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httptools

MAX_HEADERS = 32 * 1024
MAX_BODY = 16 * 1024 * 1024  # Above all limits that applications check.


@dataclass(slots=True)
class Request:
    """One request. `headers` have lower-case names; `path` is still percent-encoded.

    `authority` is the host of a request target in absolute form, as clients send it to proxies; otherwise empty.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    peer: str = ""
    authority: str = ""


@dataclass(slots=True)
class Response:
    """One response. The server sets its length."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()

    @classmethod
    def json(cls, value: Any, status: int = 200, **headers: str) -> "Response":
        return cls(status, json.dumps(value).encode(), headers={k.replace("_", "-"): v for k, v in headers.items()})

    def encode(self) -> bytes:
        reason = _REASONS.get(self.status, "")
        head = f"HTTP/1.1 {self.status} {reason}\r\n"
        if "Content-Length" not in self.headers:  # It is set in the answer to a HEAD.
            head += f"Content-Length: {len(self.body)}\r\n"
        if self.body:
            head += f"Content-Type: {self.content_type}\r\n"
        for name, value in self.headers.items():
            head += f"{name}: {value}\r\n"
        for cookie in self.cookies:
            head += f"Set-Cookie: {cookie}\r\n"
        return head.encode("latin-1", "replace") + b"\r\n" + self.body


@dataclass(slots=True)
class Stream:
    """A response passed on while it arrives, including its head. The connection ends with it.

    `headers` are added to the head.
    """

    chunks: AsyncGenerator[bytes]
    headers: dict[str, str] = field(default_factory=dict)


def split_target(target: str) -> tuple[str, str, str]:
    """Path, query and authority (absolute form only) of a request target. Raises ValueError."""
    path, _, query = target.partition("?")
    if path.startswith("/"):
        return path, query, ""
    parts = urlsplit(target)
    return parts.path or "/", parts.query, parts.netloc


def loads(text: str | bytes) -> Any:
    """The JSON value, or None if `text` is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_REASONS = {status.value: status.phrase for status in HTTPStatus}

Answer = Response | Stream
Application = Callable[[Request], Response | Awaitable[Answer]]


class HttpProtocol(asyncio.Protocol):
    """One keep-alive connection. Requests are answered in order.

    `upgrade` gets the bytes from the head of a WebSocket's upgrade on, after the requests before it were answered. It
    takes over the transport.
    """

    def __init__(
        self,
        application: Application,
        open_protocols: "set[HttpProtocol]",
        upgrade: Callable[[bytes], None] | None = None,
    ) -> None:
        self._application = application
        self._open_protocols = open_protocols
        self._upgrade = upgrade
        self._upgrading: bytes | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._running: asyncio.Future[Any] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.on_message_begin()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if peer else ""
        self._open_protocols.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_protocols.discard(self)
        self._waiting.clear()
        if self._running is not None:
            self._running.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._upgrading is not None:
                self._upgrading += data[upgrade.args[0] :]
                self.transport.pause_reading()  # A client may not fill the memory while an earlier request runs.
                self._next()
        except httptools.HttpParserError:
            self._refuse(400, "Bad Request")

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._lines: list[bytes] = []
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADERS:
            raise ValueError("headers too large")
        if self._upgrade is not None:
            self._lines.append(name + b": " + value)
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        previous = self._headers.get(key)
        self._headers[key] = text if previous is None else f"{previous}, {text}"

    def on_headers_complete(self) -> None:
        # The AWS SDKs wait for this before they send a large body.
        if self._headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY:
            raise ValueError("body too large")
        self._body.append(body)

    def on_message_complete(self) -> None:
        upgrades = self._parser.should_upgrade()
        if upgrades and self._upgrade is not None and "websocket" in self._headers.get("upgrade", "").lower():
            line = b"%b %b HTTP/%b" % (self._parser.get_method(), self._url, self._parser.get_http_version().encode())
            self._upgrading = b"\r\n".join([line, *self._lines, b"", b""])
            return  # The parser raises HttpParserUpgrade now.
        path, query, authority = split_target(self._url.decode("latin-1"))
        method = self._parser.get_method().decode("ascii")
        request = Request(method, path, query, self._headers, b"".join(self._body), self._peer, authority)
        # The parser stops at any upgrade. One to another protocol is ignored, so the answer is the connection's last.
        self._waiting.append((request, self._parser.should_keep_alive() and not upgrades))
        if self._running is None:
            self._next()

    # Answering.

    def _next(self) -> None:
        while self._waiting and self._running is None:
            request, keep_alive = self._waiting.popleft()
            try:
                answer = self._application(request)
            except Exception as error:
                answer = _internal_error(error)
            if isinstance(answer, Response):
                self._write(answer, keep_alive)
                continue
            self._running = asyncio.ensure_future(answer)
            self._running.add_done_callback(partial(self._finish, keep_alive))
        if self._upgrading is not None and self._running is None and not self.transport.is_closing():
            assert self._upgrade is not None
            self._open_protocols.discard(self)
            self.transport.resume_reading()
            self._upgrade(self._upgrading)

    def _finish(self, keep_alive: bool, future: "asyncio.Future[Answer]") -> None:
        self._running = None
        if future.cancelled():
            self.transport.close()
            return
        error = future.exception()
        answer = future.result() if error is None else _internal_error(error)
        if isinstance(answer, Stream):
            self._running = asyncio.ensure_future(self._pass_on(answer))
            return
        self._write(answer, keep_alive)
        self._next()

    async def _pass_on(self, stream: Stream) -> None:
        """Pass the response on. Buffers at most one chunk besides the transport's own buffer."""
        header_lines = "".join(f"{name}: {value}\r\n" for name, value in stream.headers.items()).encode(
            "latin-1", "replace"
        )
        buffer = b""
        async with aclosing(stream.chunks) as chunks:
            try:
                async for chunk in chunks:
                    if header_lines:
                        buffer += chunk
                        if b"\r\n" not in buffer:
                            continue  # The first line is not complete yet.
                        chunk, header_lines = buffer.replace(b"\r\n", b"\r\n" + header_lines, 1), b""
                    self.transport.write(chunk)
                    await self._writable.wait()
            except OSError:
                self.transport.abort()  # The head was sent, so only a broken connection can report the failure.
            finally:
                self.transport.close()

    def _write(self, response: Response, keep_alive: bool) -> None:
        if self.transport.is_closing():
            return
        if not keep_alive:
            response.headers["Connection"] = "close"
        self.transport.write(response.encode())
        if not keep_alive:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        self._write(Response.json({"message": message}, status), keep_alive=False)


def _internal_error(error: BaseException) -> Response:
    context = {"message": "unhandled error in an HTTP application", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
    return Response.json({"message": "Internal Server Error"}, 500)
