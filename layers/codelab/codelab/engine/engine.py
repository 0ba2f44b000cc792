"""The shell around the pure core: read, decide, commit, run the effects; on a conflict, all of it again."""

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from codelab.config import Settings
from codelab.delivery.outbox import Delivery, Outbox
from codelab.delivery.payloads import Payloads
from codelab.delivery.post import PATIENCE_S, Poster
from codelab.observability import logger
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import Error
from codelab.sessions import keys
from codelab.sessions.items import Audience, EventItem
from codelab.sessions.register import Register
from codelab.sessions.spending import Counters, Spending
from codelab.sessions.store import Conflict, Duplicate, Over, SeqTaken, SessionStore, SlotTaken
from codelab.sessions.transition import Step, Transition
from codelab.turns import admission, connections, quotas
from codelab.turns.connections import Caller
from codelab.turns.draft import Circumstances, Draft, NeedsItems, NeedsLog, NeedsObject
from codelab.turns.quotas import Asks

Decide = Callable[[Draft], Transition | None]

#: Decisions on one register that may lose a race before the sender is told to try again.
_TRIES = 30
#: Nothing has to be left beside what is counted.
_NO_MORE = Spending()
#: Frames that one repair posts again, the newest: who misses older ones sees the gap and resumes.
_REPOST = 500


def new_id() -> str:
    """A random id, 96 bits, safe in keys and URLs."""
    return secrets.token_hex(12)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class BeingDeleted(ProtocolError):
    """The session is being deleted, or was never completed: for whoever asks there is none."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.SESSION_NOT_FOUND, "There is no such session")


class Engine:
    """Applies events to sessions. One for a process; everything that reaches out comes in as a parameter."""

    def __init__(
        self,
        store: SessionStore,
        poster: Poster,
        payloads: Payloads,
        settings: Settings,
        invoke: Callable[[str, str, Step], None],
        clock: Callable[[], int] = now_ms,
        ids: Callable[[], str] = new_id,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.store = store
        self.poster = poster
        self.payloads = payloads
        self.settings = settings
        self.clock = clock
        self.ids = ids
        self._invoke = invoke
        self._pause = pause

    def join(self, caller: Caller) -> Register:
        """`$connect`: create the session or join it. 1 read, 1 transaction; over the limit 1 post and 1 DELETE.

        Raises ProtocolError BUSY while the session is being deleted, RATE_LIMITED.
        """
        pk = keys.partition(caller.user, caller.session_id)
        for attempt in range(_TRIES):
            register, items = self._read(pk, (), caller, Asks.SPENDS)
            given = self._given(items)
            admission.check(caller, items, self.settings, given.now)
            if register is not None and register.erase_at:
                raise _being_deleted()
            try:
                if register is None:
                    transition = connections.create(caller, given)
                else:
                    transition = connections.connect(Draft.of(register, given), caller)
                self.store.commit(transition)
            except NeedsItems:  # a new day has begun since they were read
                continue
            except Conflict:
                self._back_off(attempt)
            else:
                self.run_effects(transition)
                return transition.after
        raise _contended()

    def create(
        self,
        caller: Caller,
        start: Callable[[Circumstances], Transition],
    ) -> tuple[Register, bool]:
        """Commit the session that `start` gives unless the caller has one. Returns it, and whether it is new.

        Raises ProtocolError BUSY while one with this id is being deleted, RATE_LIMITED.
        """
        pk = keys.partition(caller.user, caller.session_id)
        for attempt in range(_TRIES):
            register, items = self._read(pk, (), caller, Asks.SPENDS)
            given = self._given(items)
            admission.check(caller, items, self.settings, given.now)
            if register is not None:
                if register.erase_at:
                    raise _being_deleted()
                return register, False
            try:
                transition = start(given)
                self.store.commit(transition)
            except NeedsItems:  # a new day has begun since they were read
                continue
            except Conflict:
                self._back_off(attempt)
            else:
                self.run_effects(transition)
                return transition.after, True
        raise _contended()

    def decide(
        self,
        user: str,
        session_id: str,
        decide: Decide,
        wanted: Iterable[str] = (),
        register: Register | None = None,
        known: Mapping[str, dict[str, Any] | None] = MappingProxyType({}),
        *,
        caller: Caller | None = None,
        asks: Asks = Asks.NOTHING,
        absent_too: bool = False,
    ) -> Transition | None:
        """Commit what `decide` makes of the register, without running its effects.

        `wanted` are sort keys of items the decision needs, read in the same round trip. A `register` that was just
        read saves the first read, and so do `known` items. `caller` is whose event it is, where it is anybody's: then
        what is known of that user is read as well, and checked, and what the event `asks` of quotas. `absent_too`: also
        of a session that is being forked or deleted. None where there was nothing to do. Raises ProtocolError;
        BeingDeleted for such a session.
        """
        pk = keys.partition(user, session_id)
        wanted = list(wanted)
        items: dict[str, dict[str, Any] | None] = dict(known)
        fresh: frozenset[str] = frozenset()
        lost: frozenset[str] = frozenset()
        accepted: dict[str, dict[str, Any] | None] = {}
        log: list[EventItem] | None = None
        objects: dict[str, str] = {}
        written: set[str] = set()
        log_end = 0
        attempt = 0
        while attempt < _TRIES:
            if register is None:
                register, items = self._read(pk, wanted, caller, asks)
            admission.check(caller, items, self.settings, self.clock())
            if register is None:
                raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "There is no such session")
            if register.erase_at and not absent_too:
                raise BeingDeleted
            register.last_seq = max(register.last_seq, log_end)
            try:
                transition = decide(Draft.of(register, self._given({**accepted, **items}, log, objects, fresh, lost)))
                if transition is not None and transition.writes:
                    new = {digest: text for digest, text in transition.objects.items() if digest not in written}
                    if new:
                        self.payloads.write(user, session_id, new)
                        written |= new.keys()
                    self.store.commit(transition)
                return transition
            except NeedsItems as needs:
                found = self.store.items(pk, needs.keys)
                items |= {key: found.get(key) for key in needs.keys}
                fresh |= set(needs.keys)
                continue
            except NeedsObject as needs:
                objects[needs.digest] = self.payloads.read(user, session_id, needs.digest)
                continue
            except NeedsLog:
                log = self._streamed(pk, register)
                continue
            except Duplicate as duplicate:  # a repeat brings no more than its connection
                accepted = dict(self.store.items(pk, [duplicate.key]))
            except SeqTaken:
                log_end = self.store.log_end(pk, register.last_seq)
            except SlotTaken as slot:
                lost |= {slot.token}
            except Conflict:
                self._back_off(attempt)
            attempt += 1
            register, items, fresh, log = None, {}, frozenset(), None
        raise _contended()

    def apply(
        self,
        user: str,
        session_id: str,
        decide: Decide,
        wanted: Iterable[str] = (),
        patience_s: float = PATIENCE_S,
        *,
        caller: Caller | None = None,
        asks: Asks = Asks.NOTHING,
    ) -> Transition | None:
        """`decide`, then the effects of what was committed."""
        transition = self.decide(user, session_id, decide, wanted, caller=caller, asks=asks)
        if transition is not None:
            over_http = caller is not None and not caller.connection_id
            self.run_effects(transition, patience_s, is_awaited=over_http)
        return transition

    def run_effects(self, transition: Transition, patience_s: float = PATIENCE_S, *, is_awaited: bool = False) -> None:
        """Invoke, post, reply, report as posted, count. What dies here is repaired by the sweep (the count is not), and
        so is what fails, without a word: who asked for the transition must not take it for refused, and ask again.

        A post that is refused is tried again for `patience_s`. `is_awaited`: somebody waits for the end of this, so the
        count is made beside the rest; else it comes last, for beside the invoke it would take time from that.
        """
        if not (is_awaited and transition.spent):
            self._reach_out(transition, patience_s)
            self._count(transition)
            return
        counting = threading.Thread(target=self._count, args=(transition,), name="count")
        counting.start()
        try:
            self._reach_out(transition, patience_s)
        finally:  # not left to itself: a call that is under way when Lambda freezes the process breaks
            counting.join()

    def _reach_out(self, transition: Transition, patience_s: float) -> None:
        register = transition.after
        if transition.invoke is not None:
            self.invoke(register, transition.invoke)
        outbox = Outbox(self.poster, self.clock, patience_s)
        with _left_to_the_sweep(register):
            self.send(outbox, transition)
            self._resend(outbox, transition)
            for first, last in transition.repost:
                self._repost(outbox, register, first, last)
        for connection_id, frame in transition.replies:
            outbox.reply(connection_id, frame, register)
        outbox.drain()
        with _left_to_the_sweep(register):
            self.report(register, outbox)
        for connection_id in transition.close:  # once each: a newer window's `$connect` waits for it
            self.poster.attempt(connection_id, Error.of(_replaced()).wire())
            self.poster.close(connection_id)
        for connection_id in transition.cut:
            self.poster.close(connection_id)

    def _count(self, transition: Transition) -> None:
        self.count(transition.after.user, transition.spent, transition.counters)

    def invoke(self, register: Register, step: Step) -> None:
        """Start `llm_request` asynchronously. A lost or refused invoke is repeated by the sweep."""
        try:
            self._invoke(register.user, register.session_id, step)
        except (BotoCoreError, ClientError) as error:
            logger().warning("step not invoked", extra={"session": register.pk, "error": str(error)})

    def count(self, user: str, spent: Spending, counters: Counters | None = None, at: int | None = None) -> None:
        """Add to the user's counters of now, or of the time `at` (ms), when nobody waits for anything else.

        A count that fails is lost.
        """
        if spent:
            try:
                self.store.tally.count(user, spent, self.clock() if at is None else at, self.ids(), counters)
            except (BotoCoreError, ClientError) as error:
                logger().warning("not counted", extra={"user": user, "error": str(error)})

    def look(self, caller: Caller) -> Register | None:
        """The caller's session as it is, None where there is none. One read. Raises ProtocolError UNAUTHORIZED for who
        was revoked."""
        pk = keys.partition(caller.user, caller.session_id)
        register, items = self._read(pk, (), caller, Asks.NOTHING)
        admission.check(caller, items, self.settings, self.clock())
        return register

    def admit(self, caller: Caller) -> None:
        """Raise ProtocolError UNAUTHORIZED for who was revoked, where no register is read. One read, if any."""
        wanted = admission.wanted(caller, self.settings, self.clock())
        if wanted:
            items = self.store.items(keys.of_user(caller.user), wanted)
            admission.check(caller, {key: items.get(key) for key in wanted}, self.settings, self.clock())

    def reserve(self, caller: Caller, spent: Spending, room: Spending = _NO_MORE) -> int:
        """Count what the caller is about to use, where no register is read, if that and `room` beside it are left.

        One conditional write; no call without limits. Returns the time (ms) of which it is counted. Raises
        ProtocolError RATE_LIMITED.
        """
        limits, now = self.settings.limits_of(caller.plan), self.clock()
        beside = room.amounts()
        most = {name: bound - beside[name] for name, bound in quotas.most(limits, spent + room).items()}
        if most:
            try:
                self.store.tally.count(caller.user, quotas.counted(limits, spent), now, self.ids(), most=most)
            except Over as over:
                quotas.check(limits, over.item, spent + room, now)
                raise
        return now

    def send(self, outbox: Outbox, transition: Transition) -> None:
        """Have the transition's frames posted; `report` says so once they are."""
        if transition.events:
            with outbox.tracked(transition.events[0].seq) as delivery:
                self._send_live(outbox, transition.events, transition.after, delivery)

    def report(self, register: Register, outbox: Outbox) -> None:
        """When nothing is under way any more: say what was posted, and remove connections that answered 410.

        None that may be joining is removed, and what it did not take is not reported as posted: the sweep tries again.
        """
        now = self.clock()
        known = {found: register.connections[found] for found in outbox.gone if found in register.connections}
        young = {found for found, connection in known.items() if connection.may_be_joining(now)}
        posted = outbox.take_posted(young)
        if posted:
            self.store.posted(register, [delivery.first for delivery in posted])
        for connection_id in known.keys() - young:
            self._forget(register, connection_id, known[connection_id].generation)

    def _forget(self, register: Register, connection_id: str, generation: int) -> None:
        def remove(draft: Draft) -> Transition | None:
            current = draft.register.connections.get(connection_id)
            if current is None or current.generation != generation:
                return None
            return connections.disconnect(draft, connection_id)

        self.apply(register.user, register.session_id, remove)

    def _read(
        self, pk: str, wanted: Iterable[str], caller: Caller | None, asks: Asks
    ) -> tuple[Register | None, dict[str, dict[str, Any] | None]]:
        """The register, the items that are wanted, and what a decision about an event of `caller` is to know of them.

        All in one round trip; None for an item that does not exist.
        """
        together = [*wanted, *admission.wanted(caller, self.settings, self.clock(), asks)]
        return self.store.read_with(pk, together) if together else (self.store.read(pk), {})

    def _streamed(self, pk: str, register: Register) -> list[EventItem]:
        """What the log holds behind the point where the running step was acquired."""
        end = self.store.log_end(pk, register.last_seq)
        first = register.message_seq + 1
        return [
            event
            for start in range(first, end + 1, 100)
            for event in self.store.events(pk, start, min(end, start + 99), self.clock())
        ]

    def _given(
        self,
        items: dict[str, dict[str, Any] | None],
        log: list[EventItem] | None = None,
        objects: Mapping[str, str] | None = None,
        fresh: frozenset[str] = frozenset(),
        lost: frozenset[str] = frozenset(),
    ) -> Circumstances:
        return Circumstances(self.clock(), self.settings, self.ids, items, fresh, log, objects or {}, lost)

    def _send_live(self, outbox: Outbox, events: Sequence[EventItem], register: Register, delivery: Delivery) -> None:
        """To all but those that a replayer brings up to date.

        A call whose executor is just then left to a replayer counts as failed: if replayer and connection are both
        dead, only a later post can find it out, and have the call handed on.
        """
        live = register.live(self.clock())
        executors = {register.executor_of(event.frame) for event in events if event.audience is Audience.EXECUTOR}
        if executors & register.connections.keys() - set(live):
            delivery.failed = True
        outbox.send(events, register, live, delivery)

    def _resend(self, outbox: Outbox, transition: Transition) -> None:
        """Send calls again. Not reported if these frames are still to be posted, or were before, to others as well."""
        if not transition.resend:
            return
        register, first = transition.after, min(resend.seq for resend in transition.resend)
        with outbox.tracked(first) as delivery:
            if transition.before is not None and first in transition.before.postings:
                delivery.failed = True
            for resend in transition.resend:
                events = self.store.events(register.pk, resend.seq, resend.seq, self.clock())
                outbox.send(events, register, [resend.connection_id], delivery)

    def _repost(self, outbox: Outbox, register: Register, first: int, last: int) -> None:
        with outbox.tracked(first) as delivery:
            for start in range(max(abs(first), last - _REPOST + 1), last + 1, 100):
                events = self.store.events(register.pk, start, min(last, start + 99), self.clock())
                self._send_live(outbox, events, register, delivery)

    def _back_off(self, attempt: int) -> None:
        self._pause(random.uniform(0, min(0.2, 0.002 * 2**attempt)))


@contextmanager
def _left_to_the_sweep(register: Register) -> Iterator[None]:
    """What fails in here is found undone by the sweep."""
    try:
        yield
    except (BotoCoreError, ClientError, ProtocolError):
        logger().exception("left to the sweep", extra={"session": register.pk})


def _replaced() -> ProtocolError:
    return ProtocolError(
        ErrorCode.RATE_LIMITED, "Too many windows are open; a newer one has taken this one's place", retryable=False
    )


def _being_deleted() -> ProtocolError:
    return ProtocolError(ErrorCode.BUSY, "A session with this id is being deleted; try again in a moment")


def _contended() -> ProtocolError:
    return ProtocolError(ErrorCode.DATABASE_ERROR, "The session is contended; send the frame again")
