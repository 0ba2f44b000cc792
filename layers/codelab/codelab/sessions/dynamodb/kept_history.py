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
        size += sum(message.bytes for n, message in messages.items() if n not in known)
        size -= sum(message.bytes for n, message in known.items() if n not in messages)
        with self._lock:
            self._forget(pk)
            self._sessions[pk] = Kept(created_at, messages, size)
            self._size += size
            while self._size > MOST_BYTES:
                self._forget(next(iter(self._sessions)))

    def _forget(self, pk: str) -> None:
        self._size -= self._sessions.pop(pk, Kept()).size
