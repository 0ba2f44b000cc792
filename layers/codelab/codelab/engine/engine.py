"""The engine: makes and commits decisions about sessions, and runs their effects."""

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from codelab import turn_log
from codelab.aws.errors import AwsError
from codelab.config import Settings
from codelab.delivery.fan_out import Delivery, FanOut
from codelab.delivery.payloads import Payloads
from codelab.delivery.post import PATIENCE_S, Poster
from codelab.delivery.settled_calls import with_outcomes_for
from codelab.engine.prepared_invoke import PreparedInvoke
from codelab.observability import bind, logger, metrics
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import Error
from codelab.sessions import keys
from codelab.sessions.items import Audience, EventItem, reference_to
from codelab.sessions.register import Register
from codelab.sessions.spending import NOTHING, Counters, Spending
from codelab.sessions.store import Over, SessionStore, StoredItem
from codelab.sessions.transition import Step, Transition
from codelab.turns import admission, connections, quotas
from codelab.turns.caller import Caller
from codelab.turns.decision import Decision, DecisionResult, decide_and_commit
from codelab.turns.draft import Draft
from codelab.turns.sweep import GIVEN_UP

E = TypeVar("E")

#: Newest frames that one repair posts again. A client that misses older ones notices the gap and resumes.
_REPOST = 500


def new_id() -> str:
    """A random id of 96 bits, safe in keys and URLs."""
    return secrets.token_hex(12)


def now_ms() -> int:
    """The time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Engine:
    """Applies events to sessions. One per process; everything that does I/O is passed as a parameter."""

    def __init__(
        self,
        store: SessionStore,
        poster: Poster,
        payloads: Payloads,
        settings: Settings,
        prepare_invoke: Callable[[str, str, Step], Callable[[], object]],
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
        self._prepare_invoke = prepare_invoke
        self.pause = pause

    def handle(self, decision: Decision[E], event: E, caller: Caller) -> DecisionResult:
        """Decide what the caller's `event` does to their session, commit it, and run its effects.

        Raises ProtocolError: the decision's refusal, SESSION_NOT_FOUND, DATABASE_ERROR after too many conflicts.
        """
        access = _SessionAccess(self, caller.user, caller.session_id)
        decided = decide_and_commit(
            decision.decide,
            access,
            caller,
            event,
            item_keys=() if decision.reads is None else decision.reads(event),
            caller=caller,
            quota_need=decision.quota,
            creates=decision.creates,
        )
        if decided.transition is not None:
            request_id = getattr(event, "request_id", None)
            self.run_effects(
                decided.transition,
                is_awaited=not caller.connection_id,
                request_id=request_id,
                prepared_invoke=access.prepared_invoke,
            )
        bind(session=decided.register.pk, turn=decided.register.turn_id)
        turn_log.note_event(getattr(event, "type", ""), decided.transition, getattr(event, "call_id", None) or "")
        self.revive(decided.register)
        return decided

    def revive(self, register: Register) -> None:
        """Repair the session now if its step's owner has let its lease end; a user is there and waits for it."""
        if register.is_abandoned(self.clock()):
            from codelab.turns import sweep  # seldom needed

            with _left_to_the_sweep(register):
                self.apply(register.user, register.session_id, sweep.tick)

    def decide(
        self,
        user: str,
        session_id: str,
        decide: Callable[[Draft], Transition | None],
        *,
        register: Register | None = None,
        items: Mapping[str, StoredItem | None] = MappingProxyType({}),
        caller: Caller | None = None,
        include_hidden: bool = False,
    ) -> Transition | None:
        """Commit a decision without running its effects; see `decide_and_commit` for parameters and errors.

        `register` and `items` were just read.
        """
        access = _SessionAccess(self, user, session_id)
        return decide_and_commit(
            decide, access, register=register, read_items=items, caller=caller, include_hidden=include_hidden
        ).transition

    def apply(
        self,
        user: str,
        session_id: str,
        decide: Callable[[Draft], Transition | None],
        patience_s: float = PATIENCE_S,
    ) -> Transition | None:
        """Commit a decision and run its effects. Returns what was committed, None if there was nothing to do."""
        transition = self.decide(user, session_id, decide)
        if transition is not None:
            self.run_effects(transition, patience_s)
        return transition

    def disconnect(self, caller: Caller, leave: Callable[[Draft, str], Transition]) -> None:
        """Handle `$disconnect`: `leave` decides what the loss of the caller's connection does to the session.

        A deleted session has no connections, so there is nothing to do.
        """
        try:
            self.apply(caller.user, caller.session_id, lambda draft: leave(draft, caller.connection_id))
        except ProtocolError as error:
            if error.code is not ErrorCode.SESSION_NOT_FOUND:
                raise

    def run_effects(
        self,
        transition: Transition,
        patience_s: float = PATIENCE_S,
        *,
        is_awaited: bool = False,
        request_id: str | None = None,
        prepared_invoke: PreparedInvoke | None = None,
    ) -> None:
        """Invoke, post, reply, report as posted, count. The sweep repairs what is lost here, except the count.

        Failures are logged, not raised: the commit stands, so the sender must not try again. A refused post is retried
        for `patience_s` seconds. `is_awaited`: somebody waits for the end, so the count runs in parallel. Otherwise it
        comes last, because in parallel it would slow down the invoke. Replies repeat the `request_id`.
        `prepared_invoke`: the invoke, prepared during the commit.
        """
        _note_given_up(transition)
        if not (is_awaited and transition.spending):
            self._invoke_steps(transition, prepared_invoke)
            self._reach_out(transition, patience_s, request_id)
            self._count(transition)
        else:
            counting = threading.Thread(target=self._count, args=(transition,), name="count")
            counting.start()
            try:
                self._invoke_steps(transition, prepared_invoke)
                self._reach_out(transition, patience_s, request_id)
            finally:  # a call that is in flight when Lambda freezes the process would break
                counting.join()
        self._reach_out_to_family(transition, patience_s)

    def run_effects_of_family(self, transition: Transition) -> None:
        """Run the effects of what the transition does to the session's parent and children."""
        self._invoke_family(transition)
        self._reach_out_to_family(transition, PATIENCE_S)

    def _invoke_steps(self, transition: Transition, prepared_invoke: PreparedInvoke | None) -> None:
        if transition.invoke is not None:
            self.invoke(transition.after, transition.invoke, prepared_invoke)
        self._invoke_family(transition)

    def _invoke_family(self, transition: Transition) -> None:
        for change in transition.family:
            if change.invoke is not None:
                self.invoke(change.after, change.invoke)

    def _reach_out_to_family(self, transition: Transition, patience_s: float) -> None:
        for change in transition.family:
            _note_given_up(change)
            self._reach_out(change, patience_s, None)
            self._count(change)

    def _reach_out(self, transition: Transition, patience_s: float, request_id: str | None) -> None:
        posts = transition.posts
        if posts or transition.resend or transition.repost or transition.replies:
            self._post(posts, transition, patience_s, request_id)
        for connection_id in transition.close:  # one try each, because the `$connect` of a newer connection waits
            self.poster.attempt(connection_id, Error.of(_replaced()).wire())
            self.poster.close(connection_id)
        for connection_id in transition.cut_connections:
            self.poster.close(connection_id)
        turn_log.note(transition)  # last, because nobody waits for it

    def _post(
        self, posts: Sequence[Sequence[EventItem]], transition: Transition, patience_s: float, request_id: str | None
    ) -> None:
        """Post logged frames, `posts` and those of earlier transitions, and replies; report what was posted."""
        register = transition.after
        fan_out = FanOut(self.poster, self.clock, patience_s)
        with _left_to_the_sweep(register):
            self._send(fan_out, posts, register)
            self._resend(fan_out, transition)
            for first_seq, last_seq in transition.repost:
                self._repost(fan_out, register, first_seq, last_seq)
        names = {} if request_id is None else {"request_id": request_id}
        for connection_id, frame in transition.replies:
            with _left_to_the_sweep(register):
                fan_out.reply(connection_id, self._with_urls(frame, transition) | names, register)
        fan_out.drain()
        with _left_to_the_sweep(register):
            self.report(register, fan_out)

    def _with_urls(self, frame: dict[str, Any], transition: Transition) -> dict[str, Any]:
        """A reply with URLs for the arguments that are too large for it."""
        payloads = transition.reply_payloads if "pending_calls" in frame else {}
        if not payloads:
            return frame
        register, objects = transition.after, dict[str, str]()
        references = {call_id: reference_to(content, objects) for call_id, content in payloads.items()}
        if objects:
            self.payloads.write(register.user, register.session_id, objects)
        pending_calls = [
            {
                **call,
                "payload_url": self.payloads.url(register.user, register.session_id, reference.digest),
                "payload_bytes": reference.bytes,
            }
            if (reference := references.get(call["call_id"])) is not None
            else call
            for call in frame["pending_calls"]
        ]
        return {**frame, "pending_calls": pending_calls}

    def _count(self, transition: Transition) -> None:
        self.count(transition.after.user, transition.spending, transition.counters)

    def invoke_of(self, register: Register, step: Step) -> PreparedInvoke:
        """The asynchronous invoke of `llm_request` for a step, not prepared yet."""
        return PreparedInvoke(partial(self._prepare_invoke, register.user, register.session_id, step))

    def invoke(self, register: Register, step: Step, prepared_invoke: PreparedInvoke | None = None) -> None:
        """Start `llm_request` asynchronously. The sweep repeats a lost or refused invoke."""
        try:
            (prepared_invoke or self.invoke_of(register, step)).start()
        except AwsError as error:
            fields = {"session": register.pk, "turn": register.turn_id, "error": str(error)}
            logger().warning("step invocation failed", extra=fields)

    def count(self, user: str, spending: Spending, counters: Counters | None = None, at: int | None = None) -> None:
        """Add to the user's counters of the current time, or of the time `at` (ms).

        A count that fails is logged and lost.
        """
        if spending:
            try:
                self.store.tally.count(user, spending, self.clock() if at is None else at, self.ids(), counters)
            except AwsError as error:
                logger().warning("not counted", extra={"user": user, "error": str(error)})

    def look(self, caller: Caller) -> Register | None:
        """Return the caller's session, None if there is none. Costs one read.

        Raises ProtocolError UNAUTHORIZED if the caller's token was revoked.
        """
        access = _SessionAccess(self, caller.user, caller.session_id)
        register, items = access.read(admission.item_keys(caller, self.settings, self.clock()))
        admission.check(caller, items)
        return register

    def admit(self, caller: Caller) -> None:
        """Raise ProtocolError UNAUTHORIZED if the caller's token was revoked. Reads no register, at most one item."""
        item_keys = admission.item_keys(caller, self.settings, self.clock())
        if item_keys:
            items = self.store.items(keys.of_user(caller.user), item_keys)
            admission.check(caller, items)

    def reserve(self, caller: Caller, spending: Spending, room: Spending = NOTHING) -> int:
        """Count what the caller is about to use, if the quotas allow that plus `room`.

        For requests that read no register: one conditional write, none if the user has no limits. Returns the time (ms)
        to which it is counted. Raises ProtocolError RATE_LIMITED.
        """
        limits, now = self.settings.limits[caller.plan], self.clock()
        room_amounts = room.amounts()
        bounds = {name: bound - room_amounts[name] for name, bound in quotas.bounds(limits, spending + room).items()}
        if bounds:
            try:
                self.store.tally.count(
                    caller.user, quotas.limited_amounts(limits, spending), now, self.ids(), limits=bounds
                )
            except Over as over:
                quotas.check(limits, over.item, spending + room, now)
                raise
        return now

    def send(self, fan_out: FanOut, transition: Transition) -> None:
        """Post the transition's frames; `report` reports them once they are posted."""
        self._send(fan_out, transition.posts, transition.after)

    def _send(self, fan_out: FanOut, posts: Sequence[Sequence[EventItem]], register: Register) -> None:
        for events in posts:
            with fan_out.tracked(events[0].seq) as delivery:
                self._send_live(fan_out, events, register, delivery)

    def report(self, register: Register, fan_out: FanOut) -> None:
        """Report what was posted, and remove the connections that are gone. Call it when no post is in flight.

        One that was still joining when it answered 410 stays, though it may have spoken since; what it did not take is
        not reported: the sweep tries again.
        """
        deliveries = fan_out.take_posted(at_end=True)
        if deliveries:
            self.store.posted(register, [delivery.first_seq for delivery in deliveries])
        for connection_id in fan_out.gone_ids & register.connections.keys():
            self._forget(register, connection_id, register.connections[connection_id].generation)

    def _forget(self, register: Register, connection_id: str, generation: int) -> None:
        def remove(draft: Draft) -> Transition | None:
            current = draft.register.connections.get(connection_id)
            if current is None or current.generation != generation:
                return None
            return connections.disconnect(draft, connection_id)

        self.apply(register.user, register.session_id, remove)

    def _send_live(self, fan_out: FanOut, events: Sequence[EventItem], register: Register, delivery: Delivery) -> None:
        """Send to all connections except those that a replayer brings up to date.

        A call whose executor is being replayed to counts as failed: if replayer and connection are both dead, only a
        later post can detect it, so that another connection gets the call.
        """
        connection_ids = register.live(self.clock())
        executors = {register.executor_of(event.frame) for event in events if event.audience is Audience.EXECUTOR}
        if executors & register.connections.keys() - set(connection_ids):
            delivery.failed = True
        whole_events = with_outcomes_for(self.store, self.payloads, events, register, connection_ids)
        fan_out.send(whole_events, register, connection_ids, delivery)

    def _resend(self, fan_out: FanOut, transition: Transition) -> None:
        """Send calls again. They are not reported if their frames still wait to be posted to other connections."""
        if not transition.resend:
            return
        register, first_seq = transition.after, min(resend.seq for resend in transition.resend)
        with fan_out.tracked(first_seq) as delivery:
            if transition.before is not None and first_seq in transition.before.outbox:
                delivery.failed = True
            for resend in transition.resend:
                events = self.store.events(register.pk, resend.seq, resend.seq, self.clock())
                fan_out.send(events, register, [resend.connection_id], delivery)

    def _repost(self, fan_out: FanOut, register: Register, first_seq: int, last_seq: int) -> None:
        with fan_out.tracked(first_seq) as delivery:
            for start in range(max(abs(first_seq), last_seq - _REPOST + 1), last_seq + 1, 100):
                events = self.store.events(register.pk, start, min(last_seq, start + 99), self.clock())
                self._send_live(fan_out, events, register, delivery)


class _SessionAccess:
    """One session's `Access` to the table and the payloads."""

    def __init__(self, engine: Engine, user: str, session_id: str) -> None:
        self._engine, self._store = engine, engine.store
        self._user, self._session_id = user, session_id
        self._pk = keys.partition(user, session_id)
        #: The objects that were written, by session and digest.
        self._written: set[tuple[str, str]] = set()
        #: The invoke that the last commit begins.
        self.prepared_invoke: PreparedInvoke | None = None
        self.settings, self.clock, self.new_id = engine.settings, engine.clock, engine.ids

    def of(self, session_id: str) -> "_SessionAccess":
        return _SessionAccess(self._engine, self._user, session_id)

    def read(self, wanted: Sequence[str]) -> tuple[Register | None, dict[str, StoredItem | None]]:
        return self._store.read_with(self._pk, wanted) if wanted else (self._store.read(self._pk), {})

    def items(self, wanted: Sequence[str]) -> dict[str, StoredItem]:
        return self._store.items(self._pk, wanted)

    def object(self, digest: str) -> str:
        return self._engine.payloads.read(self._user, self._session_id, digest)

    def streamed(self, register: Register) -> list[EventItem]:
        end = self._store.log_end(self._pk, register.last_seq)
        now, first_seq = self.clock(), register.message_seq + 1
        starts = range(first_seq, end + 1, 100)
        return [event for start in starts for event in self._store.events(self._pk, start, min(end, start + 99), now)]

    def log_end(self, known: int) -> int:
        return self._store.log_end(self._pk, known)

    def commit(self, transition: Transition) -> None:
        for change in (transition, *transition.family):
            session_id, objects = change.after.session_id, change.objects
            new_objects = {
                digest: text for digest, text in objects.items() if (session_id, digest) not in self._written
            }
            if new_objects:
                self._engine.payloads.write(self._user, session_id, new_objects)
                self._written |= {(session_id, digest) for digest in new_objects}
        step, self.prepared_invoke = transition.invoke, None
        if step is None:
            self._store.commit(transition)
            return
        self.prepared_invoke = self._engine.invoke_of(transition.after, step)
        self._store.commit(transition, on_wait=self.prepared_invoke.prepare)

    def back_off(self, attempt: int) -> None:
        self._engine.pause(random.uniform(0, min(0.2, 0.002 * 2**attempt)))


@contextmanager
def _left_to_the_sweep(register: Register) -> Iterator[None]:
    """Log failures: the sweep will find what was not done."""
    try:
        yield
    except (AwsError, ProtocolError):
        ids = {"session": register.pk, "turn": register.turn_id}
        logger().exception("effect failed; left to the sweep", extra=ids)


def _note_given_up(transition: Transition) -> None:
    final_errors = [event for event in transition.events if event.frame.get("details", {}).get("reason") == GIVEN_UP]
    if final_errors:
        before = transition.before or transition.after
        ids = {"session": before.pk, "turn": before.turn_id}
        logger().error("step given up", extra=ids | metrics(StepsGivenUp=len(final_errors)))


def _replaced() -> ProtocolError:
    return ProtocolError(ErrorCode.RATE_LIMITED, "Too many connections; a newer one replaced this one", retryable=False)
