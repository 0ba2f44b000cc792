"""The session register: everything that decides what may happen next in a session, in one small item.

It is only changed by compare-and-set on `version`. Two exceptions cannot disturb another writer: the writer that has
posted a range of frames removes the range's `post#` attribute, and the owner of a step extends its lease. Times are
milliseconds since the epoch.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

from codelab.protocol.outgoing import Status
from codelab.protocol.tools.server import DELEGATE
from codelab.sessions import keys
from codelab.sessions.layout import Layout

#: Time (ms) after which the sweep repairs frames not reported as posted, and steps not acquired.
REPAIR_AFTER_MS = 10_000
#: How long (ms) a step's lease lasts, and how often its owner extends it.
LEASE_MS = 25_000
RENEW_MS = 8_000
#: A process may write until its deadline and this time (ms) after it.
LEASE_MARGIN_MS = 5_000
#: Time (ms) in which a connection may refresh its expired token before it is closed.
REFRESH_MS = 60_000


class Phase(StrEnum):
    """The state of the turn."""

    IDLE = "idle"
    DISPATCHED = "dispatched"  # a step was invoked and not yet acquired
    RUNNING = "running"  # an owner has the lease
    WAITING = "waiting"  # for calls that the IDE executes or a human decides


class CallState(StrEnum):
    """The state of a call."""

    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        return self in (CallState.AWAITING_APPROVAL, CallState.EXECUTING)


@dataclass
class Connection:
    """One WebSocket. `joined_seq` is the end of the log when it joined; `greeted`: it has sent a frame."""

    generation: int
    joined: int
    joined_seq: int
    extensions: bool = False
    viewer: bool = False
    args_profile: bool = False
    #: When the token that opened it was issued, and when its newest token expires: seconds, 0 without tokens.
    issued_at: int = 0
    expires: int = 0
    greeted: bool = False
    #: Until when (ms) only a replayer posts to it. Writers log their frames and skip it. The limit outlives a crash.
    replaying_until: int = 0
    #: The platform that its `hello` named; empty if unknown.
    platform: str = ""
    #: Its `hello` asked for drafts of calls.
    drafts: bool = False

    def may_be_joining(self, now: int) -> bool:
        """Might `$connect` still run? Until it returns, API Gateway answers posts with 410, as if it were closed."""
        return not self.greeted and now < self.joined + REPAIR_AFTER_MS

    def has_expired(self, now: int) -> bool:
        """Has the token expired at `now` (ms)? Then nothing is posted to it until the token is refreshed."""
        return 0 < 1000 * self.expires <= now

    @property
    def closes_at(self) -> int | None:
        """When (ms) the sweep closes it; None without tokens."""
        return 1000 * self.expires + REFRESH_MS if self.expires else None


@dataclass
class CallEntry:
    """What the register stores about a call; the rest is in its CALL item.

    `sender` is the connection that settled the call while no other connection was open: the next step logs it for those
    that come. It is empty if there is nothing to log. `due` is 0 if the call is open in the parent's register, too.
    """

    tool: str
    state: CallState
    due: int
    seq: int
    sender: str = ""


@dataclass
class OutOfTurnCall(CallEntry):
    """An open call that belongs to no turn. `executor` is the connection that executes it, empty if there is none."""

    executor: str = ""


@dataclass
class ChildCall(CallEntry):
    """An open call of a child. `delegation` is the call that the child works on."""

    delegation: str = ""


@dataclass
class FileEntry:
    """A context file's tokens and bytes, for checking the limits; the rest is in its FILE item."""

    tokens: int
    size: int
    added_at: int


@dataclass(frozen=True, slots=True)
class Extent:
    """What a step reads of its session.

    Messages up to `history_n`, of which a summary replaces the first `summary_n`; the message `turn_n` that its turn
    answers; the context files, by the digests of their paths; the project's instructions, by their digest; the
    reasoning of the turn's answers, by the numbers of their messages.
    """

    history_n: int
    summary_n: int = 0
    turn_n: int = 0
    files: tuple[str, ...] = ()
    instructions: str = ""
    reasoning: tuple[int, ...] = ()


@dataclass
class OutboxEntry:
    """A range of frames up to `last`, logged at `at` (ms) and not yet reported as posted."""

    last: int
    at: int


_K = TypeVar("_K")
_T = TypeVar("_T")


def _copy(entry: _T) -> _T:
    """A copy with the same values, all at once: every event copies dozens of them."""
    copy: _T = object.__new__(type(entry))
    copy.__dict__.update(entry.__dict__)
    return copy


def _copies(entries: dict[_K, _T]) -> dict[_K, _T]:
    return {key: _copy(entry) for key, entry in entries.items()}


@dataclass
class Register:
    """See the module. `attributes` and `of` convert it to its item and back."""

    user: str
    session_id: str
    created_at: int
    agent: str
    version: int = 0
    title: str = ""
    #: The title is only the beginning of the first message; the model may set a better one.
    title_is_draft: bool = False
    last_activity: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    #: The seq of the frame that told of the newest switch of the mode.
    mode_seq: int = 0

    status: Status = Status.IDLE
    phase: Phase = Phase.IDLE
    turn_id: str = ""
    #: The end of the log when the turn began.
    turn_seq: int = 0
    step: int = 0
    attempt: int = 0
    dispatched_at: int = 0
    #: When the sweep last invoked the step again; 0 if it has not.
    invoked_again_at: int = 0
    #: The seq of the first frame that the invocation that acquires the step has to post. The last one is the status.
    announced_seq: int = 0
    lease: str = ""
    lease_until: int = 0
    #: Until when (ms) the owner's process may live, and until when processes may live that have lost their lease.
    alive_until: int = 0
    stray_until: int = 0
    message_id: str = ""
    #: The end of the log when the step was acquired; the text of `message_id` comes after it.
    message_seq: int = 0
    #: When the running step was cancelled; its owner notices it and ends the turn.
    cancelled_at: int = 0
    #: How often in a row calls failed, by digest; a call that fails repeatedly is not sent again.
    failures: dict[str, int] = field(default_factory=dict)
    #: How often calls of this turn had the same result, by digest, since something was changed.
    repeats: dict[str, int] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    #: The newest known versions of the rule sets, by scope; older ones are read again.
    rule_versions: dict[str, int] = field(default_factory=dict)
    #: The valid rule for a remembered command; it ends when another call may have changed files.
    command_rule: str = ""
    #: The numbers of the messages whose reasoning is stored, oldest first; those before the turn's are to be removed.
    reasoning: list[int] = field(default_factory=list)
    #: How often agents have handed over this turn.
    handovers: int = 0
    #: How many subagents have worked on this turn.
    subagents: int = 0
    #: The slot of the open turn, `{k}.{random}`, and until when (ms) it is held; empty if turns need no slots.
    slot: str = ""
    slot_until: int = 0
    #: The user's plan when they sent the last message: it determines the limits of the running turn.
    user_plan: str = ""

    #: The calls of the current step, open and settled.
    calls: dict[str, CallEntry] = field(default_factory=dict)
    #: Open calls that belong to no turn; settled ones are only in their CALL items.
    out_of_turn_calls: dict[str, OutOfTurnCall] = field(default_factory=dict)
    #: Open calls of children; settled ones are only in their CALL items.
    child_calls: dict[str, ChildCall] = field(default_factory=dict)
    #: The messages that wait; those of them that the turn gets at its next step, and those that it got, the newest.
    inbox: list[str] = field(default_factory=list)
    steering: list[str] = field(default_factory=list)
    steered_messages: list[str] = field(default_factory=list)
    files: dict[str, FileEntry] = field(default_factory=dict)
    #: The digest of the project's instructions, and their tokens; empty and 0 if there are none.
    instructions: str = ""
    instructions_tokens: int = 0
    last_seq: int = 0
    history_n: int = 0
    #: The message that the turn answers, the messages that the newest summary replaces, and the tokens of the others.
    turn_n: int = 0
    summary_n: int = 0
    history_tokens: int = 0
    #: The results and arguments of calls up to this message are cut short for the model, since a compaction.
    cut_n: int = 0
    #: The provider's count of the prompt's tokens per 1,000 that we estimated; 0 if unknown.
    token_scale: int = 0
    #: The tokens of the newest prompt, as the provider counted them, else estimated.
    context_used: int = 0
    #: `history_tokens` when the model last failed to summarise them; 0 after a summary.
    summary_failed_tokens: int = 0
    #: When a client asked for a compaction, or the sweep last repeated that; 0 if none is wanted. Which process makes
    #: it, until when (ms), and how many have begun to.
    compact_at: int = 0
    compact_lease: str = ""
    compact_until: int = 0
    compact_tries: int = 0
    generation: int = 0
    executor: str = ""
    connections: dict[str, Connection] = field(default_factory=dict)
    outbox: dict[int, OutboxEntry] = field(default_factory=dict)

    #: Not 0: the session is hidden from callers, and the sweep deletes all of it from this time (ms) on.
    #: `purge_after`: after this time (ms) no process can write to it, so one more pass deletes the rest.
    erase_at: int = 0
    purge_after: int = 0

    #: `due_at` as stored; it may be earlier than necessary if frames were reported as posted since.
    stored_due_at: int | None = field(default=None, compare=False)

    #: The partition key of the session's items.
    pk: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        self.pk = self.pk or keys.partition(self.user, self.session_id)

    def live(self, now: int) -> list[str]:
        """The connections that writers post to: with a valid token, and not being replayed to."""
        return [
            connection_id
            for connection_id, connection in self.connections.items()
            if connection.replaying_until <= now and not connection.has_expired(now)
        ]

    @property
    def extent(self) -> Extent:
        files, reasoning = tuple(sorted(self.files)), tuple(n for n in self.reasoning if n > self.turn_n)
        return Extent(self.history_n, self.summary_n, self.turn_n, files, self.instructions, reasoning)

    @property
    def open_step_calls(self) -> dict[str, CallEntry]:
        """The calls that the current step waits for."""
        return {call_id: call for call_id, call in self.calls.items() if call.state.is_open}

    @property
    def open_calls(self) -> dict[str, CallEntry]:
        """All open calls, with those of children and out-of-turn calls."""
        return {**self.open_step_calls, **self.child_calls, **self.out_of_turn_calls}

    @property
    def delegations(self) -> list[str]:
        """The open calls on which children work."""
        return [call_id for call_id, call in self.open_step_calls.items() if call.tool == DELEGATE]

    @property
    def delegation(self) -> tuple[str, str] | None:
        """The parent's session id and its call, if this is a child's register."""
        return keys.delegation_of(self.session_id)

    def executor_of(self, frame: Mapping[str, Any]) -> str:
        """The connection that executes the call of a `tool_call` frame, empty if there is none."""
        if "turn_id" in frame:
            return self.executor
        call = self.out_of_turn_calls.get(frame["call_id"])
        return call.executor if call is not None else ""

    def due_at(self, posted_firsts: Collection[int] = ()) -> int | None:
        """When (ms) the sweep must check this session if nothing else happens; None if nothing is outstanding.

        posted_firsts: the keys of outbox entries that do not count, because their frames were posted.
        """
        if self.erase_at:
            return self.erase_at
        times = [entry.at + REPAIR_AFTER_MS for first, entry in self.outbox.items() if first not in posted_firsts]
        times.extend(call.due for call in self.out_of_turn_calls.values())
        times.extend(call.due for call in self.child_calls.values())
        closing_times = [connection.closes_at for connection in self.connections.values()]
        times.extend(time for time in closing_times if time is not None)
        if self.phase is Phase.DISPATCHED:
            times.append(self.invoked_at + REPAIR_AFTER_MS)
        elif self.phase is Phase.RUNNING:
            times.append(self.lease_until)
            if self.cancelled_at:
                times.append(self.cancelled_at + REPAIR_AFTER_MS)
        elif self.phase is Phase.WAITING:
            times.extend(call.due for call in self.open_step_calls.values() if call.due)
        if self.compact_due is not None:
            times.append(self.compact_due)
        return min(times, default=None)

    @property
    def compact_due(self) -> int | None:
        """When (ms) somebody must look after the compaction that was asked for. While a step runs, its owner will."""
        if not self.compact_at or self.phase in (Phase.DISPATCHED, Phase.RUNNING):
            return None
        return self.compact_until or self.compact_at + REPAIR_AFTER_MS

    @property
    def invoked_at(self) -> int:
        """When (ms) the dispatched step was last invoked."""
        return self.invoked_again_at or self.dispatched_at

    def is_abandoned(self, now: int) -> bool:
        """Has the running step's owner let its lease end? `now` is in milliseconds."""
        return self.phase is Phase.RUNNING and self.lease_until <= now

    def release(self) -> None:
        """End the lease: the step's owner has committed or failed, or is known to have crashed."""
        self.lease, self.lease_until, self.alive_until, self.cancelled_at = "", 0, 0, 0

    def revoke_lease(self) -> None:
        """Take the lease from an owner that may be alive and still write."""
        self.stray_until = max(self.stray_until, self.alive_until)
        self.release()

    def copy(self) -> "Register":
        """A register that shares no mutable value with this one. Every decision begins with a copy."""
        copy = _copy(self)
        for name in ("settings", "failures", "repeats", "usage", "rule_versions"):
            setattr(copy, name, dict(getattr(self, name)))
        for name in ("calls", "child_calls", "out_of_turn_calls", "files", "connections", "outbox"):
            setattr(copy, name, _copies(getattr(self, name)))
        for name in ("inbox", "steering", "steered_messages", "reasoning"):
            setattr(copy, name, list(getattr(self, name)))
        return copy

    def attributes(self) -> dict[str, Any]:
        """The item's attributes except keys, `version` and the due index. Empty and zero fields are absent."""
        return _REGISTER.write(self)

    def changes_since(self, before: "Register | None") -> tuple[dict[str, Any], list[str]]:
        """The attributes that differ from those of `before` (None: no item), and the names of those that are gone."""
        return _REGISTER.changes(before, self)

    @staticmethod
    def of(item: dict[str, Any]) -> "Register":
        """The register in an item that `attributes` made."""
        due_at = item.get("due_at")
        return _REGISTER.read(item, pk=item.get("pk", ""), version=item["version"], stored_due_at=due_at)


_STATE = {"state": (str, {state.value: state for state in CallState}.__getitem__)}
_REGISTER = Layout(
    Register,
    names={
        "user": "owner",
        "out_of_turn_calls": "side_calls",
        "rule_versions": "rules",
        "user_plan": "plan",
        "steered_messages": "steered",
    },
    forms={
        "status": (str, Status),
        "phase": (str, Phase),
        "calls": Layout(CallEntry, forms=_STATE, optional={"sender"}).as_map,
        "child_calls": Layout(ChildCall, forms=_STATE, optional={"sender"}).as_map,
        "out_of_turn_calls": Layout(OutOfTurnCall, forms=_STATE, optional={"sender"}).as_map,
        "files": (
            lambda files: {digest: [file.tokens, file.size, file.added_at] for digest, file in files.items()},
            lambda attribute: {digest: FileEntry(*entry) for digest, entry in attribute.items()},
        ),
    },
    optional={register_field.name for register_field in fields(Register)},
    elsewhere={"version", "stored_due_at", "pk"},
    spread={
        "connections": (
            "conn",
            str,
            Layout(Connection, names={"issued_at": "issued"}, optional={"platform", "drafts"}),
        ),
        "outbox": ("post", int, Layout(OutboxEntry)),
    },
)
