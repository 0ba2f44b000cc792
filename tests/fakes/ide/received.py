"""What a client has received of a session: the rules of delivery, without a socket."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codelab.protocol.outgoing import CallUpdate

Frame = dict[str, Any]


class Contradiction(Exception):
    """The client was sent two different frames under one seq."""


@dataclass(slots=True)
class Received:
    """`frames` are the frames with a seq, in order and each once; `replies` those without one.

    A frame whose seq it has is dropped, one above the next expected is held. A call that comes again is looked at
    again, for it may now be this client's to execute; the call's id says whether it has been. Calls that are replayed
    are executed only if `resumed` lists them as open.
    """

    frames: list[Frame] = field(default_factory=list)
    held: dict[int, Frame] = field(default_factory=dict)
    replies: list[Frame] = field(default_factory=list)
    resuming: bool = False
    end: int = 0
    _replayed: list[Frame] = field(default_factory=list)

    @property
    def last_seq(self) -> int:
        return len(self.frames)

    @property
    def is_behind(self) -> bool:
        """Is there a gap, an end that it has not reached, or a replay that has not come to its end?"""
        return bool(self.held) or self.last_seq < self.end or self.resuming

    def take(self, frame: Frame) -> list[Frame]:
        """The frames that may be acted upon now. Raises Contradiction."""
        if "seq" not in frame:
            self.replies.append(frame)
            return self._resumed(frame) if frame["type"] == "resumed" else []
        seq = frame["seq"]
        known = self.frames[seq - 1] if seq <= self.last_seq else self.held.get(seq)
        if known is not None:
            if bare(known) != bare(frame):
                raise Contradiction(f"seq {seq} was {known}, then {frame}")
            return [frame] if frame["type"] == "tool_call" and seq <= self.last_seq else []
        self.held[seq] = frame
        new = []
        while self.last_seq + 1 in self.held:
            self.frames.append(self.held.pop(self.last_seq + 1))
            new.append(self.frames[-1])
        if self.resuming:
            self._replayed += [found for found in new if found["type"] == "tool_call"]
            return [found for found in new if found["type"] != "tool_call"]
        return new

    def _resumed(self, frame: Frame) -> list[Frame]:
        self.resuming = False
        self.end = frame["last_seq"]
        replayed, self._replayed = self._replayed, []
        states = {call["call_id"]: call["state"] for call in frame["open_calls"]}
        return [
            call
            for call in replayed
            if states.get(call["call_id"]) == ("awaiting_approval" if call["requires_approval"] else "executing")
        ]


def messages(frames: Sequence[Frame]) -> dict[str, str]:
    """The texts that the user reads in the end, by message: without those that were discarded."""
    discarded = {frame["message_id"] for frame in frames if frame["type"] == "message_discarded"}
    texts: dict[str, str] = {}
    for frame in frames:
        if frame["type"] == "assistant_message" and frame["message_id"] not in discarded:
            texts[frame["message_id"]] = texts.get(frame["message_id"], "") + frame["token"]
    return texts


def bare(frame: Frame) -> Frame:
    """A frame without what differs between connections."""
    hidden = {"execute", "args", "payload_url", "payload_bytes"}
    if frame["type"] == "call_update":  # the log has only the state, and so has whoever settled the call
        hidden |= CallUpdate.of_the_call
    return {name: value for name, value in frame.items() if name not in hidden}
