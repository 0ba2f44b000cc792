"""Runs the steps of a turn in `llm_request`: acquires, asks the model, streams its answer to the clients, commits.

A step is acquired when the model has been asked, while it works. Nothing is logged, routed or committed before that has
succeeded; an invocation that does not get the step hangs up on the model.

Steps that follow at once (after a refused call, or for a queued message) run in the same invocation if there is time,
because Lambda stops a function that keeps invoking itself (recursive loop detection).
"""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from codelab.agents import FALLBACK
from codelab.delivery.fan_out import DRAIN_S, FanOut
from codelab.delivery.stream import StreamSender
from codelab.engine.attachments import Attachments
from codelab.engine.compactor import Compactor
from codelab.engine.engine import Engine
from codelab.engine.meter import Meter
from codelab.engine.next_request import look, with_message
from codelab.engine.step_requests import Asked, StepRequests
from codelab.http.cancellation import Cancellation
from codelab.llm.client.transport import Transport
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.errors import Cancelled, ContextOverflow, ModelError, RequestError, TransportError, Truncated
from codelab.llm.outcome import Done, Result, TextDelta, ThinkingDelta, Usage
from codelab.llm.tokens import estimate_tokens
from codelab.observability import bind, logger
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.tools import ExecutorTools
from codelab.sessions import keys
from codelab.sessions.approval_rules import RULE_KEYS
from codelab.sessions.items import ToolsItem
from codelab.sessions.register import LEASE_MARGIN_MS, LEASE_MS, Extent, Register
from codelab.sessions.store import Conversation
from codelab.sessions.transition import Step, Transition
from codelab.tracing import model_call
from codelab.turns import models, routing, steps
from codelab.turns.answers import answer_of, failure
from codelab.turns.connections import executor_for_http
from codelab.turns.draft import Draft
from codelab.turns.own_tools import executed_by
from codelab.turns.steps import Answer, Failure, Lease
from codelab.turns.usage import CONTEXT

#: Time (ms) reserved for the commit after the model's deadline, and the least time to begin a further step.
_COMMIT_MS = 3_000
_NEXT_STEP_MS = 30_000

#: The longest text (tokens) that is asked for once more if the model breaks off.
_RESTART_TOKENS = 2_000
#: The most calls of the model in a step.
_CALLS = 4
#: How often a step is read again because the session changed before it was acquired.
_READS = 5
#: Read with the history: the approval rules for the answer's calls, and the clients' tools.
_READ = (*RULE_KEYS.values(), keys.TOOLS)


@dataclass(frozen=True, slots=True)
class _Invocation:
    """One invocation of `llm_request`: the id of Lambda's request, and what its steps share."""

    id: str
    remaining_ms: Callable[[], int]
    fan_out: FanOut
    meter: Meter


@dataclass(slots=True)
class _Attempt:
    """A step to acquire: the lease, what stops its Requests, and the sender of its text.

    `register` names the session's agent. `overflow`, `overflowed`: the refusal of a context that was too large, and its
    tokens.
    `restarted` is the sender of the second text, if there is one. `streamed` is the text of the last Request, `calls`
    and `wasted` are the calls and the usage of those before it.
    """

    register: Register
    _acquire: "Callable[[_Attempt], StreamSender | None]"
    cancellation: Cancellation = field(default_factory=Cancellation)
    lease: Lease = field(init=False)
    _was_tried: bool = False
    _acquired: StreamSender | None = None
    _failure: BaseException | None = None
    restarted: StreamSender | None = None
    broke_off: bool = False
    overflow: ContextOverflow | None = None
    overflowed: int | None = None
    streamed: list[str] = field(default_factory=list)
    calls: int = 0
    wasted: Counter[str] = field(default_factory=Counter)

    @property
    def sender(self) -> StreamSender:
        """Raises Cancelled if the step was not acquired."""
        found = self.restarted or self.acquired
        if found is None:
            raise Cancelled("another invocation has the step")
        return found

    @property
    def acquired(self) -> StreamSender | None:
        """The sender of the first text. None if the step was not acquired. Raises what its acquisition did."""
        self.acquire()
        if self._failure is not None:
            raise self._failure
        return self._acquired

    def acquire(self) -> None:
        """Acquire the step, unless that was tried before. If it fails, the model is hung up on. Never raises."""
        if self._was_tried:
            return
        self._was_tried = True
        try:
            self._acquired = self._acquire(self)
        except BaseException as error:
            self._failure = error
        if self._acquired is None:
            self.cancellation.cancel()

    def with_wasted(self, usage: dict[str, int]) -> dict[str, int]:
        """The usage of all Requests: `usage` is that of the last one."""
        return {name: usage.get(name, 0) + self.wasted[name] for name in {**self.wasted, **usage}}


class StepRunner:
    """One per process. `remaining_ms` of `run` returns the time that the invocation has left."""

    def __init__(self, engine: Engine, transport: Transport, unsupported: UnsupportedFeatures) -> None:
        self._engine = engine
        self._transport, self._unsupported = transport, unsupported
        self._settings = settings = engine.settings
        self._has_budgets = any(limits.tokens_per_day for limits in settings.limits.values())
        self._compactor = Compactor(engine, transport, unsupported)
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="step")
        self._senders = ThreadPoolExecutor(thread_name_prefix="sender")
        self._requests = StepRequests(settings, unsupported, self._pool, transport.base_url)
        self._attachments = Attachments(engine.payloads, self._pool)

    def run(self, user: str, session_id: str, step: Step, remaining_ms: Callable[[], int], invocation: str) -> None:
        """Run `step`, and the steps that follow at once. A duplicate invocation does nothing.

        `invocation` is the id of Lambda's request; Lambda reports a failed invocation by it.
        """
        engine, fan_out = self._engine, FanOut(self._engine.poster, self._engine.clock)
        meter = Meter(engine, user)
        invoked = _Invocation(invocation, remaining_ms, fan_out, meter)
        following: Step | None = step
        last: Transition | None = None
        try:
            while following is not None:
                done = self._run_one(user, session_id, following, invoked)
                last, following = done or last, done.invoke if done is not None else None
                if following is not None and last is not None and remaining_ms() < _NEXT_STEP_MS:
                    engine.invoke(last.after, following)
                    break
        except ProtocolError as error:
            if error.code is not ErrorCode.SESSION_NOT_FOUND:  # the session was deleted meanwhile
                raise
        finally:
            fan_out.drain(min(DRAIN_S, remaining_ms() / 2000))
            meter.flush()
        if last is not None:
            engine.report(last.after, fan_out)
            self._compactor.compact(last.after, self._requests.config_of(last.after), meter, remaining_ms)
            meter.flush()

    def compact(self, user: str, session_id: str, remaining_ms: Callable[[], int]) -> None:
        """Make the compaction that a client asked for. A duplicate invocation does nothing."""
        register = self._engine.store.read(keys.partition(user, session_id))
        if register is None or register.erase_at or not register.compact_at:
            return
        bind(session=register.pk)
        meter = Meter(self._engine, user)
        meter.user_plan = register.user_plan
        try:
            self._compactor.compact(register, self._requests.config_of(register), meter, remaining_ms)
        finally:
            meter.flush()

    def next_request(self, user: str, session_id: str, message: str, environment: str) -> dict[str, Any]:
        """What the session's next step would send, see `look`. If no turn runs, it answers `message`.

        environment: what the message tells of its client's environment, as text. Raises ProtocolError
        SESSION_NOT_FOUND or CONTEXT_TOO_LARGE.
        """
        pk, now = keys.partition(user, session_id), self._engine.clock()
        found = self._engine.store.read(pk)
        read = None if found is None else self._conversation(pk, found.extent, (1, 0))
        if read is None or read.register is None or read.register.erase_at:
            raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "There is no such session")
        register, read = read.register, self._attachments.added_to(read, read.register)
        executor = executed_by(ToolsItem.of(read.items[keys.TOOLS]), executor_for_http(register, now))
        read = with_message(read, message, environment, now)
        try:
            asked = self._requests.make(register, read, executor, _CALLS)
        except ProtocolError:  # as in `_asked`
            if not self._requests.agent_of(register).routes:
                raise
            register.agent = FALLBACK
            asked = self._requests.make(register, read, executor, _CALLS)
        return look(asked, self._unsupported, self._transport.base_url)

    def _run_one(self, user: str, session_id: str, step: Step, invoked: _Invocation) -> Transition | None:
        """Run one step. Returns what was committed, None if this invocation does not own the step (any more)."""
        pk, extent = keys.partition(user, session_id), step.extent
        bind(session=pk, turn=step.turn_id)
        for _ in range(_READS):
            read = self._conversation(pk, extent, step.announced)
            register = read.register
            if register is None or not steps.is_current(register, step):
                return None
            if register.extent != extent:  # the context must contain everything committed before the step
                extent = register.extent
                continue
            attempt = self._begin(register, step, read, invoked)
            result = self._ask(read, attempt, invoked)
            if result is not None:
                return self._commit(attempt, result, read, invoked)
        logger().warning("the session changes too often; the step is left to the sweep", extra={"session": pk})
        return None

    def _begin(self, register: Register, step: Step, read: Conversation, invoked: _Invocation) -> _Attempt:
        """The attempt that can acquire the step."""

        def acquire(attempt: _Attempt) -> StreamSender | None:
            lease_ends, now = time.monotonic() + LEASE_MS / 1000, self._engine.clock()
            attempt.lease = lease = Lease(
                token=steps.token(invoked.id, self._engine.ids()),
                until=now + LEASE_MS,
                message_id="msg_" + self._engine.ids(),
                alive_until=now + invoked.remaining_ms() + LEASE_MARGIN_MS,
            )

            def decide(draft: Draft) -> Transition | None:
                same = steps.asks_the_same(draft.register, register) or steps.owns(draft.register, lease)
                return steps.acquire(draft, step, lease) if same else None

            started = self._engine.decide(
                register.user, register.session_id, decide, register=register, known=read.items
            )
            if started is None:
                return None
            sender = self._sender(started, invoked, lease_ends, attempt.cancellation)
            sender.start(self._senders)
            return sender

        return _Attempt(register, acquire)

    def _sender(
        self, started: Transition, invoked: _Invocation, lease_ends: float, cancellation: Cancellation
    ) -> StreamSender:
        return StreamSender(
            self._engine.store,
            invoked.fan_out,
            started,
            max_delay_s=self._settings.stream_max_delay_ms / 1000,
            retention_s=self._settings.event_retention_s,
            clock=self._engine.clock,
            lease_ends=lease_ends,
            on_lost=cancellation.cancel,
        )

    def _commit(
        self, attempt: _Attempt, result: Answer | Failure, read: Conversation, invoked: _Invocation
    ) -> Transition | None:
        """Commit the model's answer, and send the frames of the commit. None if the lease is lost."""
        sender = attempt.sender
        committed = self._engine.decide(
            sender.register.user,
            sender.register.session_id,
            lambda draft: steps.commit(draft, attempt.lease, result, sender.log_end),
            register=sender.register,
            known=read.items,
        )
        if committed is not None:
            self._engine.send(invoked.fan_out, committed)
        return committed

    def _ask(self, read: Conversation, attempt: _Attempt, invoked: _Invocation) -> Answer | Failure | None:
        """Ask the model and stream its text. None if the step was not acquired."""
        meter, streamed, counted = invoked.meter, attempt.streamed, self._requests.counted
        meter.user_plan = attempt.register.user_plan
        usage: dict[str, int] = {}
        asked: Asked | None = None
        answer: Answer | None = None
        error: RequestError | ProtocolError | None = None
        last = ""
        try:
            spent = meter.over_budget(read.items.get(keys.usage_key(self._engine.clock())))
            if spent is not None:
                raise spent
            executor = executed_by(ToolsItem.of(read.items[keys.TOOLS]), attempt.register.executor)
            deadline = time.monotonic() + max(1.0, (invoked.remaining_ms() - _COMMIT_MS) / 1000)
            read = self._attachments.added_to(read, attempt.register)
            while True:
                asked = self._asked(attempt, read, executor)
                result, told, broke_off = None, counted(Usage(), asked.config), False
                try:
                    about = {"session": attempt.register.pk, "turn": attempt.register.turn_id}
                    with model_call(asked.config.model, asked.config.provider, **about) as span:
                        result = self._streamed(asked, attempt, deadline, meter)
                        if result is not None:
                            span.answered(result.usage, result.finish_reason)
                except ModelError as failed:
                    told, broke_off = self._requests.told(asked, failed.usage, streamed, was_stopped=False), True
                    if not self._may_ask_again(asked, attempt, failed, told, invoked):
                        raise
                if result is not None:
                    break
                meter.add(told, asked.estimated(streamed), failed=broke_off)
                asked = None
                if not streamed:  # otherwise counted when the text was discarded
                    attempt.wasted.update(told)
                streamed.clear()
            usage = counted(result.usage, asked.config)
            parts = asked.parts
            total = {**attempt.with_wasted(usage), **parts, CONTEXT: usage["prompt_tokens"] or sum(parts.values())}
            answer = answer_of(result.solution, asked.agent, total, "".join(streamed), self._engine.ids)
            if answer.text and not streamed:  # a strategy that cannot stream
                attempt.sender.write(answer.text)
        except RequestError as raised:
            error = raised.with_traceback(None)  # it would keep this frame, and the frame the error
            if asked is not None:
                known = raised.usage if isinstance(raised, ModelError) else Usage()
                was_stopped = isinstance(raised, Cancelled)
                usage = self._requests.told(asked, known, streamed, was_stopped=was_stopped)
        except ProtocolError as raised:
            error = raised.with_traceback(None)
        finally:
            if attempt.acquired is not None:
                last = attempt.sender.close(keeps_last=answer is not None)
                if asked is not None:
                    broken = isinstance(error, RequestError) and not attempt.cancellation.cancelled
                    meter.add(usage, asked.estimated(streamed), failed=broken)
        if attempt.acquired is None:
            return None
        if isinstance(error, RequestError):
            if not isinstance(error, Cancelled):  # nothing has failed
                log_failure(error, invoked.id, session=attempt.register.pk)
            error = failure(error, invoked.id, quotes_provider=self._settings.codelab_local)
        if answer is None:
            assert error is not None, "a Request ends with an answer or an error"
            return Failure(error, attempt.with_wasted(usage), "".join(attempt.sender.sent))
        return replace(answer, last=last)

    def _asked(self, attempt: _Attempt, read: Conversation, executor: ExecutorTools) -> Asked:
        """The Request to the session's agent, or to the fallback agent if the prompts of all agents leave no room.

        Raises ContextOverflow if the model refused a larger one, and there is nothing to leave out.
        """
        calls = _CALLS - attempt.calls
        make = partial(self._requests.make, read=read, executor=executor, calls=calls, overflowed=attempt.overflowed)
        try:
            return make(attempt.register)
        except ProtocolError:
            if attempt.overflow is not None:
                raise attempt.overflow from None
            if not self._requests.agent_of(attempt.register).routes:
                raise
        self._route(attempt, routing.NO_CHOICE)
        return make(attempt.register)

    def _streamed(self, asked: Asked, attempt: _Attempt, deadline: float, meter: Meter) -> Result | None:
        """Run the Request, send its text, and add it to `streamed`. None: the chosen agent must be asked by another."""
        sender: StreamSender | None = None
        choosing, chosen = asked.choosing, asked.choosing is None
        events = asked.request.stream(
            self._transport, deadline=deadline, cancel=attempt.cancellation, on_wait=attempt.acquire
        )
        with closing(events):
            for event in events:
                text = ""
                if isinstance(event, TextDelta):
                    text = event.text if choosing is None else choosing.take(event)
                elif isinstance(event, Done) and choosing is not None:
                    choosing.agent = choosing.agent or event.result.solution[routing.AGENT]
                elif isinstance(event, ThinkingDelta):
                    attempt.sender.think(event.text)
                if choosing is not None and choosing.agent and not chosen:
                    if not self._choose(asked, attempt, choosing.agent):
                        return None
                    chosen = True
                if text:
                    if sender is None:
                        sender = attempt.sender
                        meter.first_tokens.append(self._engine.clock() - sender.register.dispatched_at)
                    attempt.streamed.append(text)
                    sender.write(text)
                    sender.rest(text)
                    asked.estimate()
                if isinstance(event, Done):
                    return event.result
        raise AssertionError("a run ends with a result or an error")

    def _choose(self, asked: Asked, attempt: _Attempt, name: str) -> bool:
        """Commit the choice. Returns False if the answer is not by the session's agent, which then must be asked."""
        self._route(attempt, routing.Choice(name))
        if attempt.register.agent != name or name not in asked.answering:
            return False
        asked.agent = asked.answering[name]
        return True

    def _route(self, attempt: _Attempt, choice: routing.Choice) -> None:
        """Commit the choice, unless the user has made another one. Raises Cancelled if the step is not to go on."""
        sender, router, routed = attempt.sender, attempt.register.agent, None
        if not attempt.cancellation.cancelled:
            routed = self._engine.decide(
                sender.register.user,
                sender.register.session_id,
                lambda draft: routing.route(draft, attempt.lease, router, choice),
                register=sender.register,
            )
        if routed is None:
            attempt.cancellation.cancel()
            raise Cancelled("the lease is lost, or the turn was cancelled")
        sender.follow(routed)
        attempt.register = routed.after

    def _may_ask_again(
        self, asked: Asked, attempt: _Attempt, failed: ModelError, usage: dict[str, int], invoked: _Invocation
    ) -> bool:
        """Prepare another Request after one that has failed.

        It is the same if the model broke off, a smaller one if its context was too large, or one without choice.
        """
        attempt.calls += failed.attempts
        if attempt.calls >= _CALLS:
            return False
        if isinstance(failed, ContextOverflow):
            if attempt.overflowed is not None or attempt.streamed:
                return False
            attempt.overflow, attempt.overflowed = failed.with_traceback(None), asked.context_tokens
            said = {"session": attempt.register.pk, "tokens": attempt.overflowed, "error": failed.message}
            logger().warning("the context is larger than the model's; half of it is tried", extra=said)
            return True
        if isinstance(failed, Truncated | TransportError) and not attempt.broke_off:
            attempt.broke_off = True
            if self._restart(attempt, failed, usage, invoked):
                return True
        if not self._requests.agent_of(attempt.register).routes or not routing.cannot_choose(failed):
            return False
        logger().warning("no agent chosen", extra={"session": attempt.register.pk, "error": str(failed)})
        self._route(attempt, routing.NO_CHOICE)
        return True

    def _restart(
        self,
        attempt: _Attempt,
        cut: Truncated | TransportError,
        usage: dict[str, int],
        invoked: _Invocation,
    ) -> bool:
        """Prepare to ask the model again after it broke off: discard what it has said, if all clients can do that.

        Returns False if it must not be asked again. Text is charged for, so a long one is not asked for twice.
        """
        if isinstance(cut, TransportError) and not cut.retryable:
            return False
        if attempt.cancellation.cancelled or estimate_tokens("".join(attempt.streamed)) > _RESTART_TOKENS:
            return False
        if not attempt.streamed:
            return True
        sender, message_id = attempt.sender, "msg_" + self._engine.ids()
        sender.close()  # all text is logged before it is discarded
        restarted = self._engine.decide(
            sender.register.user,
            sender.register.session_id,
            lambda draft: steps.restart(draft, attempt.lease, message_id, usage, sender.log_end),
            register=sender.register,
        )
        if restarted is None:
            return False
        attempt.restarted = self._sender(restarted, invoked, sender.lease_ends, attempt.cancellation)
        attempt.restarted.start(self._senders)
        return True

    def _conversation(self, pk: str, extent: Extent, announced: tuple[int, int]) -> Conversation:
        counters = [keys.usage_key(self._engine.clock())] if self._has_budgets else []
        events = [keys.event_key(seq) for seq in range(announced[0], announced[1] + 1)]
        return self._engine.store.conversation(
            pk, extent, models.most_messages(self._settings), (*_READ, *counters, *events), with_register=True
        )


def log_failure(error: RequestError, request_id: str, **where: str) -> None:
    """Log the provider's error text, which is stored nowhere else. Clients get the `request_id` to look it up."""
    said: dict[str, Any] = {"request_id": request_id, "kind": error.code, "error": error.message, **where}
    if isinstance(error, TransportError):
        said |= {"status": error.status, "body": error.body}
    logger().warning("the model gave no answer", extra=said)
