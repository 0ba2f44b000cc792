"""A client that follows the delivery rules: it reconnects when its connection breaks, and misses nothing."""

import json
import time
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.fakes.ide.ide import Ide
from tests.waiting import PATIENCE

#: What a `call_update` does not tell the connection that has sent it.
OF_OTHERS = frozenset({"decision", "feedback", "arguments", "result", "error", "payload_url", "payload_bytes"})


class Follower:
    """`frames` has each logged frame once, in the order of `seq`; `unnumbered` are replies to this connection."""

    def __init__(self, url: str, **options: Any) -> None:
        self._url, self._options = url, options
        self.frames: list[dict[str, Any]] = []
        self.unnumbered: list[dict[str, Any]] = []
        self.seen: dict[int, str] = {}
        self.reconnects = 0
        self._ahead: dict[int, dict[str, Any]] = {}
        self._grown_at = time.monotonic()
        self._ide = Ide(url, **options)

    @property
    def last_seq(self) -> int:
        return len(self.frames)

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
        self._ahead.clear()
        self._ide = Ide(self._url, **self._options)
        self._ide.send("resume", last_seq=self.last_seq)

    def receive(self, patience: float = 2.0) -> None:
        """Receive one frame. Resume if the next one is missing for longer than `patience`.

        Raises AssertionError if nothing new comes for much longer.
        """
        try:
            frame = self._ide.receive(patience)
        except TimeoutError:
            assert time.monotonic() - self._grown_at < 4 * PATIENCE, f"frame {self.last_seq + 1} does not come"
            self._ide.send("resume", last_seq=self.last_seq)
            return
        except (ConnectionClosed, InvalidStatus, OSError):
            self.come_back()
            return
        seq = frame.get("seq")
        if seq is None:
            self.unnumbered.append(frame)
            return
        # Who executes a call may have changed since. What became of it is told to the sender's next connection.
        changes = OF_OTHERS if frame["type"] == "call_update" else {"execute"}
        text = json.dumps({name: value for name, value in frame.items() if name not in changes}, sort_keys=True)
        assert self.seen.setdefault(seq, text) == text, f"frame {seq} differs from its replay"
        self._ahead[seq] = frame
        while (following := self._ahead.pop(self.last_seq + 1, None)) is not None:
            self.frames.append(following)
            self._grown_at = time.monotonic()

    def count(self, frame_type: str) -> int:
        return sum(frame["type"] == frame_type for frame in self.frames)

    def read_to(self, frame_type: str, count: int = 1, patience: float = 2.0) -> None:
        """Read until so many frames of this type have come."""
        while self.count(frame_type) < count:
            self.receive(patience)

    def close(self) -> None:
        self._ide.socket.close()
