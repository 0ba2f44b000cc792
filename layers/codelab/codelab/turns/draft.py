"""The draft of a transition: the next register, and everything that is written with it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from codelab.config import Settings
from codelab.protocol import limits
from codelab.protocol.errors import ProtocolError
from codelab.protocol.outgoing import Acknowledged, AgentStatus, PayloadFrame, ServerFrame, Status
from codelab.sessions import keys, slots
from codelab.sessions.approval_rules import ApprovalRules
from codelab.sessions.items import (
    Attached,
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
from codelab.sessions.spending import NOTHING, UNUSED, Counters, Spending
from codelab.sessions.transition import Item, Resend, Step, Transition
from codelab.turns import models
from codelab.turns.text import attached_tokens, message_tokens, within_bytes

#: The most outbox entries in the register; older ones are merged.
_OUTBOX_ENTRIES = 8
#: The frames that are posted with the status of the step that follows them.
_ANNOUNCED_TYPES = frozenset({"user_message", "call_update"})


class NeedsItems(Exception):
    """The decision needs items of a session that were not read: read them and decide again."""

    def __init__(self, item_keys: list[str], session_id: str) -> None:
        super().__init__(item_keys)
        self.keys = item_keys
        self.session_id = session_id


class NeedsObject(Exception):
    """The decision needs a large content of a session that was not read: read it and decide again."""

    def __init__(self, digest: str, session_id: str) -> None:
        super().__init__(digest)
        self.digest = digest
        self.session_id = session_id


class NeedsLog(Exception):
    """The decision needs what the session's step has streamed: read the log and decide again."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id


class NeedsSession(Exception):
    """The decision needs the session's parent or one of its children: read its register and decide again."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a decision may depend on besides the register and the event. Nothing in it does I/O. `now` is in ms."""

    now: int
    settings: Settings
    new_id: Callable[[], str]
    #: An id of the event, the same for every try, because a try that seemed to lose a race may have been written.
    event_id: str = ""
    #: The items that were read, by sort key; None for one that does not exist.
    items: Mapping[str, dict[str, Any] | None] = field(default_factory=dict)
    #: The sort keys of items that were read after the register.
    fresh_keys: frozenset[str] = frozenset()
    #: The frames after the register's `message_seq`, if they were read.
    log: Sequence[EventItem] | None = None
    #: The contents that were read: JSON text by digest.
    objects: Mapping[str, str] = field(default_factory=dict)
    #: Tokens of slots that another session has taken.
    lost_slots: frozenset[str] = frozenset()


class Outcome(NamedTuple):
    """The result of the event for its sender: the fields of `ack`."""

    outcome: Acknowledged = "accepted"
    turn_id: str | None = None
    client_msg_id: str | None = None


#: Why a turn has ended.
Reason = Literal["completed", "cancelled", "max_steps", "refused", "budget", "error"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child's turn has ended: with its last text, with the error if there was one, and with its result.

    result: the object that it was asked for; None if it was asked for a text, or has not come so far.
    """

    reason: Reason
    text: str
    error: ProtocolError | None
    result: dict[str, Any] | None = None


@dataclass(slots=True)
class Draft:
    """Collects a Transition. `before` is the register as read (None: new), `register` the draft's own copy."""

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
    cut_connections: list[str] = field(default_factory=list)
    replies: list[tuple[str, ServerFrame]] = field(default_factory=list)
    reply_payloads: dict[str, Content] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=Outcome)
    relies_on: ApprovalRules | None = None
    takes_over: bool = False
    #: A step is dispatched, whose status `finish` announces; and the announced frames that are to be posted now.
    dispatches: bool = False
    announced_events: tuple[EventItem, ...] = ()
    #: The event's usage, and the user's counters before it.
    spending: Spending = NOTHING
    counters: Counters = UNUSED
    #: The drafts of this session and of those of its parent and children that the event concerns, by session id; None:
    #: there is no such session. All of them share it.
    family: "dict[str, Draft | None]" = field(default_factory=dict)
    #: The draft is a child's, and ends its turn; see `calls.end_child`.
    ending: Ending | None = None

    @classmethod
    def new(cls, user: str, session_id: str, inputs: Inputs) -> "Draft":
        """The draft that creates a session."""
        now, agent = inputs.now, inputs.settings.first_agent
        register = Register(user, session_id, created_at=now, last_activity=now, agent=agent)
        return cls(None, register, inputs, now, inputs.settings)

    @classmethod
    def of(cls, register: Register, inputs: Inputs) -> "Draft":
        """The draft of a change to an existing session."""
        return cls(register, register.copy(), inputs, inputs.now, inputs.settings)

    def need(self, item_keys: Iterable[str]) -> None:
        """Raise NeedsItems unless all of these items were read, so that one round trip reads them all."""
        missing_keys = [key for key in item_keys if key not in self.inputs.items]
        if missing_keys:
            raise NeedsItems(missing_keys, self.register.session_id)

    def item(self, key: str) -> dict[str, Any] | None:
        """An item as read, None if it does not exist. Raises NeedsItems if it was not read."""
        self.need([key])
        return self.inputs.items[key]

    def streamed(self) -> str:
        """The text that the step has streamed. Raises NeedsLog if the log was not read."""
        if self.inputs.log is None:
            raise NeedsLog(self.register.session_id)
        if self.inputs.log:
            self.register.last_seq = max(self.register.last_seq, self.inputs.log[-1].seq)
        return "".join(frame["token"] for frame in self._frames("assistant_message"))

    def has_thoughts(self) -> bool:
        """Whether the step has streamed thoughts. Raises NeedsLog if the log was not read."""
        return any(self._frames("assistant_thought"))

    def _frames(self, kind: str) -> Iterator[dict[str, Any]]:
        """The logged frames of this type of the message that the step streams."""
        if self.inputs.log is None:
            raise NeedsLog(self.register.session_id)
        for event in self.inputs.log:
            if event.frame["type"] == kind and event.frame["message_id"] == self.register.message_id:
                yield event.frame

    def call(self, call_id: str) -> CallItem | None:
        """A call as read, None if it does not exist. Raises NeedsItems if it was not read."""
        item = self.item(keys.call_key(call_id))
        return CallItem.of(item) if item else None

    def relative(self, session_id: str) -> "Draft | None":
        """The draft of the session's parent or child, which is committed with this one; None if that does not exist.

        Raises NeedsSession if it was not read.
        """
        if session_id == self.register.session_id:
            return self
        if session_id not in self.family:
            raise NeedsSession(session_id)
        return self.family[session_id]

    def new_child(self, call_id: str) -> "Draft":
        """The draft that creates the child which works on a call; it is committed with this one."""
        child_id = keys.child_session(self.register.session_id, call_id)
        inputs = Inputs(self.now, self.settings, self.inputs.new_id, self.inputs.event_id)
        child = Draft.new(self.register.user, child_id, inputs)
        self.family[self.register.session_id], self.family[child_id], child.family = self, child, self.family
        return child

    def put(self, item: Item) -> None:
        """Write `item`, in place of an earlier one with the same key."""
        self.puts[:] = [earlier_item for earlier_item in self.puts if earlier_item.key() != item.key()]
        self.puts.append(item)

    def value(self, content: Content) -> dict[str, Any]:
        """The content itself. Raises NeedsObject if it is a reference to an object that was not read."""
        if not isinstance(content, Reference):
            return content
        if content.digest not in self.inputs.objects:
            raise NeedsObject(content.digest, self.register.session_id)
        value: dict[str, Any] = json.loads(self.inputs.objects[content.digest])
        return value

    def emit(
        self,
        frame: ServerFrame,
        audience: Audience | None = None,
        payload: Reference | None = None,
        sender: str = "",
    ) -> int:
        """Log `frame` with the next seq and post it. Returns the seq.

        `sender` is the connection whose action the frame reports. `payload` refers to the frame's large field if that
        is stored already. A field that makes the frame too large to be posted is not logged with it; a URL replaces it
        when the frame is posted.
        """
        register = self.register
        register.last_seq += 1
        frame.seq, frame.at = register.last_seq, self.now
        if audience is None:
            audience = Audience.EXTENSIONS if frame.extension else Audience.ALL
        ttl = self.now // 1000 + self.settings.event_retention_s
        wire = frame.wire()
        if isinstance(frame, PayloadFrame):
            payload = payload or refer(wire.get(frame.payload_field), self.objects, frame.kept_bytes)
            if payload is not None and len(dumps(wire).encode()) > limits.INLINE_FRAME_BYTES:
                wire.pop(frame.payload_field)
        self.events.append(EventItem(register.last_seq, wire, audience, ttl, payload=payload, sender=sender))
        return register.last_seq

    def set_status(self, status: Status, message: str, *, is_news: bool = False) -> None:
        """Set the status, and tell the clients if it has changed or `is_news`. A child has none, and logs only news."""
        is_change = self.register.status is not status and self.register.delegation is None
        self.register.status = status
        if is_news or is_change:
            self.emit(AgentStatus(status=status, message=message))

    def append_message(
        self,
        role: str,
        content: str,
        *,
        call_id: str = "",
        message_id: str = "",
        calls: tuple[CallRequest, ...] = (),
        full_length: int = 0,
        attachments: Attached | None = None,
        environment: str = "",
    ) -> None:
        """Add a message to the history. `full_length` is that of a result of which `content` is an excerpt, else 0."""
        register = self.register
        register.history_n += 1
        content = within_bytes(content, limits.MESSAGE_BYTES)
        # A context never shows more of it.
        max_tokens = models.budget(register, self.settings).tokens // 2
        # The process that commits an answer usually runs the next step too, so its estimate is worth caching. Messages
        # and results are committed by other processes than the one that sends them to the model.
        tokens = message_tokens(content, calls, max_tokens=max_tokens, once=role != "assistant")
        if attachments is not None:
            tokens = min(max_tokens, tokens + attached_tokens(attachments.summaries))
        if environment:
            tokens = min(max_tokens, tokens + message_tokens(environment, (), max_tokens=max_tokens, once=True))
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
                whole=full_length,
                attachments=attachments,
                environment=environment,
            )
        )

    def dispatch_step(self, step: int) -> None:
        """Begin step number `step`: it is invoked after the commit, and acquired by the invocation that runs it."""
        register = self.register
        register.phase = Phase.DISPATCHED
        register.step = step
        register.attempt = 0
        register.dispatched_at, register.invoked_again_at = self.now, 0
        register.message_id = ""
        register.announced_seq = 0
        register.calls = {}
        self.invoke_step()
        self.dispatches = True
        register.release()

    def invoke_step(self) -> None:
        """Invoke the register's step after the commit."""
        register = self.register
        self.invoke = Step(register.turn_id, register.step, register.attempt, register.extent)

    def invoke_compaction(self) -> None:
        """Have the session compacted after the commit."""
        register = self.register
        self.invoke = Step(register.turn_id, register.step, register.attempt, register.extent, compacts=True)

    def post_announced(self) -> None:
        """Post what the step's dispatch has logged, before this draft's frames, unless it was posted.

        The status comes last and is known; the frames before it are read.
        """
        before = self.before
        if before is None or before.announced_seq not in self.register.outbox:
            return
        event_keys = self.announced_keys
        self.need(event_keys)
        events = [EventItem.of(item) for key in event_keys if (item := self.inputs.items[key]) is not None]
        last_seq = self.register.outbox[before.announced_seq].last
        self.announced_events = (*events, self._announcement(last_seq, before.dispatched_at))

    @property
    def announced_keys(self) -> list[str]:
        """Sort keys of the logged frames that are to be posted with the status of the dispatched step."""
        seq = 0 if self.before is None else self.before.announced_seq
        entry = self.register.outbox.get(seq)
        return [] if entry is None else [keys.event_key(event_seq) for event_seq in range(seq, entry.last)]

    def _announcement(self, seq: int, logged_at: int) -> EventItem:
        frame = AgentStatus(seq=seq, at=logged_at, status=Status.THINKING, message="Thinking")
        return EventItem(seq, frame.wire(), Audience.ALL, self.now // 1000 + self.settings.event_retention_s)

    def _announce(self) -> int:
        """Log the status of a step that is dispatched. Returns how many frames the step's acquisition posts.

        The `user_message` and `call_update` frames right before the status are posted with it, so that the function
        that accepted the message, or settled the last call, posts nothing.
        """
        register = self.register
        if not self.dispatches or register.phase is not Phase.DISPATCHED or register.status is Status.THINKING:
            return 0
        register.status = Status.THINKING
        register.last_seq += 1
        frame_count = 0
        while frame_count < len(self.events) and self.events[-1 - frame_count].frame["type"] in _ANNOUNCED_TYPES:
            frame_count += 1
        register.announced_seq = register.last_seq - frame_count
        self.events.append(self._announcement(register.last_seq, self.now))
        register.outbox[register.announced_seq] = OutboxEntry(last=register.last_seq, at=self.now)
        return frame_count + 1

    def finish(self) -> Transition:
        """The transition, with those of the parent and the children that the event has changed."""
        transition = self._transition()
        relatives = [relative for relative in self.family.values() if relative is not None and relative is not self]
        changes = [change for change in map(Draft._transition, relatives) if change.before != change.after]
        return replace(transition, family=tuple(changes)) if changes else transition

    def _transition(self) -> Transition:
        """The transition of this session: updates the outbox and the slot, and moves large contents into objects."""
        register, before = self.register, self.before
        if self.events and before is not None and before.phase is Phase.DISPATCHED:
            # Frames are posted in the order of the log, and a client that misses one would resume.
            self.post_announced()
            if register.announced_seq == before.announced_seq:
                register.announced_seq = 0
        # A child has no connections.
        unposted_count = self._announce() if register.delegation is None else len(self.events)
        if posted_events := self.events[: len(self.events) - unposted_count]:
            register.outbox[posted_events[0].seq] = OutboxEntry(last=posted_events[-1].seq, at=self.now)
        if self.resend:
            seqs = [resend.seq for resend in self.resend]
            entry = register.outbox.setdefault(min(seqs), OutboxEntry(last=max(seqs), at=self.now))
            entry.last = max(entry.last, *seqs)
        while len(register.outbox) > _OUTBOX_ENTRIES:
            # The merged entry has a negative key, which no writer reports: each reports only its own frames.
            oldest, next_oldest = sorted(register.outbox, key=abs)[:2]
            oldest_entry, next_entry = register.outbox.pop(oldest), register.outbox.pop(next_oldest)
            register.outbox[-abs(oldest)] = OutboxEntry(
                last=max(oldest_entry.last, next_entry.last), at=min(oldest_entry.at, next_entry.at)
            )
        puts = tuple(item.referring(self.objects) if isinstance(item, CallItem) else item for item in self.puts)
        replies = tuple((connection_id, frame.wire()) for connection_id, frame in self.replies)
        invoke, announced_seq = self.invoke, register.announced_seq
        if invoke is not None and (announced_entry := register.outbox.get(announced_seq)) is not None:
            invoke = replace(invoke, announced_seqs=(announced_seq, announced_entry.last - 1))
        has_slot = register.slot or (before is not None and before.slot)
        slot = slots.change(before, register, self.now, self.inputs.lost_slots) if has_slot else None
        return Transition(
            before=self.before,
            after=register,
            puts=puts,
            relies_on=self.relies_on,
            events=tuple(self.events),
            announces=unposted_count,
            announcements=self.announced_events,
            deletes=tuple(self.deletes),
            invoke=invoke,
            resend=tuple(self.resend),
            repost=tuple(self.repost),
            close=tuple(self.close),
            cut_connections=tuple(self.cut_connections),
            replies=replies,
            reply_payloads=self.reply_payloads,
            objects=self.objects,
            slot=slot,
            takes_over=self.takes_over,
            spending=self.spending,
            counters=self.counters,
        )
