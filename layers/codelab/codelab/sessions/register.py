"""The session register: a session's whole mutable state in one small item.

It is changed by compare-and-set on `version` alone, with one exception that cannot disturb another writer: who has
posted a range of frames removes that range's `post#` attribute. Times are milliseconds since the epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

from codelab.protocol.outgoing import Status
from codelab.sessions import keys
from codelab.sessions.layout import Layout

#: A frame that nobody has reported as posted, or a step that nobody acquired, is looked at after this time.
REPAIR_AFTER_MS = 10_000
#: A lease outlives its owner's deadline by this, so that no one else starts while it may still write.
LEASE_MARGIN_MS = 5_000
#: For so long a connection may still refresh its token when that has expired; then it is closed.
REFRESH_MS = 60_000


class Phase(StrEnum):
    """Where the turn stands."""

    IDLE = "idle"
    DISPATCHED = "dispatched"  # a step was invoked and not yet acquired
    RUNNING = "running"  # an owner holds the lease
    WAITING = "waiting"  # calls are open in the IDE or with the human


class CallState(StrEnum):
    """The life of a tool call."""

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


@dataclass(slots=True)
class Connection:
    """One WebSocket. `joined_seq` is the log's end when it joined, `greeted` says that it has sent a frame."""

    generation: int
    joined: int
    joined_seq: int
    extensions: bool = False
    viewer: bool = False
    args_profile: bool = False
    #: Of the token that it was opened with, and of that or the one it was refreshed with: seconds, 0 without tokens.
    issued: int = 0
    expires: int = 0
    greeted: bool = False
    #: Until when (ms) a replayer alone posts to it; writers log and leave it out. A replayer that died is outlived.
    replaying_until: int = 0
    #: What its `hello` has said that it runs on; empty: unknown.
    platform: str = ""

    def may_be_joining(self, now: int) -> bool:
        """Before `$connect` has returned a post is answered by 410, as if it were gone. Who has sent a frame is in."""
        return not self.greeted and now < self.joined + REPAIR_AFTER_MS

    def has_expired(self, now: int) -> bool:
        """Nothing of the session is posted to it any more, unless its token is refreshed. `now` is in milliseconds."""
        return 0 < 1000 * self.expires <= now

    @property
    def closes_at(self) -> int | None:
        """When (ms) it is to be closed; None without tokens."""
        return 1000 * self.expires + REFRESH_MS if self.expires else None


@dataclass(slots=True)
class CallEntry:
    """An entry of the register's `calls`: what decides about the call. The rest is in its CALL item."""

    tool: str
    state: CallState
    due: int
    seq: int


@dataclass(slots=True)
class OutOfTurnCall(CallEntry):
    """An open call that belongs to no turn. `executor` is the connection that executes it, empty while none may."""

    executor: str = ""


@dataclass(slots=True)
class FileEntry:
    """A file of the context, by the digest of its path: what bounds are checked with. The rest is in its FILE item."""

    tokens: int
    size: int
    added_at: int


@dataclass(frozen=True, slots=True)
class Extent:
    """What a step reads of its session.

    Messages up to `history_n`, where a summary stands for the first `summary_n`; the message `turn_n`, which its turn
    answers; the context files, by the digests of their paths.
    """

    history_n: int
    summary_n: int = 0
    turn_n: int = 0
    files: tuple[str, ...] = ()


@dataclass(slots=True)
class OutboxEntry:
    """Frames first … last were logged at `at` and nobody has yet said that they were posted."""

    last: int
    at: int


_K = TypeVar("_K")
_Entry = TypeVar("_Entry", Connection, CallEntry, OutOfTurnCall, FileEntry, OutboxEntry)


def _copies(entries: dict[_K, _Entry]) -> dict[_K, _Entry]:
    return {key: replace(entry) for key, entry in entries.items()}


@dataclass(slots=True)
class Register:
    """See the module. `attributes` and `of` are the two directions of its storage form."""

    user: str
    session_id: str
    created_at: int
    agent: str
    version: int = 0
    title: str = ""
    #: The title is but the beginning of the first message: the model may give a better one.
    title_is_draft: bool = False
    last_activity: int = 0
    settings: dict[str, Any] = field(default_factory=dict)

    status: Status = Status.IDLE
    phase: Phase = Phase.IDLE
    turn_id: str = ""
    #: The log's end when the turn began.
    turn_seq: int = 0
    step: int = 0
    attempt: int = 0
    dispatched_at: int = 0
    lease: str = ""
    lease_until: int = 0
    message_id: str = ""
    #: The log's end when the step was acquired: the text of `message_id` is behind it.
    message_seq: int = 0
    #: When the running step was asked to stop; its owner sees it and ends the turn.
    cancelled_at: int = 0
    #: Calls that failed, by digest, and how often in a row: what fails again and again is not sent again.
    failures: dict[str, int] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    #: The newest versions of the rule sets that this session knows of, by scope: older ones are not relied on.
    rule_versions: dict[str, int] = field(default_factory=dict)
    #: The rule by which a command may run again, while it holds: until another call may have changed something.
    command_rule: str = ""
    #: How often agents have handed this turn over.
    handovers: int = 0
    #: The slot of the open turn, `{k}.{random}`, and until when (ms) it is held; empty where turns take none.
    slot: str = ""
    slot_until: int = 0
    #: The plan of the user who spoke last: it determines the limits of the running turn.
    user_plan: str = ""

    #: The calls of the running step, open or not.
    calls: dict[str, CallEntry] = field(default_factory=dict)
    #: Open calls that belong to no turn; a settled one is in its CALL item alone.
    out_of_turn_calls: dict[str, OutOfTurnCall] = field(default_factory=dict)
    inbox: list[str] = field(default_factory=list)
    files: dict[str, FileEntry] = field(default_factory=dict)
    last_seq: int = 0
    history_n: int = 0
    #: The message that the turn answers, how many messages the newest summary stands for, and the tokens of the others.
    turn_n: int = 0
    summary_n: int = 0
    history_tokens: int = 0
    generation: int = 0
    executor: str = ""
    connections: dict[str, Connection] = field(default_factory=dict)
    outbox: dict[int, OutboxEntry] = field(default_factory=dict)

    #: Not 0: the session is absent for everyone, and the sweep deletes whatever there is of it from then (ms) on.
    #: `purge_after`: from when on (ms) nobody can write to it any more, so that one more pass finds all that is left.
    erase_at: int = 0
    purge_after: int = 0

    #: `due_at` as the item had it: earlier than need be where frames were reported as posted since.
    stored_due_at: int | None = field(default=None, compare=False)

    #: The partition key of the session's items.
    pk: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        self.pk = self.pk or keys.partition(self.user, self.session_id)

    def live(self, now: int) -> list[str]:
        """The connections that writers post to: whose token is good, and that no replayer is bringing up to date."""
        return [
            found
            for found, connection in self.connections.items()
            if connection.replaying_until <= now and not connection.has_expired(now)
        ]

    @property
    def extent(self) -> Extent:
        return Extent(self.history_n, self.summary_n, self.turn_n, tuple(sorted(self.files)))

    @property
    def open_step_calls(self) -> dict[str, CallEntry]:
        """What the running step waits for."""
        return {call_id: call for call_id, call in self.calls.items() if call.state.is_open}

    @property
    def open_calls(self) -> dict[str, CallEntry]:
        """All open calls, of the turn and of none."""
        return {**self.open_step_calls, **self.out_of_turn_calls}

    def executor_of(self, frame: Mapping[str, Any]) -> str:
        """The connection that is to execute the call of a `tool_call` frame, empty if none is."""
        if "turn_id" in frame:
            return self.executor
        call = self.out_of_turn_calls.get(frame["call_id"])
        return call.executor if call is not None else ""

    def due_at(self) -> int | None:
        """When the sweep must look at this session if nothing else happens; None if nothing is outstanding."""
        if self.erase_at:
            return self.erase_at
        times = [entry.at + REPAIR_AFTER_MS for entry in self.outbox.values()]
        times.extend(call.due for call in self.out_of_turn_calls.values())
        times.extend(it.closes_at for it in self.connections.values() if it.closes_at is not None)
        if self.phase is Phase.DISPATCHED:
            times.append(self.dispatched_at + REPAIR_AFTER_MS)
        elif self.phase is Phase.RUNNING:
            times.append(self.lease_until)
            if self.cancelled_at:
                times.append(self.cancelled_at + REPAIR_AFTER_MS)
        elif self.phase is Phase.WAITING:
            times.extend(call.due for call in self.open_step_calls.values())
        return min(times, default=None)

    def release(self) -> None:
        """The step's owner has committed, failed or is dead."""
        self.lease, self.lease_until, self.cancelled_at = "", 0, 0

    def copy(self) -> Self:
        """A register that shares nothing with this one that can change. Every decision begins with it."""
        return replace(
            self,
            settings=dict(self.settings),
            failures=dict(self.failures),
            usage=dict(self.usage),
            rule_versions=dict(self.rule_versions),
            calls=_copies(self.calls),
            out_of_turn_calls=_copies(self.out_of_turn_calls),
            inbox=list(self.inbox),
            files=_copies(self.files),
            connections=_copies(self.connections),
            outbox=_copies(self.outbox),
        )

    def attributes(self) -> dict[str, Any]:
        """The item's attributes but for keys, `version` and the due index; what is empty or zero is absent."""
        found = _REGISTER.write(self)
        for connection_id, connection in self.connections.items():
            found[f"conn#{connection_id}"] = _CONNECTION.write(connection)
        for first, entry in self.outbox.items():
            found[f"post#{first}"] = _OUTBOX_ENTRY.write(entry)
        return found

    @staticmethod
    def of(item: dict[str, Any]) -> "Register":
        """The register in an item that `attributes` made."""
        due_at = item.get("due_at")
        register = _REGISTER.read(item, pk=item.get("pk", ""), version=item["version"], stored_due_at=due_at)
        for name, value in item.items():
            if name.startswith("conn#"):
                register.connections[name[5:]] = _CONNECTION.read(value)
            elif name.startswith("post#"):
                register.outbox[int(name[5:])] = _OUTBOX_ENTRY.read(value)
        return register


_STATE = {"state": (str, {it.value: it for it in CallState}.__getitem__)}
_ELSEWHERE = frozenset({"version", "connections", "outbox", "stored_due_at", "pk"})
_CONNECTION = Layout(Connection, optional={"platform"})
_OUTBOX_ENTRY = Layout(OutboxEntry)
_REGISTER = Layout(
    Register,
    names={"user": "owner", "out_of_turn_calls": "side_calls", "rule_versions": "rules", "user_plan": "plan"},
    forms={
        "status": (str, Status),
        "phase": (str, Phase),
        "calls": Layout(CallEntry, forms=_STATE).as_map,
        "out_of_turn_calls": Layout(OutOfTurnCall, forms=_STATE).as_map,
        "files": (
            lambda files: {digest: [it.tokens, it.size, it.added_at] for digest, it in files.items()},
            lambda stored: {digest: FileEntry(*entry) for digest, entry in stored.items()},
        ),
    },
    optional={it.name for it in fields(Register)},
    elsewhere=_ELSEWHERE,
)
