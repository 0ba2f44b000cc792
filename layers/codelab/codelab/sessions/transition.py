"""What one event does to a session: everything that one transaction writes, and the effects to run after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codelab.sessions.approval_rules import ApprovalRules
from codelab.sessions.items import (
    AboutItem,
    CallItem,
    EventItem,
    FileItem,
    InputItem,
    MessageItem,
    PlanItem,
    SummaryItem,
    ToolsItem,
)
from codelab.sessions.register import Extent, Register
from codelab.sessions.spending import Counters, Slot, Spending

Item = InputItem | MessageItem | CallItem | FileItem | PlanItem | AboutItem | ToolsItem | ApprovalRules | SummaryItem


@dataclass(frozen=True, slots=True)
class Step:
    """What the asynchronous invoke of `llm_request` names, so that a duplicate is recognised."""

    turn_id: str
    step: int
    attempt: int
    extent: Extent


@dataclass(frozen=True, slots=True)
class Resend:
    """Post a logged frame once more, to one connection: a call it must know and may have missed."""

    connection_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Transition:
    """What one event does. `before` None creates the session; an unchanged register writes nothing.

    `puts`, `events` and `deletes` (sort keys) go into the transaction with the register; the rest is run after it has
    succeeded: `invoke` first, then the events are posted in order, then `resend`, then `repost` (ranges that nobody
    reported as posted), then `replies` go to one connection each: frames that are not logged; then connections are told
    why and closed (`close`), or closed without a word (`cut`). `relies_on` are rules of the user's that must not have
    changed since they were read.

    `objects` (JSON text by digest) are the large contents that items refer to. They are written before the transaction;
    if it fails they are of no account.

    `slot` is taken, kept or given back in the transaction. `spent` is told to the user's `counters` afterwards.
    """

    before: Register | None
    after: Register
    puts: tuple[Item, ...] = ()
    relies_on: ApprovalRules | None = None
    events: tuple[EventItem, ...] = ()
    deletes: tuple[str, ...] = ()
    invoke: Step | None = None
    resend: tuple[Resend, ...] = ()
    repost: tuple[tuple[int, int], ...] = ()
    close: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    replies: tuple[tuple[str, dict[str, Any]], ...] = ()
    objects: Mapping[str, str] = field(default_factory=dict)
    slot: Slot | None = None
    spent: Spending = field(default_factory=Spending)
    counters: Counters = field(default_factory=Counters)

    @property
    def writes(self) -> bool:
        if self.before is None or self.puts or self.slot or self.events or self.deletes or self.before != self.after:
            return True
        return self.before.stored_due_at != self.after.due_at()
