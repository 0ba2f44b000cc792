"""HTTP for the openai SDK, with cancellation and a deadline, which its own client lacks.

Another thread can interrupt a blocked read, even before the provider has sent its headers (a thinking model is silent
for minutes), and each read ends at the call's deadline, even if the provider keeps sending bytes. Both need the socket,
so this is an httpx transport on httpcore's public interface whose network streams know the call they serve. A stream
gets its call when the thread that makes the call writes the request.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpcore2
import httpx2

from codelab.llm.client.transport import Call

_CONNECTIONS, _KEEPALIVE_S = 100, 55.0
#: The most bytes that a connection takes without waiting for the server. Of more, it is not known how long they take.
_AT_ONCE = 64 << 10
_current = threading.local()


class Binding:
    """Connects a call with its connection, from when the request is written until `release`."""

    __slots__ = ("_interrupt", "call")

    def __init__(self, call: Call) -> None:
        self.call = call
        self._interrupt: Callable[[], None] | None = None

    def attach(self, interrupt: Callable[[], None]) -> None:
        if self._interrupt != interrupt:
            self.release()
            self._interrupt = interrupt
            self.call.cancellation.attach(interrupt)

    def release(self) -> None:
        """Detach the call from the connection, so that a late cancel does not interrupt the next call on it."""
        if self._interrupt is not None:
            self.call.cancellation.detach(self._interrupt)
            self._interrupt = None


@contextlib.contextmanager
def serving(call: Call) -> Iterator[Binding]:
    """Bind the requests that this thread writes inside the block to `call`."""
    binding = Binding(call)
    _current.binding = binding
    try:
        yield binding
    finally:
        _current.binding = None


def _served() -> Binding | None:
    return getattr(_current, "binding", None)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner
        self._call: Call | None = None

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        call = self._call
        if call is None:
            return self._inner.read(max_bytes, timeout)
        call.waits()  # All of a request is written before the first read.
        call.check()
        return self._inner.read(max_bytes, call.bound(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        binding = _served()
        self._call = call = binding.call if binding else None
        if binding is not None and call is not None:
            binding.attach(self._interrupt)
            call.check()
            if len(buffer) > _AT_ONCE:
                call.waits()
            timeout = call.bound(timeout)
        self._inner.write(buffer, timeout)

    def _interrupt(self) -> None:
        # Shutting down the TCP socket wakes a thread that is blocked in recv; closing it does not.
        sock = self._inner.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        binding = _served()
        if binding is not None:
            timeout = binding.call.bound(timeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        binding = _served()
        if binding is not None:
            binding.call.check()
            binding.call.waits()
            timeout = binding.call.bound(timeout)
        options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *(socket_options or ())]
        return _Stream(super().connect_tcp(host, port, timeout, local_address, options))


_EXCEPTIONS = (
    (httpcore2.ConnectTimeout, httpx2.ConnectTimeout),
    (httpcore2.ReadTimeout, httpx2.ReadTimeout),
    (httpcore2.WriteTimeout, httpx2.WriteTimeout),
    (httpcore2.PoolTimeout, httpx2.PoolTimeout),
    (httpcore2.ConnectError, httpx2.ConnectError),
    (httpcore2.ReadError, httpx2.ReadError),
    (httpcore2.WriteError, httpx2.WriteError),
    (httpcore2.ProxyError, httpx2.ProxyError),
    (httpcore2.UnsupportedProtocol, httpx2.UnsupportedProtocol),
    (httpcore2.LocalProtocolError, httpx2.LocalProtocolError),
    (httpcore2.RemoteProtocolError, httpx2.RemoteProtocolError),
)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        for core_error, client_error in _EXCEPTIONS:
            if isinstance(error, core_error):
                raise client_error(str(error)) from error
        raise


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._stream

    def close(self) -> None:
        if hasattr(self._stream, "close"):
            self._stream.close()


class InterruptibleTransport(httpx2.BaseTransport):
    """An httpx transport with a connection pool whose streams obey `serving(call)`. HTTP/1.1, keep-alive."""

    def __init__(self) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_CONNECTIONS,
            keepalive_expiry=_KEEPALIVE_S,
            network_backend=_Backend(),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        with _translated():
            response = self._pool.handle_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response.stream),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()
