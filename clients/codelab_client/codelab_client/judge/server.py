"""The judge's server: one session that a scenario scripts, over real WebSockets on this machine."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import DATA_OPCODES, Frame
from websockets.http11 import Request, Response

from codelab_client.judge.frames import answer_to, mistakes
from codelab_client.judge.rules import Report

#: API Gateway's limits in bytes, docs/protocol.md#connecting.
_FRAME_BYTES, _MESSAGE_BYTES = 32 * 1024, 128 * 1024
#: The frames and parameters by which a client asks for extensions, docs/protocol.md.
_ASKING_FRAMES = {"hello", "resume", "session_config", "refresh_token", "rules"}
_ASKING_PARAMETERS = {"extensions", "last_seq"}
#: Seconds between two pings of one connection that are too few, and of silence that make a connection one of the seeds.
_PING_S, _SILENT_S = 30.0, 0.3

Message = dict[str, Any]
_Value = TypeVar("_Value")


class NotPlayed(Exception):
    """The client does not do what a scenario needs, so nothing can be said."""


class _Socket(ServerConnection):
    """Remembers the size of the largest WebSocket frame, which a message hides."""

    largest = 0

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame) and event.opcode in DATA_OPCODES:
            self.largest = max(self.largest, len(event.data))
        super().process_event(event)


@dataclass(eq=False)
class Connection:
    """One connection of the client. is_live: it gets the session's frames."""

    socket: _Socket
    opened_at: float
    has_extensions: bool
    is_live: bool
    pinged_at: float = float("-inf")


@dataclass(frozen=True)
class Arrival:
    """A frame of the client. at: when it came, in seconds (monotonic)."""

    frame: Message
    connection: Connection
    at: float

    @property
    def type(self) -> str:
        return str(self.frame.get("type"))


@dataclass(frozen=True)
class Attempt:
    """A try to open a connection. at: when, in seconds (monotonic). token: what it was opened with."""

    at: float
    token: str


@dataclass
class Refusal:
    """What happens to new connections: an HTTP status, or none to break them off at once."""

    status: HTTPStatus | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Session:
    """The session of the client under judgement.

    log: the frames with a `seq`, from 1. open_calls: calls without a result, by `call_id`. arrivals: what the client
    has sent. attempts: every try to connect. refusal: if set, no connection is accepted. intercept: sees each frame
    first, and returns whether the server must not answer it. repeats: how many frames a replay repeats that the client
    has. needs_resync: whether the next `resume` is answered by `resync_required`.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.log: list[Message] = []
        self.calls: dict[str, Message] = {}
        self.open_calls: dict[str, Message] = {}
        self.arrivals: list[Arrival] = []
        self.attempts: list[Attempt] = []
        self.connections: list[Connection] = []
        self.refusal: Refusal | None = None
        self.intercept: Callable[[Arrival], bool] = lambda _: False
        self.repeats = 0
        self.needs_resync = False
        self._change = asyncio.Event()

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def until(self, look: Callable[[], _Value | None], patience: float) -> _Value | None:
        """What `look` gives as soon as it gives something; None if it does not within `patience` seconds."""
        end = time.monotonic() + patience
        while not (value := look()):
            self._change.clear()
            remaining = end - time.monotonic()
            if remaining <= 0:
                return None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), min(remaining, 0.05))
        return value

    def live(self) -> Connection | None:
        """The newest connection that gets frames."""
        now = time.monotonic()
        for connection in reversed(self.connections):
            if connection.is_live and (connection.has_extensions or now - connection.opened_at > _SILENT_S):
                return connection
        return None

    # -- sending -----------------------------------------------------------------------------------------------------

    async def post(self, frame_type: str, *, extension: bool = False, **fields: Any) -> Message:
        """Log a frame with the next `seq`, and send it to whoever is live. extension: only with extensions."""
        frame = {"type": frame_type, **fields, "seq": len(self.log) + 1}
        self.log.append(frame)
        if frame_type == "tool_call":
            self.calls[frame["call_id"]] = self.open_calls[frame["call_id"]] = frame
        for connection in list(self.connections):
            if connection.is_live and (connection.has_extensions or not extension):
                await self.write(connection, frame)
        return frame

    async def write(self, connection: Connection, frame: Mapping[str, Any]) -> None:
        """Send a frame to one connection, if it is still open."""
        with contextlib.suppress(ConnectionClosed):
            await connection.socket.send(json.dumps(frame))

    async def _replay(self, connection: Connection, last_seq: int) -> None:
        if self.needs_resync:
            self.needs_resync = False
            await self.write(connection, {"type": "resync_required", "last_seq": len(self.log)})
            return
        for frame in self.log[max(0, last_seq - self.repeats) :]:
            is_settled = frame["type"] == "tool_call" and self.open_calls.get(frame["call_id"]) != frame
            await self.write(connection, {**frame, "execute": False} if is_settled else frame)
        await self.write(connection, {"type": "resumed", "last_seq": len(self.log), "open_calls": self._pending()})
        connection.is_live = True

    def _pending(self) -> list[Message]:
        return [
            {
                **{name: call[name] for name in ("call_id", "tool_name", "arguments", "deadline")},
                "state": "awaiting_approval" if call["requires_approval"] else "executing",
            }
            for call in self.open_calls.values()
        ]

    # -- connections -------------------------------------------------------------------------------------------------

    def upgrade(self, _: ServerConnection, request: Request) -> Response | None:
        """Accept or refuse a connection."""
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return _refused(HTTPStatus.NOT_FOUND, {})
        token = request.headers.get("Authorization", "") + request.headers.get("Sec-WebSocket-Protocol", "")
        self.attempts.append(Attempt(time.monotonic(), token))
        self._change.set()
        if self.refusal is not None and self.refusal.status is not None:
            return _refused(self.refusal.status, self.refusal.headers)
        return None

    async def serve(self, socket: ServerConnection) -> None:
        """Take what one connection sends until it ends."""
        if self.refusal is not None:
            socket.transport.abort()
            return
        assert isinstance(socket, _Socket)
        assert socket.request is not None
        parameters = parse_qs(urlsplit(socket.request.path).query)
        has_extensions = bool(_ASKING_PARAMETERS & parameters.keys())
        connection = Connection(socket, time.monotonic(), has_extensions, is_live=not has_extensions)
        self.connections.append(connection)
        try:
            if "last_seq" in parameters:
                await self._replay(connection, int(parameters["last_seq"][0]))
            async for message in socket:
                await self._take(connection, message)
        except ConnectionClosed:
            pass
        finally:
            self.connections.remove(connection)
            self._change.set()

    async def _take(self, connection: Connection, message: str | bytes) -> None:
        largest, connection.socket.largest = connection.socket.largest, 0
        size = len(message.encode() if isinstance(message, str) else message)
        is_small = largest <= _FRAME_BYTES and size <= _MESSAGE_BYTES
        if not is_small or size > _FRAME_BYTES:
            reason = f"a message of {size} bytes, in WebSocket frames of up to {largest}"
            self.report.note("size-limits", is_small, reason, message[:100] if isinstance(message, str) else None)
        frame, reasons = mistakes(message)
        self.report.note("valid-frames", not reasons, "; ".join(reasons), frame or str(message))
        if frame is None:
            return
        arrival = Arrival(frame, connection, time.monotonic())
        self._judge_ids(arrival)
        self.arrivals.append(arrival)
        if arrival.type in _ASKING_FRAMES and not connection.has_extensions:
            connection.has_extensions, connection.is_live = True, False
        self._change.set()
        if not self.intercept(arrival):
            await self._answer(arrival)

    def _judge_ids(self, arrival: Arrival) -> None:
        call_id = arrival.frame.get("call_id")
        if arrival.type in ("tool_result", "hitl_decision") and isinstance(call_id, str):
            self.report.note("call-ids", call_id in self.calls, f"no call has the id {call_id}", arrival.frame)
        if arrival.type == "ping":
            silence = arrival.at - arrival.connection.pinged_at
            self.report.note("pings", silence > _PING_S, f"{silence:.1f} s after the ping before", arrival.frame)
            arrival.connection.pinged_at = arrival.at

    async def _answer(self, arrival: Arrival) -> None:
        connection, frame = arrival.connection, arrival.frame
        if arrival.type == "resume":
            await self._replay(connection, int(frame["last_seq"]))
        elif (answer := answer_to(frame, len(self.log), self._pending())) is not None:
            await self.write(connection, answer)


def _refused(status: HTTPStatus, headers: Mapping[str, str]) -> Response:
    from websockets.datastructures import Headers

    return Response(status.value, status.phrase, Headers({**headers, "Content-Length": "0", "Connection": "close"}))


@contextlib.asynccontextmanager
async def serving(session: Session, port: int = 0) -> AsyncIterator[str]:
    """Serve a session on this machine. Yields the address that a client connects to."""
    server: WebSocketServer = await serve(
        session.serve, "127.0.0.1", port, process_request=session.upgrade, create_connection=_Socket, max_size=10**7
    )
    async with server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}/ws/judge"
