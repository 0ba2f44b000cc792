"""Frames that wait for a reply, and are sent again until it comes.

Each has a `request_id`, which its answer repeats. A server that does not know it is understood, too: `is_reply` then
tells an answer by what it says.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from codelab_client.session.errors import Refused
from codelab_client.session.events import Ack, Error, Event

#: Replies of the server are waited for so often before a frame that may be sent again counts as refused.
_TRIES = 5
#: Seconds until a frame is sent again that the server refused for the moment.
_SOON_S = 1.0

E = TypeVar("E", bound=Event)


@dataclass
class _OpenRequest:
    """A frame that waits for its reply, and is sent again until the reply comes."""

    frame: dict[str, Any]
    is_reply: Callable[[Event], bool]
    reply: "asyncio.Future[Event]"
    sent_at: float = 0.0
    tries: int = 0

    def may_be_answered_by(self, event: Event) -> bool:
        """Whether the event does not answer another frame."""
        return event.request_id in (None, self.frame["request_id"])


class Replies:
    """Asks the server, one frame at a time.

    send: sends a frame on the current connection, and drops it if there is none. is_online: whether it has caught up.
    start: runs a coroutine beside the others. check_open: raises what has ended the session.
    repeat_s: until a frame without a reply is sent again.
    """

    def __init__(
        self,
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
        is_online: Callable[[], bool],
        start: Callable[[Coroutine[Any, Any, Any]], object],
        check_open: Callable[[], None],
        repeat_s: float,
    ) -> None:
        self._send, self._is_online, self._start = send, is_online, start
        self._check_open, self._repeat_s = check_open, repeat_s
        self._asking = asyncio.Lock()
        self._open_request: _OpenRequest | None = None

    @property
    def awaited(self) -> str:
        """The type of the frame that waits for its reply; empty if none does."""
        return str(self._open_request.frame["type"]) if self._open_request is not None else ""

    async def ask(self, frame: dict[str, Any], is_reply: Callable[[Event], bool]) -> Event:
        """Send a frame until its reply or an `ack` comes. Raises Refused, or what has ended the session."""
        async with self._asking:
            self._check_open()
            numbered_frame = {**frame, "request_id": uuid.uuid4().hex}
            request = self._open_request = _OpenRequest(
                numbered_frame, is_reply, asyncio.get_running_loop().create_future()
            )
            try:
                if self._is_online():
                    request.sent_at = time.monotonic()  # at once: what catches up must not send it as well
                    self._start(self._repeat(request))
                return await request.reply
            finally:
                self._open_request = None

    async def ask_for(self, kind: type[E], frame: dict[str, Any], is_made: Callable[[E], bool] = lambda _: True) -> E:
        """Ask for a reply of this kind that shows that what was asked is made."""
        reply = await self.ask(frame, lambda event: isinstance(event, kind) and is_made(event))
        if not isinstance(reply, kind):
            raise Refused("INTERNAL_ERROR", f"The server answered {frame['type']} with {type(reply).__name__}")
        return reply

    def take(self, event: Event) -> None:
        """Give an event to the request that waits for it."""
        request = self._open_request
        if request is None or request.reply.done() or not request.may_be_answered_by(event):
            return
        if isinstance(event, Ack) or request.is_reply(event):
            request.reply.set_result(event)

    def refused(self, error: Error) -> bool:
        """The server refused a frame. Returns whether somebody waits for the reply, and is told."""
        request = self._open_request
        if request is None or request.reply.done() or not request.may_be_answered_by(error):
            return False
        may_repeat = error.retryable and error.error_code not in ("RATE_LIMITED", "BUSY")
        if may_repeat and request.tries < _TRIES:
            request.sent_at = time.monotonic() - self._repeat_s + _SOON_S
        else:
            request.reply.set_exception(Refused(error.error_code, error.message, error.retry_after, error.details))
        return True

    def hurry(self) -> None:
        """The frame may be lost: send it again at once. It may also have been accepted; the repeat has the same id."""
        if self._open_request is not None:
            self._open_request.sent_at = 0.0

    async def repeat_if_due(self, now: float) -> None:
        """Send the frame again if its reply has not come for long."""
        if self._open_request is not None and now - self._open_request.sent_at > self._repeat_s:
            await self._repeat(self._open_request)

    async def repeat_if_sent_before(self, opened_at: float) -> None:
        """Send the frame again if it was sent on an earlier connection, or never."""
        if self._open_request is not None and self._open_request.sent_at < opened_at:
            await self._repeat(self._open_request)

    def end(self, error: BaseException) -> None:
        """The session has ended: no reply will come."""
        if self._open_request is not None and not self._open_request.reply.done():
            self._open_request.reply.set_exception(error)

    async def _repeat(self, request: _OpenRequest) -> None:
        request.sent_at = time.monotonic()
        request.tries += 1
        await self._send(request.frame)
