"""Stops what another thread does on a connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


class Cancellation:
    """A switch that stops a call from any thread. It interrupts a blocked read at once."""

    __slots__ = ("_event", "_interrupts", "_lock", "cancelled")

    def __init__(self) -> None:
        self.cancelled = False
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._interrupts: set[Callable[[], None]] = set()

    def cancel(self) -> None:
        """Stop the call. Idempotent; never blocks, never raises."""
        self.cancelled = True
        self._event.set()
        with self._lock:
            interrupts = list(self._interrupts)
        for interrupt in interrupts:
            interrupt()

    def wait(self, seconds: float) -> bool:
        """Sleep for `seconds`; return True early if cancelled."""
        return self._event.wait(seconds)

    def attach(self, interrupt: Callable[[], None]) -> None:
        """Call `interrupt` on cancellation, or at once if the call is already cancelled."""
        with self._lock:
            self._interrupts.add(interrupt)
        if self.cancelled:
            interrupt()

    def detach(self, interrupt: Callable[[], None]) -> None:
        with self._lock:
            self._interrupts.discard(interrupt)

    @contextlib.contextmanager
    def interrupting(self, connection: socket.socket) -> Iterator[None]:
        """Inside the block, a cancellation ends what is done on the connection with an OSError."""

        def interrupt() -> None:
            shut_down(connection)

        self.attach(interrupt)
        try:
            yield
        finally:
            self.detach(interrupt)


def shut_down(connection: socket.socket) -> None:
    """Wake a thread that is blocked in a read of the connection, which closing it does not."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # The TCP socket's, beneath TLS.
