"""The open WebSocket connections, and the `@connections` API with which functions manage them.

API reference: "API Gateway Management API".
"""

import asyncio
import time
from collections.abc import Awaitable
from datetime import UTC, datetime
from urllib.parse import unquote

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from codelab_local.gateway.events import Caller
from codelab_local.http.protocol import Request, Response

#: API Gateway's limits on a message and on a WebSocket frame, in bytes.
MAX_MESSAGE = 128 * 1024
MAX_FRAME = 32 * 1024
# Bytes buffered for a client that does not read. Beyond that, a post gets 429 at once, so that it delays no others.
MAX_UNSENT = 1024 * 1024
# Messages of one connection in progress; beyond that, the socket is not read.
MAX_RUNNING = 256


class Connection:
    """One open connection."""

    def __init__(self, caller: Caller, socket: ServerConnection) -> None:
        self.caller = caller
        self.socket = socket
        self.id = caller.connection_id
        self.turns = asyncio.Semaphore(MAX_RUNNING)
        self._loop = asyncio.get_running_loop()
        self.touch()

    def touch(self) -> None:
        """Restart the idle timer."""
        self.active_at = self._loop.time()
        self.caller.last_active_at = int(time.time() * 1000)

    async def send(self, data: bytes) -> bool:
        """Send a text message, in frames of at most 32 KB like API Gateway. False if the connection is closed."""
        self.touch()
        try:
            if len(data) <= MAX_FRAME:
                await self.socket.send(data, text=True)
            else:
                frames = (data[start : start + MAX_FRAME] for start in range(0, len(data), MAX_FRAME))
                await self.socket.send(frames, text=True)
        except ConnectionClosed:
            return False
        return True

    @property
    def unsent(self) -> int:
        return self.socket.transport.get_write_buffer_size()

    @property
    def is_open(self) -> bool:
        return self.socket.state is State.OPEN


class Connections:
    """All open connections of a stage, and their management over HTTP."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._open: dict[str, Connection] = {}

    def open(self, caller: Caller, socket: ServerConnection) -> Connection:
        connection = Connection(caller, socket)
        self._open[connection.id] = connection
        return connection

    def forget(self, connection: Connection) -> None:
        self._open.pop(connection.id, None)

    def all(self) -> list[Connection]:
        """The open connections, oldest first."""
        return [connection for connection in self._open.values() if connection.is_open]

    def drop(self, connection_id: str) -> bool:
        """Break a connection without a closing handshake, as a network does. False if it is not open."""
        connection = self._open.get(connection_id)
        if connection is None or not connection.is_open:
            return False
        connection.socket.transport.abort()
        return True

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """`/{stage}/@connections/{id}`: POST sends, GET describes, DELETE closes."""
        parts = request.path.split("/", 3)
        if len(parts) != 4 or unquote(parts[1]) != self._stage or unquote(parts[2]) != "@connections" or not parts[3]:
            return _refusal(403, "ForbiddenException", "Forbidden")
        if request.method not in ("POST", "GET", "DELETE"):
            return _refusal(403, "ForbiddenException", "Forbidden")
        connection = self._open.get(unquote(parts[3]))
        # boto3 needs the header to raise GoneException instead of ClientError.
        if connection is None or not connection.is_open:
            return _refusal(410, "GoneException", "Gone")
        if request.method == "POST":
            return self._post(connection, request.body)
        if request.method == "GET":
            return _describe(connection.caller)
        asyncio.get_running_loop().create_task(connection.socket.close(1000, "Connection Closed Normally"))
        return Response(204)

    def _post(self, connection: Connection, data: bytes) -> Response | Awaitable[Response]:
        if len(data) > MAX_MESSAGE:
            return _refusal(413, "PayloadTooLargeException", "Message too long")
        if connection.unsent + len(data) > MAX_UNSENT:
            return _refusal(429, "LimitExceededException", "The client does not read: its buffer is full")
        if not data.isascii():
            data = data.decode("utf-8", "replace").encode()  # A text frame must be UTF-8.
        return _send(connection, data)


async def _send(connection: Connection, data: bytes) -> Response:
    return Response(200) if await connection.send(data) else _refusal(410, "GoneException", "Gone")


def _describe(caller: Caller) -> Response:
    identity = {"sourceIp": caller.source_ip, "userAgent": caller.user_agent}
    times = {"connectedAt": _iso(caller.connected_at), "lastActiveAt": _iso(caller.last_active_at)}
    return Response.json({**times, "identity": identity})


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refusal(status: int, kind: str, message: str) -> Response:
    return Response.json({"message": message}, status, x_amzn_ErrorType=kind)
