"""A client that follows the rules of delivery: it reconnects when its connection breaks, and misses nothing."""

import time
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.fakes.ide.ide import Ide
from tests.fakes.ide.received import Received
from tests.waiting import PATIENCE


class Follower(Received):
    """A connection to one session, at `url`, after each break another one."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__()
        self._url, self._options = url, options
        self.reconnects = 0
        self._grown_at = time.monotonic()
        self._ide = Ide(url, **options)

    def send(self, frame_type: str, **fields: Any) -> None:
        self._ide.send(frame_type, **fields)

    def drop(self, *, clean: bool) -> None:
        """Lose the connection, cleanly or not, and reconnect."""
        if clean:
            self._ide.socket.close()
        else:
            self._ide.socket.socket.close()
        self.come_back()

    def come_back(self) -> None:
        self.reconnects += 1
        self.held.clear()
        self._ide = Ide(self._url, **self._options)
        self._ide.send("resume", last_seq=self.last_seq)

    def receive(self, patience: float = 2.0) -> None:
        """Receive one frame. Resume if the next one is missing for longer than `patience`.

        Raises AssertionError if nothing new comes for much longer.
        """
        before = self.last_seq
        try:
            self.take(self._ide.receive(patience))
        except TimeoutError:
            assert time.monotonic() - self._grown_at < 4 * PATIENCE, f"frame {self.last_seq + 1} does not come"
            self._ide.send("resume", last_seq=self.last_seq)
        except (ConnectionClosed, InvalidStatus, OSError):
            self.come_back()
        if self.last_seq > before:
            self._grown_at = time.monotonic()

    def count(self, frame_type: str) -> int:
        return sum(frame["type"] == frame_type for frame in self.frames)

    def read_to(self, frame_type: str, count: int = 1, patience: float = 2.0) -> None:
        """Read until so many frames of this type have come."""
        while self.count(frame_type) < count:
            self.receive(patience)

    def close(self) -> None:
        self._ide.socket.close()
