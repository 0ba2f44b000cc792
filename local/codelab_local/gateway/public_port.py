"""The public port, for both WebSocket and HTTP.

`websockets` only parses GET requests without a body. So this module looks at the head of a connection's first request
and passes an upgrade to `websockets`, anything else to an HTTP application on the same transport, which passes a later
upgrade back.
"""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from codelab_local.gateway.connections import MAX_FRAME, MAX_MESSAGE, MAX_UNSENT
from codelab_local.gateway.websocket_api import Gateway, http_response
from codelab_local.host.errors import StartError
from codelab_local.http.origin_policy import OriginPolicy
from codelab_local.http.protocol import Application, HttpProtocol, split_target

MAX_HEAD = 32 * 1024
HEAD_TIMEOUT = 10.0
HANDSHAKE_TIMEOUT = 60.0  # During $connect, the authorizer and the integration may take 29 s each.


class PublicPort:
    """Listens on HOST:PORT. Passes allowed WebSockets to the gateway and other allowed requests to `http`."""

    def __init__(self) -> None:
        self._http: Application
        self._gateway: Gateway
        self._policy: OriginPolicy
        self._protocols: set[HttpProtocol] = set()
        self._undecided_connections: set[_FirstLook] = set()
        self._server: Server | None = None

    async def bind(self, host: str, port: int) -> int:
        """Bind the port before anything else starts, and return its number. Raises :class:`StartError`."""

        def create(*arguments: Any, **keywords: Any) -> ServerConnection:
            return _FirstLook(self._to_http, self._undecided_connections, *arguments, **keywords)

        try:
            self._server = await serve(
                lambda socket: self._gateway.serve(socket),
                host,
                port,
                create_connection=create,  # type: ignore[arg-type]
                process_request=self._connect,
                select_subprotocol=lambda socket, subprotocols: self._gateway.select_subprotocol(socket, subprotocols),
                max_size=(MAX_MESSAGE, MAX_FRAME),
                # API Gateway does not compress and sends no pings.
                compression=None,
                ping_interval=None,
                server_header=None,
                open_timeout=HANDSHAKE_TIMEOUT,
                close_timeout=2,
                # Never reached: posts to such a slow client get 429 before (see connections.py).
                write_limit=4 * MAX_UNSENT,
                backlog=1024,
                start_serving=False,
            )
        except OSError as error:
            raise StartError(_bind_problem(error, host, port)) from None
        bound_port: int = self._server.sockets[0].getsockname()[1]
        return bound_port

    async def serve(self, gateway: Gateway, http: Application, policy: OriginPolicy) -> None:
        """Accept clients."""
        assert self._server is not None
        self._gateway, self._http, self._policy = gateway, policy.protect(http), policy
        await self._server.start_serving()

    async def stop(self, seconds: float) -> None:
        """Close every connection (1001), within `seconds`."""
        if self._server is None:
            return
        self._server.close()
        for protocol in list(self._protocols):
            protocol.transport.abort()
        for first_look in list(self._undecided_connections):
            first_look.abandon()
        try:
            await asyncio.wait_for(self._server.wait_closed(), seconds)
        except TimeoutError:
            for connection in list(self._server.all_connections):
                connection.transport.abort()

    async def _connect(self, socket: ServerConnection, request: Request) -> Response | None:
        """A response refuses the upgrade."""

        def header(name: str) -> str | None:
            values = request.headers.get_all(name)
            return ", ".join(values) if values else None

        try:
            authority = split_target(request.path)[2]
        except ValueError:
            return http_response(400, '{"message": "Bad Request"}')
        site = header("Sec-Fetch-Site") or ""
        refusal = self._policy.refusal(header("Host") or "", authority, header("Origin"), site)
        if refusal is not None:
            return http_response(refusal.status, refusal.body.decode())
        return await self._gateway.connect(socket, request)

    def _to_http(self, transport: asyncio.Transport, data: bytes, upgrade: Callable[[bytes], None]) -> None:
        protocol = HttpProtocol(self._http, self._protocols, upgrade)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(data)


class _FirstLook(ServerConnection):
    """A connection that becomes a WebSocket with the first request that is an upgrade."""

    def __init__(
        self,
        to_http: Callable[[asyncio.Transport, bytes, Callable[[bytes], None]], None],
        undecided_connections: "set[_FirstLook]",
        *arguments: Any,
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._to_http = to_http
        self._undecided_connections = undecided_connections
        self._first_bytes: bytes | None = b""
        self._tcp_transport: asyncio.Transport
        self._timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._tcp_transport = transport
        self._undecided_connections.add(self)
        self._timer = asyncio.get_running_loop().call_later(HEAD_TIMEOUT, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._first_bytes is None:
            super().data_received(data)
            return
        self._first_bytes += data
        end = self._first_bytes.find(b"\r\n\r\n")
        if end < 0 and len(self._first_bytes) <= MAX_HEAD:
            return
        head, self._first_bytes = self._first_bytes, None
        self.abandon(close=False)
        if _is_upgrade(head[:end] if end >= 0 else head):
            self._to_websocket(head)
        else:
            self._to_http(self._tcp_transport, head, self._to_websocket)

    def _to_websocket(self, data: bytes) -> None:
        self._tcp_transport.set_protocol(self)
        super().connection_made(self._tcp_transport)
        super().data_received(data)

    def eof_received(self) -> None:
        if self._first_bytes is None:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._first_bytes is None:
            super().connection_lost(exc)
        else:
            self.abandon(close=False)

    def abandon(self, close: bool = True) -> None:
        self._timer.cancel()
        self._undecided_connections.discard(self)
        if close:
            self._tcp_transport.abort()


def _is_upgrade(head: bytes) -> bool:
    lines = head.lower().split(b"\r\n")
    return any(line.startswith(b"upgrade:") and b"websocket" in line for line in lines[1:])


def _bind_problem(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: stop the program that uses it, or choose another with PORT={port + 1}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"no permission to use port {port} on {host}: choose one above 1023 with PORT=8000"
    return f"cannot listen on HOST {host}: use an address of this machine, for example HOST=127.0.0.1"
