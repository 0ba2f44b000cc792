"""Decisions about events, and the loop that makes them: read, decide, commit; on a conflict, all of it again.

The loop does no I/O. It reads and writes through an `Access`: the engine's is the table, the tests' is memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from codelab.config import Settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions.items import EventItem
from codelab.sessions.register import Register
from codelab.sessions.store import Conflict, Duplicate, SeqTaken, SlotTaken, StoredItem
from codelab.sessions.transition import Transition
from codelab.turns import admission
from codelab.turns.caller import Caller
from codelab.turns.draft import Draft, Inputs, NeedsItems, NeedsLog, NeedsObject, NeedsSession, Outcome
from codelab.turns.quotas import QuotaNeed

E = TypeVar("E")

#: How often a decision may lose a race before the event fails.
_TRIES = 30


@dataclass(frozen=True, slots=True)
class Decision(Generic[E]):
    """What an event of one kind does to a session.

    event: the type of the event; NoneType if it consists only of its caller.
    decide: (draft, caller, event) → the transition, or None if there is nothing to do. It only changes the draft, and
        may be called again for the same event. Raises ProtocolError to refuse the event.
    reads: sort keys of the items that it needs, read in one round trip with the register. Each other item costs another
        round trip.
    quota: which of the caller's quotas it needs.
    creates: it creates the session if there is none. Otherwise the event fails with SESSION_NOT_FOUND.
    """

    event: type[E]
    decide: Callable[[Draft, Caller, E], Transition | None]
    reads: Callable[[E], Iterable[str]] | None = None
    quota: QuotaNeed | Callable[[E], QuotaNeed] = QuotaNeed.NONE
    creates: bool = False


def decision(
    event: type[E],
    *,
    reads: Callable[[E], Iterable[str]] | None = None,
    quota: QuotaNeed | Callable[[E], QuotaNeed] = QuotaNeed.NONE,
    creates: bool = False,
) -> Callable[[Callable[[Draft, Caller, E], Transition | None]], Decision[E]]:
    """Make a Decision of the decorated function; see Decision for the parameters."""
    return lambda decide: Decision(event, decide, reads, quota, creates)


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """The current register, and the committed transition; None if there was nothing to do."""

    register: Register
    transition: Transition | None
    outcome: Outcome = field(default_factory=Outcome)


class BeingDeleted(ProtocolError):
    """The session is being deleted, or its fork was never completed. Callers see SESSION_NOT_FOUND."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.SESSION_NOT_FOUND, "No such session")


class Access(Protocol):
    """What the loop reads and writes of one session, and the other inputs of a decision."""

    def of(self, session_id: str) -> "Access":
        """The access to the session's parent or to one of its children."""

    @property
    def settings(self) -> Settings: ...

    def clock(self) -> int:
        """The time in milliseconds."""

    def new_id(self) -> str:
        """A new random id."""

    def read(self, item_keys: Sequence[str]) -> tuple[Register | None, dict[str, StoredItem | None]]:
        """The register and the items with these sort keys in one round trip; None for what does not exist."""

    def items(self, item_keys: Sequence[str]) -> Mapping[str, StoredItem]:
        """The existing items, by sort key."""

    def object(self, digest: str) -> str:
        """A large content of the session, as JSON text."""

    def streamed(self, register: Register) -> list[EventItem]:
        """The logged frames after the register's `message_seq`."""

    def log_end(self, known_seq: int) -> int:
        """The seq of the last logged frame, at least `known_seq`."""

    def commit(self, transition: Transition) -> None:
        """Write the transition, all or nothing. Raises what `SessionStore.commit` does."""

    def back_off(self, attempt: int) -> None:
        """Wait a little, longer with each attempt."""


@dataclass(slots=True)
class _Session:
    """What was read of a session. After a conflict only `objects` and `log_end` still hold."""

    access: Access
    register: Register | None = None
    items: dict[str, StoredItem | None] = field(default_factory=dict)
    fresh_keys: frozenset[str] = frozenset()
    log: list[EventItem] | None = None
    objects: dict[str, str] = field(default_factory=dict)
    log_end: int = 0
    is_read: bool = False

    def read(self, item_keys: Sequence[str]) -> None:
        self.register, self.items = self.access.read(item_keys)
        self.is_read = True

    def inputs(
        self,
        now: int,
        event_id: str,
        lost_slots: frozenset[str],
        further_items: Mapping[str, StoredItem | None] = MappingProxyType({}),
    ) -> Inputs:
        """The inputs of a decision; what was read comes before `further_items`."""
        access, items = self.access, {**further_items, **self.items}
        fresh_keys, log, objects = self.fresh_keys, self.log, self.objects
        return Inputs(now, access.settings, access.new_id, event_id, items, fresh_keys, log, objects, lost_slots)

    def read_later(self, item_keys: Sequence[str]) -> None:
        later_items = self.access.items(item_keys)
        self.items |= {key: later_items.get(key) for key in item_keys}
        self.fresh_keys |= set(item_keys)

    def read_log(self) -> None:
        assert self.register is not None  # a new session has no streamed text
        self.log = self.access.streamed(self.register)

    def find_log_end(self) -> None:
        if self.register is not None:
            self.log_end = self.access.log_end(self.register.last_seq)

    def forget(self) -> None:
        self.is_read, self.items, self.fresh_keys, self.log = False, {}, frozenset(), None


def decide_and_commit(
    decide: Callable[..., Transition | None],
    access: Access,
    *event: Any,
    register: Register | None = None,
    read_items: Mapping[str, StoredItem | None] = MappingProxyType({}),
    item_keys: Iterable[str] = (),
    caller: Caller | None = None,
    quota_need: QuotaNeed | Callable[..., QuotaNeed] = QuotaNeed.NONE,
    creates: bool = False,
    include_hidden: bool = False,
) -> DecisionResult:
    """Make the decision `decide(draft, *event)` about the session and commit it, without running its effects.

    If it concerns the session's parent or children, these are read as well, and committed in the same transaction.

    item_keys: sort keys of items to read with the register. register, read_items: a register and items that were just
    read, which save the first read. caller: the sender of the event. Their revocation and the quotas of `quota_need`
    are read as well, and a revoked token is refused.
    quota_need: which quotas, or a function that says so of the last of `event`.
    creates: if there is no session, decide about a new one of the caller.
    include_hidden: decide also about a session that is being forked or deleted.

    Raises ProtocolError: SESSION_NOT_FOUND (BeingDeleted while the session is being deleted, or BUSY if the decision
    creates sessions), DATABASE_ERROR after too many conflicts, and the decision's own errors.
    """
    item_keys = [*item_keys]
    need = quota_need if isinstance(quota_need, QuotaNeed) else quota_need(event[-1])
    session = _Session(access, register, dict(read_items), is_read=register is not None)
    relatives: dict[str, _Session] = {}
    lost_slots: frozenset[str] = frozenset()
    duplicate_items: dict[str, StoredItem | None] = {}
    attempt = 0
    event_id = access.new_id()
    while attempt < _TRIES:
        now = access.clock()
        if not session.is_read:
            of_user = [] if caller is None else admission.item_keys(caller, access.settings, now, need)
            session.read([*item_keys, *of_user])
        if caller is not None:
            admission.check(caller, session.items)

        try:
            inputs = session.inputs(now, event_id, lost_slots, duplicate_items)
            creator = caller if creates else None
            draft = _draft(session.register, inputs, creator, session.log_end, include_hidden=include_hidden)
            for session_id, relative in relatives.items():
                _add_relative(draft, session_id, relative, relative.inputs(now, event_id, lost_slots))
            transition = decide(draft, *event)
            if transition is None:
                return DecisionResult(draft.before or draft.register, None, draft.outcome)
            if transition.writes:
                access.commit(transition)
            return DecisionResult(transition.after, transition, draft.outcome)
        except NeedsSession as needs:
            relatives[needs.session_id] = _Session(access.of(needs.session_id))
            relatives[needs.session_id].read(())
            continue
        except NeedsItems as needs:
            relatives.get(needs.session_id, session).read_later(needs.keys)
            continue
        except NeedsObject as needs:
            known = relatives.get(needs.session_id, session)
            known.objects[needs.digest] = known.access.object(needs.digest)
            continue
        except NeedsLog as needs:
            relatives.get(needs.session_id, session).read_log()
            continue
        except Duplicate as duplicate:  # accepted before: decide again with its item, to add the connection
            duplicate_items = dict(access.items([duplicate.key]))
        except SeqTaken:
            for known in (session, *relatives.values()):
                known.find_log_end()
        except SlotTaken as slot:
            lost_slots |= {slot.token}
        except Conflict:
            access.back_off(attempt)
        attempt += 1
        session.forget()
        for relative in relatives.values():
            relative.forget()
            relative.read(())
    raise ProtocolError(ErrorCode.DATABASE_ERROR, "Too many concurrent changes to the session; send the frame again")


def _draft(
    register: Register | None, inputs: Inputs, creator: Caller | None, log_end: int, *, include_hidden: bool
) -> Draft:
    if register is None:
        if creator is None:
            raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "No such session")
        return Draft.new(creator.user, creator.session_id, inputs)
    if register.erase_at and not include_hidden:
        if creator is None:
            raise BeingDeleted
        raise ProtocolError(ErrorCode.BUSY, "The session with this id is being deleted; try again in a moment")
    register.last_seq = max(register.last_seq, log_end)
    return Draft.of(register, inputs)


def _add_relative(draft: Draft, session_id: str, session: _Session, inputs: Inputs) -> None:
    """Give the draft its parent or a child, which it has asked for. One that is being deleted does not exist."""
    register, relative = session.register, None
    if register is not None and not register.erase_at:
        register.last_seq = max(register.last_seq, session.log_end)
        relative = Draft.of(register, inputs)
        relative.family = draft.family
    draft.family[draft.register.session_id] = draft
    draft.family[session_id] = relative
