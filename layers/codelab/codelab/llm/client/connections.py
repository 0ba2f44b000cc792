"""HTTP/1.1 over kept connections to one endpoint.

Each read ends at the call's deadline, even if the server trickles bytes, and another thread can interrupt it, even
before the server has sent anything (a thinking model is silent for minutes). What a server may send is bounded.
"""

from __future__ import annotations

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
from http.client import HTTPException
from itertools import chain
from urllib.parse import quote, urlsplit

from codelab.http.cancellation import shut_down
from codelab.http.pool import Pool
from codelab.http.proxies import ProxyRefused
from codelab.http.responses import Head, read_body, read_head
from codelab.http.route import Route
from codelab.llm.client.transport import Call
from codelab.llm.errors import InvalidRequest, ModelError, TransportError

#: Seconds: to connect and, again, to agree on TLS; that an idle connection is kept; for the end of an answer that is
#: known to be complete.
_CONNECT_S, _KEPT_S, _END_S = 5.0, 55.0, 0.25
#: Seconds after which a server is slow to take a request.
_SENT_S = 0.25
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
        try:
            self._route = Route(url)
        except ProxyRefused as error:
            raise InvalidRequest(str(error)) from None
        except ValueError as error:
            raise InvalidRequest(f"the model's address is no URL that can be called: {error}") from None
        parts = urlsplit(url)
        self._path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=")
        self._query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=?") if parts.query else ""
        self._tls_context = _trust() if self._route.is_secure else None  # At init: it takes 20 ms.
        self._silence_s = silence_s
        self._pool = Pool(_KEPT_S, clock)

    def open(self, method: str, path: str, headers: Mapping[str, str], body: bytes, call: Call) -> Response:
        """Send a request; return the answer as soon as its head has arrived. Follows no redirect.

        path: below the URL's. Raises OSError, HTTPException, TransportError, Cancelled or DeadlineExceeded.
        """
        lines = [
            f"{method} {self._path}{path}{self._query} HTTP/1.1",
            f"Host: {self._route.authority}",
            "Accept-Encoding: identity",
            "User-Agent: codelab",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in {"Accept": "application/json", **headers}.items()),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("ascii")
        connection = self._pool.take() or self._connected(call)
        response = Response(connection, call, self._silence_s, self._pool.keep)
        try:
            response.begin(head + body)
        except BaseException:
            response.close()
            raise
        return response

    def _connected(self, call: Call) -> socket.socket:
        """A new connection. If the caller has other work to do, another thread connects meanwhile."""
        if not call.has_more_to_do:
            return self._connect(call)
        with ThreadPoolExecutor(1, thread_name_prefix="connect") as threads:
            connecting = threads.submit(self._connect, call)
            try:
                call.waits()
                return connecting.result()
            finally:
                del connecting  # the error that it has would keep this frame, and those of the call

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def _connect(self, call: Call) -> socket.socket:
        """A new connection. Raises OSError, HTTPException, Cancelled or DeadlineExceeded."""
        seconds = max(0.001, call.patience(_CONNECT_S))
        return self._route.connect(seconds, self._tls_context, call.cancellation)


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
        self._first_piece = b""
        self._keep = keep
        #: The answer was read to its end, and another may follow on its connection.
        self._reusable = False
        self._closed = False
        call.cancellation.attach(self._interrupt)

    def begin(self, request: bytes) -> None:
        """Send the request and read the answer's head."""
        send_error = ""
        try:
            self._send(request)
        except OSError as error:
            send_error = repr(error)  # It may have been answered already, for example that it is too large.
        self._call.waits()
        try:
            self._head, self._first_piece = read_head(self._reader.read)
        except ConnectionFailed:
            if send_error:
                raise ConnectionError(send_error) from None
            raise
        self.status, self.headers = self._head.status, self._head.headers
        self._reader.head_ended()
        if send_error:
            self._head = self._head._replace(keeps_alive=False)
        coding = self.headers.get("content-encoding", "identity")
        if coding.lower() != "identity" and self.status < HTTPStatus.MULTIPLE_CHOICES:
            raise TransportError(f"the provider's answer is encoded as {coding[:20]!r}, which was not asked for")

    def _send(self, request: bytes) -> None:
        """Send the request. Calls `on_wait` if the server is slow to take it."""
        remainder = memoryview(request)
        slow_at = time.monotonic() + min(_SENT_S, self._reader.seconds())
        with contextlib.suppress(TimeoutError):
            while remainder and (seconds := slow_at - time.monotonic()) > 0:
                self._connection.settimeout(seconds)
                remainder = remainder[self._connection.send(remainder) :]
        if remainder:
            self._call.waits()
            self._connection.settimeout(self._reader.seconds())
            self._connection.sendall(remainder)

    def pieces(self) -> Iterator[bytes]:
        """The body; what arrived together comes in one piece. Raises what `Connections.open` does."""
        first_piece, self._first_piece = self._first_piece, b""
        return chain(read_body(self._head, first_piece, self._reader.read), self._at_end())

    def _at_end(self) -> Iterator[bytes]:
        """No more pieces: the body was read to its end."""
        self._reusable = self._head.keeps_alive
        yield from ()

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
        shut_down(self._connection)


class _Reader:
    """The incoming bytes of one answer, bounded in number and time."""

    def __init__(self, connection: socket.socket, call: Call, silence_s: float) -> None:
        self._connection = connection
        self._call = call
        self._silence_s = silence_s
        self._in_head = True
        self._bytes_left = _HEAD_BYTES
        self._stop_at: float | None = None

    def head_ended(self) -> None:
        self._in_head = False
        self._bytes_left = _ANSWER_BYTES

    def stop_in(self, seconds: float) -> None:
        self._stop_at = time.monotonic() + seconds

    def seconds(self) -> float:
        """How long the next operation may take. Raises Cancelled or DeadlineExceeded."""
        seconds = self._call.patience(self._silence_s)
        if self._stop_at is not None:
            seconds = min(seconds, self._stop_at - time.monotonic())
        # Zero would mean not to wait at all, and raise another error.
        return max(0.001, seconds)

    def read(self) -> bytes:
        """What arrives next; empty at the connection's end. Raises what `Connections.open` does."""
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            raise TimeoutError("the answer does not end")
        self._connection.settimeout(self.seconds())
        piece = self._connection.recv(_PIECE)
        if not piece and self._in_head:
            raise ConnectionError("the connection was closed before the answer's head ended")
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            raise TransportError("the provider's answer is too large")
        return piece


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
