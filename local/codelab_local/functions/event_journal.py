"""The asynchronous events that Lambda has accepted, in a file: `STATE_DIR` loses none when everything is killed.

Each line is `{"accepted": id, "function": name, "payload": text}`, `{"started": id}` or `{"ended": id}`.
"""

import errno
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: The file begins again when it is larger and no event is unfinished.
_LARGE = 1024 * 1024


@dataclass(slots=True)
class Event:
    """One accepted event. `started` means that a worker had it when everything ended."""

    request_id: str
    function: str
    payload: bytes
    started: bool = False


class EventJournal:
    """The journal in `path`. `unfinished` are the events by their request ids, at first those of the last run."""

    def __init__(self, path: Path) -> None:
        self.unfinished: dict[str, Event] = {}
        if path.exists():
            self._read(path)
        new_path = path.with_suffix(".new")
        self._file = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._size = 0
        for event in self.unfinished.values():
            self._write_event(event)
            if event.started:
                self._write({"started": event.request_id})
        new_path.replace(path)

    def accepted(self, request_id: str, function: str, payload: bytes) -> None:
        """Write the event down before it is accepted. Raises :class:`OSError`."""
        event = Event(request_id, function, payload)
        self._write_event(event)
        self.unfinished[request_id] = event

    def started(self, request_id: str) -> None:
        self._try_to_write({"started": request_id})

    def ended(self, request_id: str) -> None:
        self.unfinished.pop(request_id, None)
        self._try_to_write({"ended": request_id})
        if not self.unfinished and self._size > _LARGE:
            os.ftruncate(self._file, 0)
            self._size = 0

    def _write_event(self, event: Event) -> None:
        payload = event.payload.decode("utf-8", "surrogateescape")
        self._write({"accepted": event.request_id, "function": event.function, "payload": payload})

    def _try_to_write(self, line: dict[str, str]) -> None:
        """On a full disk the event may run again after the next start, as Lambda may run any event twice."""
        with suppress(OSError):
            self._write(line)

    def _write(self, line: dict[str, str]) -> None:
        # The line break before it ends a line that could only be written in part.
        data = b"\n" + json.dumps(line, separators=(",", ":")).encode() + b"\n"
        byte_count = os.write(self._file, data)
        self._size += byte_count
        if byte_count != len(data):
            raise OSError(errno.ENOSPC, "the events in STATE_DIR cannot be written")

    def _read(self, path: Path) -> None:
        for text in path.read_bytes().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # It was killed in the middle of it.
            if "accepted" in line:
                payload = line["payload"].encode("utf-8", "surrogateescape")
                event = Event(line["accepted"], line["function"], payload)
                self.unfinished[event.request_id] = event
            elif "ended" in line:
                self.unfinished.pop(line["ended"], None)
            elif line.get("started") in self.unfinished:
                self.unfinished[line["started"]].started = True
