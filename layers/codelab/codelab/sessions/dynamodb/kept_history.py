"""The messages that a process has read of its last sessions, so that it reads only newer ones, and their summary.

A message is written once and never changed, a summary likewise. A session that was deleted and begun again under its id
was created at another time; its messages are not those kept here.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from codelab.sessions.items import MessageItem, SummaryItem, dumps

#: The bytes of all messages and summaries that are kept; those of the session that was read longest ago go first.
MOST_BYTES = 4_000_000
#: What a message takes beside its text and its JSON, which it keeps too.
_OBJECTS = 850


def _size(messages: Iterable[MessageItem]) -> int:
    return sum(2 * message.bytes + _OBJECTS for message in messages)


def _size_of(summary: SummaryItem | None) -> int:
    return 0 if summary is None else len(dumps(summary.row()).encode()) + _OBJECTS


class Kept(NamedTuple):
    """The messages of the session that was created at this time (ms), from number `first` on without a gap.

    `summary` is the one that was read with them.
    """

    created_at: int = 0
    first: int = 1
    messages: Sequence[MessageItem] = ()
    size: int = 0
    summary: SummaryItem | None = None

    @property
    def end(self) -> int:
        """The number after the last one."""
        return self.first + len(self.messages)

    def of(self, first: int, last: int) -> list[MessageItem]:
        """The messages from number `first` to `last`, as far as they are kept; none if `first` is not."""
        return list(self.messages[first - self.first : max(0, last + 1 - self.first)]) if self.first <= first else []

    def summary_of(self, n: int) -> SummaryItem | None:
        """The summary of the first `n` messages, if it is kept."""
        return self.summary if self.summary is not None and self.summary.n == n else None


class KeptHistory:
    """By the sessions' partition keys. Used by several threads."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Kept] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def of(self, pk: str) -> Kept:
        with self._lock:
            if pk in self._sessions:
                self._sessions.move_to_end(pk)
            return self._sessions.get(pk, Kept())

    def keep(
        self,
        pk: str,
        created_at: int,
        first: int,
        messages: Sequence[MessageItem],
        summary: SummaryItem | None = None,
    ) -> None:
        """Keep these messages, from number `first` on, and their summary, in place of the session's others.

        Those that left the context are not read again. Does nothing if nothing is new.
        """
        before, end = self.of(pk), first + len(messages)
        if before.created_at != created_at or not before.first <= first <= before.end:
            size = _size(messages) + _size_of(summary)
        elif end < before.end or (end == before.end and summary == before.summary):
            return
        else:
            size = before.size - _size(before.messages[: first - before.first]) + _size(messages[before.end - first :])
            if summary != before.summary:
                size += _size_of(summary) - _size_of(before.summary)
        with self._lock:
            self._forget(pk)
            self._sessions[pk] = Kept(created_at, first, messages, size, summary)
            self._size += size
            while self._size > MOST_BYTES:
                self._forget(next(iter(self._sessions)))

    def _forget(self, pk: str) -> None:
        self._size -= self._sessions.pop(pk, Kept()).size
