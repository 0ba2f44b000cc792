"""Reads a session's log as it grows, for a stream over HTTP.

Nothing reports new items, so the reader asks for the frames after the last one by key: for one while nothing arrives,
for more at once while it is behind. Streamed frames are in the log before the register knows them. The reader reads the
register now and then, to see whether a turn still runs.
"""

from typing import Any

from codelab.delivery.payloads import Payloads
from codelab.delivery.post import LARGE_FIELDS
from codelab.delivery.settled_calls import with_outcomes
from codelab.protocol.outgoing import ResyncRequired
from codelab.sessions.items import Audience, EventItem
from codelab.sessions.register import Phase, Register
from codelab.sessions.store import SessionStore

#: The most frames per read.
_PAGE = 100
#: Milliseconds between two reads of the register while nothing arrives: during a turn, and otherwise.
_BUSY_MS, _IDLE_MS = 1_000, 10_000
#: Milliseconds between two checks of a reader's token.
_TOKEN_MS = 10_000


class LogReader:
    """Returns every frame after `seq` once, in order. `seq` is the last frame returned.

    is_behind: the next frame probably exists already. is_busy: a turn runs, as far as known. is_working: it waits
    neither for a human nor for a tool. is_over: all turns have ended and all their frames were returned. is_gone: the
    session was deleted, or the reader's token was revoked. issued_at: when the token was issued, in seconds; 0 without
    tokens.
    """

    def __init__(
        self, store: SessionStore, payloads: Payloads, register: Register, seq: int, issued_at: int = 0
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._register = register
        self._token_issued_at = issued_at
        self._asked_at = self._token_checked_at = 0
        self._window = 1
        self._had_turn_end = True
        self.seq = seq
        self.is_behind = True
        self._phase(register)
        self.is_over = self.is_gone = False

    def read(self, now: int) -> list[tuple[int, dict[str, Any]]]:
        """The next events as (seq, event), perhaps none. now: milliseconds. Reads the table one to four times."""
        if self._is_revoked(now):
            self.is_gone, self.is_behind = True, False
            return []
        events = self._next(self._window, now)
        if not events and now - self._asked_at >= self._patience_ms():
            events = self._ask(now)
        self.is_behind = len(events) == self._window
        self._window = min(_PAGE, 4 * self._window) if self.is_behind else 1
        if events:
            self.is_busy, self.is_working, self.is_over = True, True, False
            self._had_turn_end = any(event["type"] == "done" for _, event in events)
            self.seq = events[-1][0]
        return events

    def _is_revoked(self, now: int) -> bool:
        if not self._token_checked_at:  # it was checked just before the reader was made
            self._token_checked_at = now
        if not self._token_issued_at or now - self._token_checked_at < _TOKEN_MS:
            return False
        self._token_checked_at = now
        return self._token_issued_at <= self._store.revocations.revoked_at(self._register.user)

    def _next(self, count: int, now: int) -> list[tuple[int, dict[str, Any]]]:
        """The next frames up to the first gap: if two are written during the read, it may return only the second."""
        first_seq = self.seq + 1
        events = with_outcomes(
            self._store,
            self._payloads,
            self._store.events(self._register.pk, first_seq, first_seq + count - 1, now),
            self._register,
        )
        return [
            (event.seq, self._event_of(event)) for place, event in enumerate(events) if event.seq == first_seq + place
        ]

    def _patience_ms(self) -> int:
        if self._had_turn_end:
            return 0
        return _BUSY_MS if self.is_busy else _IDLE_MS

    def _ask(self, now: int) -> list[tuple[int, dict[str, Any]]]:
        """Read the register. Frames that it counts and the log lacks have expired."""
        register = self._store.read(self._register.pk)
        if register is None or register.erase_at:
            self.is_gone = True
            return []
        self._asked_at, self._had_turn_end = now, False
        self._phase(register)
        if register.last_seq > self.seq:
            events = self._next(1, now)
            return events or [(register.last_seq, self._lost(register.last_seq))]
        self.is_over = bool(register.turn_id) and not self.is_busy
        return []

    def _phase(self, register: Register) -> None:
        self.is_busy = register.phase is not Phase.IDLE
        self.is_working = register.phase in (Phase.DISPATCHED, Phase.RUNNING)

    def beyond(self) -> list[tuple[int, dict[str, Any]]]:
        """Move a reader that is ahead of the log to the log's end, and return the event that says so.

        Such a reader has frames of a deleted session with the same id.
        """
        end = self._store.log_end(self._register.pk, self._register.last_seq)
        if self.seq <= end:
            return []
        self.seq = end
        return [(end, self._lost(end))]

    @staticmethod
    def _lost(end: int) -> dict[str, Any]:
        return ResyncRequired(last_seq=end).wire()

    def _event_of(self, event: EventItem) -> dict[str, Any]:
        """A logged frame as an event, with the seed document's names and order."""
        frame = event.frame
        if event.audience is Audience.EXECUTOR:
            frame = {**frame, "execute": False}
        if event.payload is not None and LARGE_FIELDS.isdisjoint(frame):
            url = self._payloads.url(self._register.user, self._register.session_id, event.payload.digest)
            frame = {**frame, "payload_url": url, "payload_bytes": event.payload.bytes}
        kind = frame["type"]
        if kind == "assistant_message":
            head = {"type": "token", "content": frame["content"]}
            field_names = frame.keys() - {"type", "token", "content", "seq", "at"}
        else:
            head = {"type": "done" if kind == "turn_end" else kind}
            field_names = frame.keys() - {"type", "seq", "at"}
        time_field = {"at": frame["at"]} if "at" in frame else {}
        return {
            **head,
            **{name: frame[name] for name in frame if name in field_names},
            **time_field,
            "seq": event.seq,
        }
