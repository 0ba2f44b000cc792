"""Idle connections to one host."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

#: The most connections that are kept.
_MAX_IDLE = 16


class Pool:
    """Idle connections to one host. Used by several threads; after a fork, each process has its own.

    kept_s: seconds after which an idle connection is not used again. clock: the wall clock in seconds; the monotonic
    one may stand still while Lambda freezes the process.
    """

    def __init__(self, kept_s: float, clock: Callable[[], float]) -> None:
        self._kept_s = kept_s
        self._clock = clock
        #: The connections with the time of their last use; the one used last is at the end.
        self._idle: list[tuple[socket.socket, float]] = []
        self._process = os.getpid()

    def take(self) -> socket.socket | None:
        """A connection that is fresh and open, and on which nothing has arrived."""
        if self._process != os.getpid():  # The others are the parent's.
            self._idle, self._process = [], os.getpid()
        while True:
            try:
                connection, used_at = self._idle.pop()
            except IndexError:
                return None
            # What can be read from an idle connection is its end, or what nobody asked for.
            if 0 <= self._clock() - used_at <= self._kept_s and not _is_readable(connection):
                return connection
            connection.close()

    def keep(self, connection: socket.socket) -> None:
        """Keep a connection whose last answer was read to its end, or close it if there are enough."""
        if len(self._idle) < _MAX_IDLE:
            self._idle.append((connection, self._clock()))
        else:
            connection.close()

    def close(self) -> None:
        """Close all."""
        while self._idle:
            self._idle.pop()[0].close()


def _is_readable(connection: socket.socket) -> bool:
    timeout = connection.gettimeout()
    connection.settimeout(0)
    try:
        socket.socket.recv(connection, 1, socket.MSG_PEEK)  # Beneath TLS, which has no such look ahead.
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(timeout)
    return True
