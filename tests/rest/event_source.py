"""A browser's `EventSource`, as the HTML standard describes it ("Server-sent events"): strict where browsers are.

The stream is read in the pieces in which it arrives. If the connection ends, or the test cuts it, it is opened again
with the id of the last dispatched event.
"""

import codecs
import http.client
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Event:
    """A dispatched MessageEvent."""

    data: str
    last_event_id: str
    type: str = "message"


class Parser:
    """ "9.2.6 Interpreting an event stream": bytes in, events out. What is incomplete at the end is dropped."""

    def __init__(self, last_event_id: str = "") -> None:
        self.last_event_id = last_event_id
        self.retry_ms: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._is_first = True
        self._after_cr = False
        self._data: list[str] = []
        self._type = ""
        self._id = last_event_id

    def feed(self, piece: bytes) -> Iterator[Event]:
        text = self._decoder.decode(piece)
        if self._is_first and text:
            text = text.removeprefix("\ufeff")
            self._is_first = False
        for character in text:
            if self._after_cr and character == "\n":
                self._after_cr = False
                continue
            self._after_cr = character == "\r"
            if character in "\r\n":
                yield from self._end_line()
            else:
                self._line += character

    def _end_line(self) -> Iterator[Event]:
        line, self._line = self._line, ""
        if not line:
            yield from self._dispatch()
        elif not line.startswith(":"):
            name, colon, value = line.partition(":")
            self._field(name, value.removeprefix(" ") if colon else "")

    def _field(self, name: str, value: str) -> None:
        if name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)

    def _dispatch(self) -> Iterator[Event]:
        self.last_event_id = self._id
        data, kind, self._data, self._type = self._data, self._type or "message", [], ""
        if data:
            yield Event("\n".join(data), self.last_event_id, kind)


class EventSource:
    """`events()` yields events forever, over as many connections as needed. `connections` counts them.

    `cut` returns after how many bytes to drop a connection; None: never. `waits`: as long as `retry` says.
    """

    def __init__(
        self,
        url: str,
        headers: dict[str, str] | None = None,
        cut: Callable[[], int | None] = lambda: None,
        *,
        waits: bool = True,
    ) -> None:
        self._url = urlsplit(url)
        self._headers = headers or {}
        self._cut = cut
        self._waits = waits
        self.last_event_id = ""
        self.retry_ms = 3_000
        self.connections = 0

    def events(self, patience_s: float = 60) -> Iterator[Event]:
        """Raises TimeoutError after `patience_s`, and RuntimeError where a browser would give up."""
        deadline = time.monotonic() + patience_s
        while True:
            yield from self._connection(deadline)
            time.sleep(self.retry_ms / 1000 if self._waits else 0.001)

    def _connection(self, deadline: float) -> Iterator[Event]:
        self.connections += 1
        connection = http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=30)
        headers: dict[str, Any] = {"Accept": "text/event-stream", "Cache-Control": "no-store", **self._headers}
        if self.last_event_id:
            headers["Last-Event-ID"] = self.last_event_id
        try:
            target = self._url.path + (f"?{self._url.query}" if self._url.query else "")
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            if answer.status != 200 or answer.getheader("Content-Type", "").split(";")[0] != "text/event-stream":
                raise RuntimeError(f"failed: {answer.status} {answer.read()!r}")
            yield from self._read(answer, deadline)
        finally:
            connection.close()

    def _read(self, answer: http.client.HTTPResponse, deadline: float) -> Iterator[Event]:
        parser, left = Parser(self.last_event_id), self._cut()
        while left is None or left > 0:
            if time.monotonic() > deadline:
                raise TimeoutError
            try:
                piece = answer.read1(65_536 if left is None else min(left, 65_536))
            except (http.client.HTTPException, OSError):
                return
            if not piece:
                return
            left = None if left is None else left - len(piece)
            for event in parser.feed(piece):
                self.last_event_id = event.last_event_id
                yield event
            if parser.retry_ms is not None:
                self.retry_ms = parser.retry_ms
