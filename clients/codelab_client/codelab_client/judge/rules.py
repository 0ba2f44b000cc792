"""The rules that a client keeps, with their sources, and what a judgement says about each."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Characters of a frame that the report shows.
_SHOWN = 300


@dataclass(frozen=True)
class Rule:
    """sentence: what a client does. source: the place in the documents that says so."""

    sentence: str
    source: str


_CALLS, _DELIVERY = "docs/protocol.md#calls", "docs/protocol.md#delivery"
_EDIT = "docs/protocol.md#a-call-that-the-user-edits"
_ENDS = f"{_DELIVERY} (the connection ends with)"
RULES: dict[str, Rule] = {
    "valid-frames": Rule("sends only frames that match docs/schemas/frames.json", "docs/protocol.md#frames"),
    "size-limits": Rule("keeps to 32 KB per WebSocket frame, 128 KB per message", "docs/protocol.md#large-frames"),
    "pings": Rule("sends a ping only after a long silence", "docs/protocol.md#connecting"),
    "call-ids": Rule("answers with the call_id of a call that it got", f"{_CALLS} (websocket-protocol: correlation)"),
    "executes": Rule("executes a call with requires_approval: false, and answers", f"{_CALLS}, 1"),
    "executes-once": Rule("executes a call once, also if it comes again", f"{_CALLS}, 1"),
    "leaves-others-calls": Rule("leaves a call with execute: false to its executor", f"{_CALLS}, 1"),
    "leaves-settled-calls": Rule("executes of the replayed calls only those that resumed lists", _DELIVERY),
    "waits-for-approval": Rule("executes nothing before the user has decided", f"{_CALLS}, 2"),
    "obeys-rejection": Rule("does not execute what the user has rejected", f"{_CALLS}, 2"),
    "executes-the-edit": Rule("executes edited arguments as they come back", _EDIT),
    "repeats-result": Rule("sends a result again that may be lost with its connection", _DELIVERY),
    "resumes": Rule("resumes with the last seq that it has", _DELIVERY),
    "drops-repeats": Rule("shows a repeated frame once", _DELIVERY),
    "no-storm": Rule("tries no more than five connections within a second", _DELIVERY),
    "jitter": Rule("waits a random time before it reconnects", _DELIVERY),
    "silent-when-throttled": Rule("sends nothing for half a second after Too Many Requests", _DELIVERY),
    "resumes-when-throttled": Rule("then sends resume, and nothing else before resumed", _DELIVERY),
    "repeats-refused": Rule("then repeats what was refused, with its client_msg_id", _DELIVERY),
    "ignores-unknown": Rule("ignores frames and fields that it does not know", "docs/protocol.md#versions"),
    "obeys-resync": Rule("continues from the last_seq of resync_required", _DELIVERY),
    "expired-token": Rule("does not repeat a frame without a new token", "docs/protocol.md#the-token-expires"),
    "retry-after": Rule("reconnects after the seconds in Retry-After", _ENDS),
    "final-close": Rule("does not reconnect after the close code 1000", _ENDS),
    "final-401": Rule("does not reconnect after HTTP 401 with the same token", _ENDS),
}  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """What one observation says about a rule. frame: the frame that broke it, if one did."""

    rule: str
    is_held: bool
    reason: str = ""
    frame: Mapping[str, Any] | str | None = None


@dataclass
class Report:
    """All judgements on one client, or on one server. gaps: scenarios that could not be played, and why."""

    rules: Mapping[str, Rule] = field(default_factory=lambda: RULES)
    judgements: list[Judgement] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    def note(self, rule: str, is_held: bool, reason: str, frame: Mapping[str, Any] | str | None = None) -> None:
        """Judge a rule; `reason` says what is wrong, and counts only if the rule is broken."""
        self.judgements.append(Judgement(rule, True) if is_held else Judgement(rule, False, reason, frame))

    @property
    def complaints(self) -> dict[str, Judgement]:
        """The first judgement against each broken rule."""
        violations: dict[str, Judgement] = {}
        for judgement in self.judgements:
            if not judgement.is_held:
                violations.setdefault(judgement.rule, judgement)
        return violations

    @property
    def kept_rules(self) -> set[str]:
        """The rules that were observed and never broken."""
        return {judgement.rule for judgement in self.judgements} - self.complaints.keys()

    def text(self) -> str:
        """One line per rule; below a broken one, why, the frame and the source."""
        lines, complaints, kept_rules = [], self.complaints, self.kept_rules
        for name, rule in self.rules.items():
            verdict = "BROKEN" if name in complaints else "held" if name in kept_rules else "not seen"
            lines.append(f"{verdict:9} {name}: {rule.sentence}")
            if (complaint := complaints.get(name)) is not None:
                lines.append(f"          {complaint.reason}")
                if complaint.frame is not None:
                    frame_text = complaint.frame if isinstance(complaint.frame, str) else json.dumps(complaint.frame)
                    lines.append(f"          {frame_text[:_SHOWN]}")
                lines.append(f"          {rule.source}")
        lines += [f"skipped   {scenario}" for scenario in self.gaps]
        missing_count = len(self.rules) - len(complaints) - len(kept_rules)
        lines.append(f"{len(kept_rules)} rules held, {len(complaints)} broken, {missing_count} not seen")
        return "\n".join(lines)
