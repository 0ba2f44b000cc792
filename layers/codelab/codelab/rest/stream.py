"""The answer as Server-Sent Events, for a host that streams and for one that buffers.

A host that streams passes every event on as it comes. One that buffers (API Gateway before Lambda) passes nothing on
before the end, so the stream ends as soon as there is something to tell, or nothing that could soon happen, and the
client comes back for more: the events are the same, and each names its `seq` by which a client that was cut off goes on
without a gap.

Neither lasts long. Lambda does not tell a function that its client has left: it runs, and is paid for, to its end.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from botocore.exceptions import BotoCoreError, ClientError
from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from codelab.config import settings
from codelab.gateway.identity import Identity
from codelab.observability import logger
from codelab.protocol.errors import ErrorCode
from codelab.rest.errors import refusals
from codelab.rest.identity import OfToken, Sender, SessionId
from codelab.rest.log import LogReader
from codelab.rest.sessions import existing
from codelab.sessions.items import dumps
from codelab.sessions.spending import Spending
from codelab.wiring import engine

router = APIRouter(prefix="/chat", tags=["chat"])

#: How long a stream lasts at most, in seconds. Where the host streams, that is what a client that has left may cost;
#: where it buffers, it is below the 29 s of an integration.
STREAMED_S, BUFFERED_S = 90.0, 20.0
#: What a client may ask for; a host gives less.
_LONGEST_WAIT_S = 840.0
#: When a client comes back after the end, in milliseconds. Where the host buffers: while the model works, while a human
#: or a tool is waited for, while nothing happens.
_RETRY_STREAMED_MS = 1_000
_RETRY_WORKING_MS, _RETRY_WAITING_MS, _RETRY_IDLE_MS = 200, 1_000, 3_000
#: Bytes that are buffered before a stream ends; Lambda answers with 6 MB at most.
_BUFFER_BYTES = 4_000_000
#: A silent stream says that it is alive, so that no proxy takes it for dead; in seconds.
_HEARTBEAT_S = 15.0
#: Between two reads of the log, in seconds: just after a frame, while a turn runs, while nothing does.
_FLOWING_S, _BUSY_S, _IDLE_S = 0.1, 0.25, 1.0
_FLOWS_FOR_S = 2.0

_EXAMPLE = """id: 2
data: {"type":"token","content":"Создаю","is_final":false,"message_id":"msg_1","turn_id":"t1","seq":2}

id: 3
data: {"type":"tool_call","call_id":"call_123","tool_name":"write_file","arguments":{"path":"main.dart"},\
"requires_approval":true,"turn_id":"t1","seq":3}

id: 4
data: {"type":"done","turn_id":"t1","reason":"completed","usage":{},"seq":4}

"""

_DESCRIPTION = """Server-Sent Events, each a JSON object whose `type` is `token`, `tool_call`, `done` or the name of
another frame, with the frame's `seq` as its id. The stream has all frames, including extensions. Calls are only for
display; do not execute them. `resync_required`: the log does not reach back that far; read the history."""


class EventStream(StreamingResponse):
    media_type = "text/event-stream"


@dataclass(slots=True)
class _Course:
    """How far a stream is, and when it ends. Times are of the monotonic clock, in seconds.

    `ends_with_turn` is what a client wants that has given no position.
    """

    until: float
    most: float
    ends_with_turn: bool
    is_streamed: bool
    events: int = 0
    size: int = 0
    spoke_at: float = field(default_factory=time.monotonic)
    flowed_at: float = field(default_factory=time.monotonic)

    def tell(self, seq: int, event: dict[str, Any]) -> bytes:
        text = f"id: {seq}\ndata: {dumps(event)}\n\n".encode()
        self.events += 1
        self.size += len(text)
        self.spoke_at = self.flowed_at = time.monotonic()
        return text

    def beat(self) -> bytes:
        self.spoke_at = time.monotonic()
        return b": heartbeat\n\n"

    @property
    def is_silent(self) -> bool:
        return self.is_streamed and time.monotonic() - self.spoke_at >= _HEARTBEAT_S

    @property
    def is_full(self) -> bool:
        return self.events >= self.most or (not self.is_streamed and self.size >= _BUFFER_BYTES)

    def is_over(self, reader: LogReader) -> bool:
        """With nothing more to tell at once: is this the end?"""
        if reader.is_behind:
            return False
        if time.monotonic() >= self.until or reader.is_gone:
            return True
        if not self.is_streamed and not reader.is_working:
            return True  # to wait here would hold a function, for hours if it is a human who is waited for
        if self.ends_with_turn:
            return reader.is_over
        return self.events > 0 and not self.is_streamed

    def pause(self, reader: LogReader) -> float:
        """Seconds until the next read."""
        now = time.monotonic()
        if reader.is_behind:
            return 0
        pause = _BUSY_S if reader.is_busy else _IDLE_S
        if now - self.flowed_at < _FLOWS_FOR_S:
            pause = _FLOWING_S
        return max(0.0, min(pause, self.until - now))


@router.get(
    "/stream/{session_id}",
    response_class=EventStream,
    responses={
        200: {
            "description": _DESCRIPTION,
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
        },
        **refusals(ErrorCode.SESSION_NOT_FOUND, ErrorCode.RATE_LIMITED),
    },
)
async def stream_events(
    session_id: SessionId,
    token: OfToken,
    sender: Sender,
    last_event_id: Annotated[
        int | None, Header(ge=0, le=10**12, description="The `id` of the last received event")
    ] = None,
    last_seq: Annotated[
        int | None, Query(ge=0, le=10**12, description="The same for a first request; `Last-Event-ID` has precedence")
    ] = None,
    limit: Annotated[int | None, Query(ge=1, le=10_000, description="End after this many events")] = None,
    wait: Annotated[
        float | None, Query(ge=0, le=_LONGEST_WAIT_S, description="End after this many seconds at the latest")
    ] = None,
) -> EventStream:
    """The session's events from a position on. When the stream ends, reconnect with the last id.

    Without a position, the stream begins with the latest turn and ends when that turn ends.
    """
    now = time.monotonic()
    position = last_seq if last_event_id is None else last_event_id
    sessions = engine()
    caller = sender(session_id)
    register = existing(await run_in_threadpool(sessions.look, caller))
    after = register.turn_seq if position is None else position
    reader = LogReader(sessions.store, sessions.payloads, register, after, token.issued)
    lasts = STREAMED_S if settings().rest_streaming else BUFFERED_S
    course = _Course(
        until=now + min(lasts, lasts if wait is None else wait, _token_lasts(token)),
        most=float("inf") if limit is None else limit,
        ends_with_turn=position is None,
        is_streamed=settings().rest_streaming,
    )
    first = await run_in_threadpool(reader.beyond)
    if settings().rest_streaming:  # it holds a function of its own to its end
        await run_in_threadpool(sessions.reserve, caller, Spending(connections=1))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return EventStream(_body(reader, first, course), headers=headers)


def _token_lasts(token: Identity) -> float:
    """Seconds until the caller's token expires; the authorizer of a buffering host looks at each request anew."""
    return token.expires - time.time() if token.expires else float("inf")


async def _body(reader: LogReader, first: list[tuple[int, dict[str, Any]]], course: _Course) -> AsyncIterator[bytes]:
    """When to come back is said at once where the stream may be cut, at the end where it cannot."""
    if course.is_streamed:
        yield f"retry: {_RETRY_STREAMED_MS}\n\n".encode()
    async for piece in _events(reader, first, course):
        yield piece
    if not course.is_streamed:
        yield f"retry: {_come_back_ms(reader)}\n\n".encode()


def _come_back_ms(reader: LogReader) -> int:
    if reader.is_working:
        return _RETRY_WORKING_MS
    return _RETRY_WAITING_MS if reader.is_busy else _RETRY_IDLE_MS


async def _events(reader: LogReader, found: list[tuple[int, dict[str, Any]]], course: _Course) -> AsyncIterator[bytes]:
    """A read that fails ends the stream: the client comes back, with the id of what it has."""
    while True:
        for seq, event in found:
            yield course.tell(seq, event)
            if course.is_full:
                return
        if course.is_over(reader):
            return
        if course.is_silent:
            yield course.beat()
        await asyncio.sleep(course.pause(reader))
        try:
            found = await run_in_threadpool(reader.read, engine().clock())
        except (ClientError, BotoCoreError) as error:
            logger().error("the log cannot be read", exc_info=error)
            return
