"""The answer as Server-Sent Events, on a host that streams and on one that buffers.

A streaming host passes every event on at once. A buffering one (API Gateway before Lambda) passes nothing on before the
end, so the stream ends as soon as it has events, or none can be expected soon, and the client reconnects. Both send the
same events, each with its `seq` as the id, so that a client that was cut off continues without a gap.

No stream lasts long. Lambda does not tell a function that its client left: it runs, and costs money, until its end.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from codelab.aws.errors import AwsError
from codelab.config import settings
from codelab.gateway.identity import Identity
from codelab.observability import logger
from codelab.protocol.errors import ErrorCode
from codelab.rest.error_responses import refusals
from codelab.rest.identity import OfToken, Sender, SessionId
from codelab.rest.log import LogReader
from codelab.rest.sessions import existing
from codelab.sessions.items import dumps
from codelab.sessions.spending import Spending
from codelab.wiring import engine

router = APIRouter(prefix="/chat", tags=["chat"])

#: The longest stream, in seconds. On a streaming host, a client that left may cost that much; on a buffering one, it is
#: below API Gateway's 29 s.
STREAMED_S, BUFFERED_S = 90.0, 20.0
#: The longest `wait` that a client may ask for; streams end sooner.
_LONGEST_WAIT_S = 840.0
#: When a client reconnects after the end, in milliseconds. On a buffering host: while the model works, while a turn
#: waits for a human or a tool, while no turn runs.
_RETRY_STREAMED_MS = 1_000
_RETRY_WORKING_MS, _RETRY_WAITING_MS, _RETRY_IDLE_MS = 200, 1_000, 3_000
#: The bytes that end a buffered stream; Lambda's answers have at most 6 MB.
_BUFFER_BYTES = 4_000_000
#: Seconds of silence before a heartbeat, so that no proxy closes the stream.
_HEARTBEAT_S = 15.0
#: Seconds between two reads of the log: just after a frame, while a turn runs, while none runs.
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
    """An answer of Server-Sent Events."""

    media_type = "text/event-stream"


@dataclass(slots=True)
class _Course:
    """How far a stream has got, and when it ends. Times are seconds of the monotonic clock.

    ends_with_turn: the client gave no position, so it wants the latest turn only.
    """

    ends_at: float
    max_events: float
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
        return self.events >= self.max_events or (not self.is_streamed and self.size >= _BUFFER_BYTES)

    def is_over(self, reader: LogReader) -> bool:
        """Whether the stream ends now that no event is ready."""
        if reader.is_behind:
            return False
        if time.monotonic() >= self.ends_at or reader.is_gone:
            return True
        if not self.is_streamed and not reader.is_working:
            return True  # waiting would hold a function, for hours if the turn waits for a human
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
        return max(0.0, min(pause, self.ends_at - now))


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
    after_seq = register.turn_seq if position is None else position
    reader = LogReader(sessions.store, sessions.payloads, register, after_seq, token.issued)
    duration = STREAMED_S if settings().rest_streaming else BUFFERED_S
    course = _Course(
        ends_at=now + min(duration, duration if wait is None else wait, _token_lasts(token)),
        max_events=float("inf") if limit is None else limit,
        ends_with_turn=position is None,
        is_streamed=settings().rest_streaming,
    )
    first_events = await run_in_threadpool(reader.beyond)
    if settings().rest_streaming:  # the stream holds a function of its own until it ends
        await run_in_threadpool(sessions.reserve, caller, Spending(connections=1))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return EventStream(_body(reader, first_events, course), headers=headers)


def _token_lasts(token: Identity) -> float:
    """Seconds until the caller's token expires. On a buffering host, each request is checked."""
    return token.expires - time.time() if token.expires else float("inf")


async def _body(
    reader: LogReader, first_events: list[tuple[int, dict[str, Any]]], course: _Course
) -> AsyncIterator[bytes]:
    """The body. `retry` comes first where the stream may be cut, and last where it cannot."""
    if course.is_streamed:
        yield f"retry: {_RETRY_STREAMED_MS}\n\n".encode()
    async for piece in _events(reader, first_events, course):
        yield piece
    if not course.is_streamed:
        yield f"retry: {_come_back_ms(reader)}\n\n".encode()


def _come_back_ms(reader: LogReader) -> int:
    if reader.is_working:
        return _RETRY_WORKING_MS
    return _RETRY_WAITING_MS if reader.is_busy else _RETRY_IDLE_MS


async def _events(reader: LogReader, events: list[tuple[int, dict[str, Any]]], course: _Course) -> AsyncIterator[bytes]:
    """The events until the stream ends. A failed read ends it: the client reconnects with the id of its last event."""
    while True:
        for seq, event in events:
            yield course.tell(seq, event)
            if course.is_full:
                return
        if course.is_over(reader):
            return
        if course.is_silent:
            yield course.beat()
        await asyncio.sleep(course.pause(reader))
        try:
            events = await run_in_threadpool(reader.read, engine().clock())
        except AwsError as error:
            logger().error("the log cannot be read", exc_info=error)
            return
