"""Puts frames in order and drops repeats. No I/O: time is a parameter (seconds, monotonic)."""

from dataclasses import dataclass, field

from codelab_client.session.events import Event

#: How long a gap may last before the client asks for the missing frames (docs/protocol.md, "Delivery").
GAP_S = 2.0
#: Frames that are kept while earlier ones are missing; more are dropped, because a replay brings them again.
MOST_AHEAD = 2_000


@dataclass
class Sequence:
    """The frames of one session: `last_seq` is the last one that was given out."""

    last_seq: int = 0
    _ahead: dict[int, Event] = field(default_factory=dict)
    _moved_at: float = 0.0

    def take(self, event: Event, now: float) -> list[Event] | None:
        """The events that are next in order, which may be none. None: the event repeats one that was given out.

        The event must have a `seq`.
        """
        assert event.seq is not None
        if event.seq <= self.last_seq:
            return None
        if not self._ahead:
            self._moved_at = now
        # A call may come again behind a gap, to execute it now. Another copy, only to show it, may come after that.
        is_better = event.seq in self._ahead and getattr(event, "execute", True)
        has_room = event.seq == self.last_seq + 1 or len(self._ahead) < MOST_AHEAD
        if is_better or (has_room and event.seq not in self._ahead):
            self._ahead[event.seq] = event
        ready = []
        while (following := self._ahead.pop(self.last_seq + 1, None)) is not None:
            self.last_seq += 1
            self._moved_at = now
            ready.append(following)
        return ready

    def has_gap(self, now: float) -> bool:
        """Whether frames have been missing for so long that they must be asked for."""
        return bool(self._ahead) and now - self._moved_at > GAP_S

    def asked(self, now: float) -> None:
        """The missing frames have been asked for."""
        self._moved_at = now

    def connected(self) -> None:
        """There is a new connection: it replays what waits, and says anew who executes which call."""
        self._ahead.clear()

    def restart(self, last_seq: int) -> None:
        """Go on after another position."""
        self.last_seq = last_seq
        self._ahead = {seq: event for seq, event in self._ahead.items() if seq > last_seq}
