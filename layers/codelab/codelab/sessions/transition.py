"""What one event does to a session: the writes of one transaction, and the effects after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codelab.sessions.approval_rules import ApprovalRules
from codelab.sessions.items import (
    AboutItem,
    CallItem,
    Content,
    EventItem,
    FileItem,
    InputItem,
    InstructionsItem,
    MessageItem,
    PlanItem,
    SummaryItem,
    ToolsItem,
)
from codelab.sessions.kept_reasoning import ReasoningItem
from codelab.sessions.register import Extent, Register
from codelab.sessions.spending import NOTHING, UNUSED, Counters, Slot, Spending

Item = (
    InputItem
    | MessageItem
    | CallItem
    | FileItem
    | PlanItem
    | AboutItem
    | ToolsItem
    | InstructionsItem
    | ApprovalRules
    | SummaryItem
    | ReasoningItem
)


@dataclass(frozen=True, slots=True)
class Step:
    """Identifies a step in the asynchronous invoke of `llm_request`, so that a duplicate is recognised."""

    turn_id: str
    step: int
    attempt: int
    extent: Extent
    #: The first and the last of the logged frames that the step's invocation must read and post; none: (0, -1).
    announced_seqs: tuple[int, int] = (0, -1)
    #: It stands for no step, but for a compaction that a client asked for.
    compacts: bool = False


@dataclass(frozen=True, slots=True)
class Resend:
    """Post a logged frame again to one connection: a call that it may have missed."""

    connection_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Transition:
    """What one event does. `before` None creates the session; an unchanged register writes nothing.

    The transaction writes the register, `puts`, `events`, `deletes` (sort keys) and `slot`, which it takes, keeps or
    releases. `relies_on` are the user's rules, which must not have changed since they were read. `takes_over`: nobody
    may have extended the lease since the register was read. `objects` (JSON text by digest) are the large contents that
    items refer to. They are written before the transaction, and are unused if it fails.

    If a step is dispatched, the last events announce it: the messages that it is the first to answer, the calls that
    were settled for it, and its status.
    So many of the events, `announces`, are logged here and not posted. They are the `announcements` of the transition
    that acquires the step, or of one before that logs frames, and are posted before that one's events.

    The effects run after it, in this order: `invoke`; posting the events; `resend`; `repost` (ranges not reported as
    posted); `replies`, which are frames that are not logged, to one connection each, with URLs for those arguments of
    open calls that are too large for them (`reply_payloads`, by `call_id`); closing connections with an error (`close`)
    or without a frame (`cut_connections`). `spending` is added to the user's `counters`.

    `family` are the transitions of the session's parent and children, if the event concerns them. They are written in
    the same transaction, and their effects run after this one's.
    """

    before: Register | None
    after: Register
    puts: tuple[Item, ...] = ()
    relies_on: ApprovalRules | None = None
    events: tuple[EventItem, ...] = ()
    announces: int = 0
    announcements: tuple[EventItem, ...] = ()
    deletes: tuple[str, ...] = ()
    invoke: Step | None = None
    resend: tuple[Resend, ...] = ()
    repost: tuple[tuple[int, int], ...] = ()
    close: tuple[str, ...] = ()
    cut_connections: tuple[str, ...] = ()
    replies: tuple[tuple[str, dict[str, Any]], ...] = ()
    reply_payloads: Mapping[str, Content] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict)
    slot: Slot | None = None
    takes_over: bool = False
    spending: Spending = NOTHING
    counters: Counters = UNUSED
    family: tuple["Transition", ...] = ()

    @property
    def posts(self) -> list[tuple[EventItem, ...]]:
        """The logged frames to post, in order. The first of each tuple has the seq of their entry in the outbox."""
        events = self.events[: len(self.events) - self.announces]
        return [frames for frames in (self.announcements, events) if frames]

    @property
    def turn_end(self) -> Mapping[str, Any] | None:
        """The `turn_end` frame, if a turn has ended."""
        return next((event.frame for event in self.events if event.frame["type"] == "turn_end"), None)

    @property
    def starts_something(self) -> bool:
        """Whether it has effects that are lost until the sweep if its writer does not learn that it was written."""
        return bool(self.invoke or self.resend or self.repost or self.close or self.cut_connections or self.family)

    @property
    def writes(self) -> bool:
        """Whether there is anything to commit; if not, only the effects run."""
        if self.before is None or self.puts or self.slot or self.events or self.deletes or self.before != self.after:
            return True
        if self.family:
            return True
        return self.before.stored_due_at != self.after.due_at()
