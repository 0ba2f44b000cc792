"""A transition in the making: the next register and everything that its one transaction writes beside it."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codelab.config import Settings
from codelab.protocol import limits
from codelab.protocol.outgoing import AgentStatus, PayloadFrame, ServerFrame, Status
from codelab.sessions import keys, slots
from codelab.sessions.approval_rules import ApprovalRules
from codelab.sessions.items import (
    Audience,
    CallItem,
    CallRequest,
    Content,
    EventItem,
    MessageItem,
    Reference,
    dumps,
    refer,
)
from codelab.sessions.register import OutboxEntry, Phase, Register
from codelab.sessions.spending import Counters, Spending
from codelab.sessions.transition import Item, Resend, Step, Transition
from codelab.turns.text import message_tokens, within_bytes

#: Ranges of frames not yet reported as posted that the register keeps apart; older ones are merged.
_OUTBOX_ENTRIES = 8


class NeedsItems(Exception):
    """The decision depends on items that were not read yet: read them and ask again."""

    def __init__(self, wanted: list[str]) -> None:
        super().__init__(wanted)
        self.keys = wanted


class NeedsObject(Exception):
    """The decision depends on a large content that was not read yet: read it and ask again."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


class NeedsLog(Exception):
    """The decision depends on what the running step has streamed: read the log and ask again."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a decision may depend on beside the register and the event. Nothing in it does I/O."""

    now: int
    settings: Settings
    new_id: Callable[[], str]
    #: An id of the event, the same however often it is decided about: a try that lost a race may have been written.
    event_id: str = ""
    #: Items of the session that were read, by sort key; None for one that does not exist.
    items: Mapping[str, dict[str, Any] | None] = field(default_factory=dict)
    #: Those of them that were read after the register.
    fresh: frozenset[str] = frozenset()
    #: The frames behind the register's `message_seq`, if they were read.
    log: Sequence[EventItem] | None = None
    #: Contents of the session that were read: JSON text by digest.
    objects: Mapping[str, str] = field(default_factory=dict)
    #: Tokens of slots that were found to be another's.
    lost: frozenset[str] = frozenset()


@dataclass(slots=True)
class Draft:
    """Collects a Transition. `register` is the draft's own copy."""

    before: Register | None
    register: Register
    inputs: Inputs
    now: int
    settings: Settings
    puts: list[Item] = field(default_factory=list)
    events: list[EventItem] = field(default_factory=list)
    deletes: list[str] = field(default_factory=list)
    invoke: Step | None = None
    resend: list[Resend] = field(default_factory=list)
    repost: list[tuple[int, int]] = field(default_factory=list)
    close: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    replies: list[tuple[str, ServerFrame]] = field(default_factory=list)
    objects: dict[str, str] = field(default_factory=dict)
    relies_on: ApprovalRules | None = None
    #: What the event spends, and what its user had spent before.
    spent: Spending = field(default_factory=Spending)
    counters: Counters = field(default_factory=Counters)

    @classmethod
    def new(cls, user: str, session_id: str, inputs: Inputs) -> "Draft":
        """The draft that creates a session."""
        now, agent = inputs.now, inputs.settings.default_agent
        register = Register(user, session_id, created_at=now, last_activity=now, agent=agent)
        return cls(None, register, inputs, now, inputs.settings)

    @classmethod
    def of(cls, register: Register, inputs: Inputs) -> "Draft":
        return cls(register, register.copy(), inputs, inputs.now, inputs.settings)

    def need(self, wanted: Iterable[str]) -> None:
        """Raise NeedsItems unless all of these were read: one round trip for all of them."""
        missing = [key for key in wanted if key not in self.inputs.items]
        if missing:
            raise NeedsItems(missing)

    def item(self, key: str) -> dict[str, Any] | None:
        """An item of the session as it was read, None if it does not exist. Raises NeedsItems if it was not read."""
        self.need([key])
        return self.inputs.items[key]

    def streamed(self) -> str:
        """The text that the running or dead step has streamed. Raises NeedsLog if the log was not read."""
        if self.inputs.log is None:
            raise NeedsLog
        frames = [event.frame for event in self.inputs.log]
        if self.inputs.log:
            self.register.last_seq = max(self.register.last_seq, self.inputs.log[-1].seq)
        return "".join(
            frame["token"]
            for frame in frames
            if frame["type"] == "assistant_message" and frame["message_id"] == self.register.message_id
        )

    def call(self, call_id: str) -> CallItem | None:
        found = self.item(keys.call_key(call_id))
        return CallItem.of(found) if found else None

    def put(self, item: Item) -> None:
        """Have `item` written; it takes the place of one with its key that this transition has put before."""
        self.puts[:] = [found for found in self.puts if found.key() != item.key()]
        self.puts.append(item)

    def value(self, content: Content) -> dict[str, Any]:
        """The content itself. Raises NeedsObject if it is an object that was not read."""
        if not isinstance(content, Reference):
            return content
        if content.digest not in self.inputs.objects:
            raise NeedsObject(content.digest)
        found: dict[str, Any] = json.loads(self.inputs.objects[content.digest])
        return found

    def emit(self, frame: ServerFrame, audience: Audience | None = None, payload: Reference | None = None) -> int:
        """Log `frame` with the next seq and have it posted. Returns the seq.

        `payload` is where the frame's large field is known to be. A field that makes the frame too large to be posted
        is not logged with it: whoever posts it makes a URL for it.
        """
        register = self.register
        register.last_seq += 1
        frame.seq = register.last_seq
        if audience is None:
            audience = Audience.EXTENSIONS if frame.extension else Audience.ALL
        ttl = self.now // 1000 + self.settings.event_retention_s
        wire = frame.wire()
        if isinstance(frame, PayloadFrame):
            payload = payload or refer(wire.get(frame.payload_field), self.objects)
            if payload is not None and len(dumps(wire).encode()) > limits.INLINE_FRAME_BYTES:
                wire.pop(frame.payload_field)
        self.events.append(EventItem(register.last_seq, wire, audience, ttl, payload=payload))
        return register.last_seq

    def set_status(self, status: Status, message: str, *, is_news: bool = False) -> None:
        """Tell the clients, if it is news."""
        if is_news or self.register.status is not status:
            self.register.status = status
            self.emit(AgentStatus(status=status, message=message))

    def append_message(
        self,
        role: str,
        content: str,
        *,
        call_id: str = "",
        message_id: str = "",
        calls: tuple[CallRequest, ...] = (),
        whole: int = 0,
    ) -> None:
        """Add to the history."""
        register = self.register
        register.history_n += 1
        content = within_bytes(content, limits.MESSAGE_BYTES)
        tokens = message_tokens(content, calls, most=self.settings.max_context_tokens // 2)
        register.history_tokens += tokens
        self.puts.append(
            MessageItem(
                n=register.history_n,
                role=role,
                content=content,
                tokens=tokens,
                at=self.now,
                turn_id=register.turn_id,
                calls=calls,
                call_id=call_id,
                message_id=message_id,
                whole=whole,
            )
        )

    def dispatch_step(self, step: int) -> None:
        """Have the model called: the step is invoked after the commit and acquired by whoever runs it."""
        register = self.register
        register.phase = Phase.DISPATCHED
        register.step = step
        register.attempt = 0
        register.dispatched_at = self.now
        register.message_id = ""
        register.calls = {}
        self.invoke_step()
        register.release()

    def invoke_step(self) -> None:
        register = self.register
        self.invoke = Step(register.turn_id, register.step, register.attempt, register.extent)

    def finish(self) -> Transition:
        register = self.register
        if self.resend:
            seqs = [resend.seq for resend in self.resend]
            entry = register.outbox.setdefault(min(seqs), OutboxEntry(last=max(seqs), at=self.now))
            entry.last = max(entry.last, *seqs)
        if self.events:
            register.outbox[self.events[0].seq] = OutboxEntry(last=self.events[-1].seq, at=self.now)
        while len(register.outbox) > _OUTBOX_ENTRIES:
            # Under a key that no writer reports: each would report its own frames alone.
            oldest, second = sorted(register.outbox, key=abs)[:2]
            one, other = register.outbox.pop(oldest), register.outbox.pop(second)
            register.outbox[-abs(oldest)] = OutboxEntry(last=max(one.last, other.last), at=min(one.at, other.at))
        puts = tuple(put.referring(self.objects) if isinstance(put, CallItem) else put for put in self.puts)
        replies = tuple((connection_id, frame.wire()) for connection_id, frame in self.replies)
        has_slot = register.slot or (self.before is not None and self.before.slot)
        slot = slots.change(self.before, register, self.now, self.inputs.lost) if has_slot else None
        return Transition(
            before=self.before,
            after=register,
            puts=puts,
            relies_on=self.relies_on,
            events=tuple(self.events),
            deletes=tuple(self.deletes),
            invoke=self.invoke,
            resend=tuple(self.resend),
            repost=tuple(self.repost),
            close=tuple(self.close),
            cut=tuple(self.cut),
            replies=replies,
            objects=self.objects,
            slot=slot,
            spent=self.spent,
            counters=self.counters,
        )
