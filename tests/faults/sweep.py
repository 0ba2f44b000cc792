"""The fault sweep: a conversation is played once undisturbed, then once for each fault of each of its calls."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.faults.fault import APPEND, INVOKE, OF_EVENTS, TRANSACTION, UPDATE, Fault, Kind, kinds_of
from tests.faults.player import Contradiction, Conversation, Player, Recovery, Seen, Snapshot, Stuck
from tests.faults.stage import Stage
from tests.faults.verdict import DOUBLED, LOST, STUCK, Complaint, Outcome, complaints


@dataclass(frozen=True, slots=True)
class Point:
    """A fault, and what follows on it."""

    fault: Fault
    recovery: Recovery


@dataclass(slots=True)
class Findings:
    """What a sweep has found. `wrong` says for each bad run what was done to it and what came of it."""

    points: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.points + other.points, self.counts + other.counts, self.wrong + other.wrong)

    def __str__(self) -> str:
        return ", ".join([f"{self.points} fault points", *(f"{self.counts[it]} {it}" for it in (LOST, DOUBLED, STUCK))])


class Sweep:
    """Of one conversation."""

    def __init__(self, stage: Stage, conversation: Conversation) -> None:
        self._stage = stage
        self.conversation = conversation
        player = Player(stage, conversation)
        self.wanted = Outcome.of(*player.play(), player.world)
        self.seen: dict[int, Seen] = player.seen
        self.snapshots: list[Snapshot] = player.snapshots

    def undisturbed(self) -> list[Complaint]:
        """What is wrong without any fault."""
        found = complaints(self.wanted)
        return found + [(LOST, f"the client was refused: {frame}") for frame in self.wanted.world.refusals]

    def points(self) -> Iterator[Point]:
        """Every fault that every call and every event can meet, with everything that may follow on it."""
        accident = self.conversation.accident
        for index, event in sorted(self.seen.items()):
            faults = [Fault(index, kind, *made) for made in event.calls for kind in kinds_of(made[0])]
            if event.folder != "connect":
                faults += [Fault(index, kind) for kind in OF_EVENTS]
            for fault in faults:
                if self.conversation.only and fault.kind not in self.conversation.only:
                    continue
                if accident is None or accident.event != index:
                    yield from (Point(fault, recovery) for recovery in _recoveries(event, fault))

    def run(self, points: Sequence[Point]) -> Findings:
        """Play the conversation once for each point."""
        findings = Findings()
        for point in points:
            hit, wrong = self.meet(point)
            findings.points += hit
            findings.counts.update({kind for kind, _ in wrong})
            findings.wrong += [self._told(point, *complaint) for complaint in wrong]
        return findings

    def meet(self, point: Point) -> tuple[bool, list[Complaint]]:
        """Play it with this fault. Was it met at all, and what is wrong in the end?"""
        fault = point.fault
        start = [snapshot for snapshot in self.snapshots if snapshot.world.events <= fault.event][-1]
        player = Player(self._stage, self.conversation, fault, point.recovery, start)
        try:
            found = Outcome.of(*player.play(), player.world)
        except Stuck as stuck:
            return player.hit, [(STUCK, str(stuck))]
        except Contradiction as contradiction:
            return player.hit, [(DOUBLED, str(contradiction))]
        exact = not fault.kind.is_death and fault.kind is not Kind.FAILS
        if fault.kind is Kind.DENIED and (self.conversation.accident is not None or self.conversation.pauses_once):
            # The writer invokes nothing and the sweep does, so there is one event more. The accident meets another, and
            # an owner that was stopped says more before another has its step.
            exact = False
        conversation = self.conversation
        return player.hit, complaints(
            found, self.wanted, loose=conversation.loose, exact=exact, side_by_side=conversation.side_by_side
        )

    def _told(self, point: Point, kind: str, what: str) -> str:
        event = self.seen[point.fault.event]
        return (
            f"{kind}: {self.conversation.name}, event {point.fault.event} ({event.folder}: {event.label}), "
            f"{point.fault}, {point.recovery}: {what}"
        )


def _recoveries(event: Seen, fault: Fault) -> list[Recovery]:
    """All that may follow on a call that writes, and on one of a step; else one in turn: they leave the same behind."""
    if fault.kind not in (Kind.KILLED_BEFORE, Kind.KILLED_AFTER, Kind.FAILS):
        return [Recovery()]
    if event.folder == "llm_request":  # whether OnFailure tells of its death or nobody does
        return [Recovery(recorded=True), Recovery(recorded=False)]
    if event.folder in ("connect", "disconnect", "sweep") or fault.kind is Kind.FAILS:
        found = [Recovery()]
    else:
        found = [Recovery(), *(Recovery(reconnects=True, disconnect_ms=after) for after in (100, 5_000, None))]
    if fault.operation in (TRANSACTION, APPEND, UPDATE, INVOKE):
        return found
    return [found[(fault.event + fault.nth) % len(found)]]
