"""The messages that a process has read of its last sessions, so that it reads only newer ones.

A message is written once and never changed. A session that was deleted and begun again under its id was created at
another time; its messages are not those kept here.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from codelab.sessions.items import MessageItem

#: The bytes of all messages that are kept; those of the session that was read longest ago go first.
MOST_BYTES = 4_000_000
#: What a message takes beside its text and its JSON, which it keeps too.
_OBJECTS = 850


def _size(message: MessageItem) -> int:
    return 2 * message.bytes + _OBJECTS


class Kept(NamedTuple):
    """The messages of the session that was created at this time (ms), by number."""

    created_at: int = 0
    messages: Mapping[int, MessageItem] = MappingProxyType({})
    size: int = 0


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

    def keep(self, pk: str, created_at: int, messages: Mapping[int, MessageItem]) -> None:
        """Keep these messages in place of the session's others: those that left the context are not read again."""
        before = self.of(pk)
        known = before.messages if before.created_at == created_at else {}
        if known.keys() == messages.keys():
            return
        size = before.size if known else 0
        size += sum(_size(messages[n]) for n in messages.keys() - known.keys())
        size -= sum(_size(known[n]) for n in known.keys() - messages.keys())
        with self._lock:
            self._forget(pk)
            self._sessions[pk] = Kept(created_at, messages, size)
            self._size += size
            while self._size > MOST_BYTES:
                self._forget(next(iter(self._sessions)))

    def _forget(self, pk: str) -> None:
        self._size -= self._sessions.pop(pk, Kept()).size
