"""Events on their way to a reader: each reader has a queue of its own."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from codelab_client.session.errors import SessionClosed
from codelab_client.session.events import CallOutput, Event

#: Events, and characters of commands' output, that wait for a slow reader before output is held back.
_ROOM_EVENTS = 2_000
_ROOM_CHARS = 1_000_000
#: Events that wait for a reader at most.
_MOST_EVENTS = 100_000


class EventStream:
    """A queue of events with one reader. It ends when the session ends: with an error, unless that was on purpose."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._chars = 0
        self._change = asyncio.Event()
        self._error: BaseException | None = None
        self._ended = False
        self.is_read = False

    def put(self, event: Event) -> None:
        """Add an event. A stream that nobody has begun to read forgets its oldest events."""
        self._events.append(event)
        self._chars += _size(event)
        if len(self._events) > (_MOST_EVENTS if self.is_read else _ROOM_EVENTS):
            if self.is_read:
                self.end(SessionClosed("The server sends faster than its frames can be read"))
            self._chars -= _size(self._events.popleft())
        self._change.set()

    def end(self, error: BaseException | None = None) -> None:
        """No event follows."""
        if not self._ended:
            self._ended, self._error = True, error
            self._change.set()

    @property
    def has_room(self) -> bool:
        """Whether the reader is not far behind."""
        return not self.is_read or (len(self._events) < _ROOM_EVENTS and self._chars < _ROOM_CHARS)

    async def __aiter__(self) -> AsyncIterator[Event]:
        self.is_read = True
        while True:
            while self._events:
                event = self._events.popleft()
                self._chars -= _size(event)
                yield event
            if self._ended:
                if self._error is not None:
                    raise self._error
                return
            self._change.clear()
            await self._change.wait()


def _size(event: Event) -> int:
    return len(event.text) if isinstance(event, CallOutput) else 0
