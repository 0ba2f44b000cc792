"""HTTP/1.1 over kept connections to one endpoint.

Each read ends at the call's deadline, even if the server trickles bytes, and another thread can interrupt it, even
before the server has sent anything (a thinking model is silent for minutes). What a server may send is bounded.
"""

from __future__ import annotations

import base64
import contextlib
import os
import platform
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from codelab.http_answer import Head, read_body, read_head
from codelab.llm.client.transport import Call
from codelab.llm.errors import InvalidRequest, ModelError, TransportError

#: Seconds: to connect and, again, to agree on TLS; that an idle connection is kept; for the end of an answer that is
#: known to be complete.
_CONNECT_S, _KEPT_S, _END_S = 5.0, 55.0, 0.25
#: Seconds after which a server is slow to take a request.
_SENT_S = 0.25
#: The most connections that are kept.
_KEPT = 16
#: The most bytes of an answer's head, and of the whole answer.
_HEAD_BYTES, _ANSWER_BYTES = 256 << 10, 64 << 20
#: The most bytes of one piece.
_PIECE = 64 << 10

#: How a connection fails, besides what a call's bounds raise.
ConnectionFailed = (OSError, HTTPException)


class Connections:
    """Connections to the endpoint at a URL. Used by several threads; after a fork, each process has its own.

    silence_s: the longest time between two reads, in seconds. clock: the wall clock in seconds; the monotonic one may
    stand still while Lambda freezes the process. Raises InvalidRequest for a URL or a proxy that cannot be used.
    """

    def __init__(self, url: str, *, silence_s: float, clock: Callable[[], float] = time.time) -> None:
        self._route = _Route(url)
        self._silence_s = silence_s
        self._clock = clock
        #: The idle connections with the time of their last use; the one used last is at the end.
        self._idle: list[tuple[socket.socket, float]] = []
        self._process = os.getpid()

    def open(self, method: str, path: str, headers: Mapping[str, str], body: bytes, call: Call) -> Response:
        """Send a request; return the answer as soon as its head has arrived. Follows no redirect.

        path: below the URL's. Raises OSError, HTTPException, TransportError, Cancelled or DeadlineExceeded.
        """
        lines = [
            f"{method} {self._route.target(path)} HTTP/1.1",
            f"Host: {self._route.authority}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "User-Agent: codelab",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("ascii")
        connection = self._take() or self._connected(call)
        response = Response(connection, call, self._silence_s, self._keep)
        try:
            response.begin(head + body)
        except BaseException:
            response.close()
            raise
        return response

    def _connected(self, call: Call) -> socket.socket:
        """A new connection. Another thread makes it while the caller does what is to be done beside waiting."""
        if not call.has_more_to_do:
            return self._route.connect(call)
        with ThreadPoolExecutor(1, thread_name_prefix="connect") as threads:
            connecting = threads.submit(self._route.connect, call)
            try:
                call.waits()
                return connecting.result()
            finally:
                del connecting  # the error that it has would keep this frame, and those of the call

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def _take(self) -> socket.socket | None:
        """A kept connection that is fresh and open."""
        if self._process != os.getpid():  # the others are the parent's
            self._idle, self._process = [], os.getpid()
        while True:
            try:
                connection, used_at = self._idle.pop()
            except IndexError:
                return None
            if 0 <= self._clock() - used_at <= _KEPT_S and _is_silent(connection):
                return connection
            connection.close()

    def _keep(self, connection: socket.socket) -> None:
        if len(self._idle) < _KEPT:
            self._idle.append((connection, self._clock()))
        else:
            connection.close()


class Response:
    """An answer whose body is read in pieces. Close it: a connection whose answer was read to its end is kept.

    status: the HTTP status. headers: their names are in lower case.
    """

    status: int
    headers: Mapping[str, str]
    _head: Head

    def __init__(
        self, connection: socket.socket, call: Call, silence_s: float, keep: Callable[[socket.socket], None]
    ) -> None:
        self._connection = connection
        self._call = call
        self._reader = _Reader(connection, call, silence_s)
        self._arrived = b""
        self._keep = keep
        #: The answer was read to its end, and another may follow on its connection.
        self._reusable = False
        self._closed = False
        call.cancellation.attach(self._interrupt)

    def begin(self, request: bytes) -> None:
        """Send the request and read the answer's head."""
        lost = ""
        try:
            self._call.check()
            self._send(request)
        except OSError as error:
            lost = repr(error)  # It may have been answered already, for example that it is too large.
        self._call.waits()
        try:
            self._head, self._arrived = read_head(self._reader.read)
        except ConnectionFailed:
            if lost:
                raise ConnectionError(lost) from None
            raise
        self.status, self.headers = self._head.status, self._head.headers
        self._reader.head_ended()
        if lost:
            self._head = self._head._replace(keeps_alive=False)
        coding = self.headers.get("content-encoding", "identity")
        if coding.lower() != "identity" and self.status < HTTPStatus.MULTIPLE_CHOICES:
            raise TransportError(f"the provider's answer is encoded as {coding[:20]!r}, which was not asked for")

    def _send(self, request: bytes) -> None:
        """Send the request. Tells the caller if the server does not take it soon."""
        left = memoryview(request)
        slow_at = time.monotonic() + min(_SENT_S, self._reader.seconds())
        with contextlib.suppress(TimeoutError):
            while left and (seconds := slow_at - time.monotonic()) > 0:
                self._connection.settimeout(seconds)
                left = left[self._connection.send(left) :]
        if left:
            self._call.waits()
            self._call.check()
            self._connection.settimeout(self._reader.seconds())
            self._connection.sendall(left)

    def pieces(self) -> Iterator[bytes]:
        """The body; what arrived together comes in one piece. Raises what `Connections.open` does."""
        arrived, self._arrived = self._arrived, b""
        yield from read_body(self._head, arrived, self._reader.read)
        self._reusable = self._head.keeps_alive

    def end(self, pieces: Iterator[bytes]) -> None:
        """Skip the rest of `pieces`, which has nothing more to say, so that the connection can be kept.

        Gives up soon: some servers leave the answer open.
        """
        self._reader.stop_in(_END_S)
        with contextlib.suppress(*ConnectionFailed, ModelError):
            for _ in pieces:
                pass

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # A late cancel must not interrupt the next call on this connection.
        self._call.cancellation.detach(self._interrupt)
        if self._reusable:
            self._keep(self._connection)
        else:
            self._connection.close()

    def _interrupt(self) -> None:
        # Shutting down the TCP socket wakes a thread that is blocked in recv; closing it does not.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._connection, socket.SHUT_RDWR)


class _Reader:
    """The incoming bytes of one answer, bounded in number and time."""

    def __init__(self, connection: socket.socket, call: Call, silence_s: float) -> None:
        self._connection = connection
        self._call = call
        self._silence_s = silence_s
        self._in_head = True
        self._left = _HEAD_BYTES
        self._stop_at: float | None = None

    def head_ended(self) -> None:
        self._in_head = False
        self._left = _ANSWER_BYTES

    def stop_in(self, seconds: float) -> None:
        self._stop_at = time.monotonic() + seconds

    def seconds(self) -> float:
        """How long the next operation may take."""
        seconds = self._call.bound(self._silence_s)
        if self._stop_at is not None:
            seconds = min(seconds or 0.0, self._stop_at - time.monotonic())
        # Zero would mean not to wait at all, and raise another error.
        return max(0.001, seconds or 0.0)

    def read(self) -> bytes:
        """What arrives next; empty at the connection's end. Raises what `Connections.open` does."""
        self._call.check()
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            raise TimeoutError("the answer does not end")
        self._connection.settimeout(self.seconds())
        piece = self._connection.recv(_PIECE)
        if not piece and self._in_head:
            raise ConnectionError("the connection was closed before the answer's head ended")
        self._left -= len(piece)
        if self._left < 0:
            raise TransportError("the provider's answer is too large")
        return piece


class _Route:
    """The way to the host of a URL: directly, or for `https` through the proxy that the environment names."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            self._secure = parts.scheme == "https"
            default = 443 if self._secure else 80
            self._host, self._port = parts.hostname or "", parts.port or default
            self._host.encode("idna")
        except ValueError as error:
            raise InvalidRequest(f"the model's address is not a URL: {error}") from None
        if parts.scheme not in ("http", "https") or not self._host or not self._host.isascii():
            raise InvalidRequest("the model's address is no http or https URL")
        host = f"[{self._host}]" if ":" in self._host else self._host
        #: As a Host header gives it.
        self.authority = host if self._port == default else f"{host}:{self._port}"
        self._path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=")
        self._query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=?") if parts.query else ""
        self._proxy = _proxy_for(host) if self._secure else None
        if self._secure:
            _trust()  # at init: it takes 20 ms

    def target(self, path: str) -> str:
        """The path and query of a resource below the URL."""
        return f"{self._path}{path}{self._query}"

    def connect(self, call: Call) -> socket.socket:
        """A new connection. Raises OSError or HTTPException."""
        call.check()
        host, port, headers = self._proxy or (self._host, self._port, {})
        seconds = max(0.001, call.bound(_CONNECT_S) or 0.0)
        if self._secure:
            connection: HTTPConnection = HTTPSConnection(host, port, timeout=seconds, context=_trust())
        else:
            connection = HTTPConnection(host, port, timeout=seconds)
        if self._proxy:
            connection.set_tunnel(self._host, self._port, headers)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connected: socket.socket = connection.sock
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connected


def _proxy_for(host: str) -> tuple[str, int, dict[str, str]] | None:
    """The host and port of the proxy that HTTPS_PROXY and NO_PROXY give for a host, and the headers it needs."""
    named = getproxies().get("https")
    if not named or proxy_bypass(host):
        return None
    parts = urlsplit(named if "://" in named else f"http://{named}")
    if parts.scheme != "http" or not parts.hostname:
        raise InvalidRequest("HTTPS_PROXY does not name an http:// proxy")
    headers = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
    return parts.hostname, parts.port or 80, headers


@cache
def _trust() -> ssl.SSLContext:
    """Whose certificates are accepted: the system's, or those of SSL_CERT_FILE and SSL_CERT_DIR."""
    if platform.system() in ("Darwin", "Windows") and not ({"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys()):
        from truststore import SSLContext  # OpenSSL does not read the certificates of these systems

        return SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    # Companies' proxies do not pass it, and the openai SDK does not ask for it.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _is_silent(connection: socket.socket) -> bool:
    """Whether an idle connection is open, and nothing has arrived that nobody asked for."""
    connection.settimeout(0)
    try:
        # Beneath TLS, which has no such look ahead.
        socket.socket.recv(connection, 1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
