"""Runs the steps of a turn in `llm_request`: reads what a step needs, asks the model, commits its answer.

Steps that follow at once (after a refused call, or for a queued message) run in the same invocation if there is time,
because Lambda stops a function that keeps invoking itself (recursive loop detection).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from codelab import turn_log
from codelab.agents import FALLBACK
from codelab.delivery.fan_out import DRAIN_S, FanOut
from codelab.engine.ask_model import StepModel
from codelab.engine.attachments import Attachments
from codelab.engine.compactor import Compactor
from codelab.engine.engine import Engine
from codelab.engine.meter import Meter
from codelab.engine.next_request import look, with_message
from codelab.engine.step_attempt import Invocation, StepAttempt
from codelab.engine.step_requests import MAX_CALLS, StepRequests
from codelab.llm.client.transport import Transport
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.observability import bind, logger
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.sessions.approval_rules import RULE_KEYS
from codelab.sessions.items import ToolsItem
from codelab.sessions.register import Extent
from codelab.sessions.store import Conversation
from codelab.sessions.transition import Step, Transition
from codelab.turns import models, steps
from codelab.turns.connections import executor_for_http
from codelab.turns.own_tools import tools_of_connection
from codelab.turns.steps import Failure, ModelAnswer

#: The least time (ms) to begin a further step.
_NEXT_STEP_MS = 30_000
#: How often a step is read again because the session changed before it was acquired.
_MAX_READS = 5
#: Read with the history: the approval rules for the answer's calls, and the clients' tools.
_ITEM_KEYS = (*RULE_KEYS.values(), keys.TOOLS)


class StepRunner:
    """One per process. `remaining_ms` of its methods returns the time that the invocation has left."""

    def __init__(self, engine: Engine, transport: Transport, unsupported: UnsupportedFeatures) -> None:
        self._engine = engine
        self._transport, self._unsupported = transport, unsupported
        self._settings = settings = engine.settings
        self._has_budgets = any(limits.tokens_per_day for limits in settings.limits.values())
        self._compactor = Compactor(engine, transport, unsupported)
        pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="step")
        self._senders = ThreadPoolExecutor(thread_name_prefix="sender")
        self._requests = StepRequests(settings, unsupported, pool, transport.base_url)
        self._attachments = Attachments(engine.payloads, pool)
        self._model = StepModel(engine, transport, self._requests, self._attachments)

    def run(self, user: str, session_id: str, step: Step, remaining_ms: Callable[[], int], request_id: str) -> None:
        """Run `step`, and the steps that follow at once. A duplicate invocation does nothing.

        `request_id` is that of Lambda's request; Lambda reports a failed invocation by it.
        """
        engine, fan_out = self._engine, FanOut(self._engine.poster, self._engine.clock)
        meter = Meter(engine, user)
        invocation = Invocation(request_id, remaining_ms, fan_out, meter)
        next_step: Step | None = step
        last_commit: Transition | None = None
        try:
            while next_step is not None:
                commit = self._run_step(user, session_id, next_step, invocation)
                last_commit, next_step = commit or last_commit, None if commit is None else commit.invoke
                if commit is not None:
                    turn_log.note(commit)
                if next_step is not None and last_commit is not None and remaining_ms() < _NEXT_STEP_MS:
                    engine.invoke(last_commit.after, next_step)
                    break
        except ProtocolError as error:
            if error.code is not ErrorCode.SESSION_NOT_FOUND:  # the session was deleted meanwhile
                raise
        finally:
            fan_out.drain(min(DRAIN_S, remaining_ms() / 2000))
            meter.flush()
        if last_commit is not None:
            register = last_commit.after
            engine.report(register, fan_out)
            self._compactor.compact(register, self._requests.config_of(register), meter, remaining_ms)
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

        It is without the model's reasoning, which no caller sees.
        environment: what the message tells of its client's environment, as text. Raises ProtocolError
        SESSION_NOT_FOUND or CONTEXT_TOO_LARGE.
        """
        pk, now = keys.partition(user, session_id), self._engine.clock()
        latest = self._engine.store.read(pk)
        conversation = None if latest is None else self._read(pk, replace(latest.extent, reasoning=()), (1, 0))
        if conversation is None or conversation.register is None or conversation.register.erase_at:
            raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "There is no such session")
        register = conversation.register
        conversation = self._attachments.added_to(conversation, register)
        executor = tools_of_connection(ToolsItem.of(conversation.items[keys.TOOLS]), executor_for_http(register, now))
        conversation = with_message(conversation, message, environment, now)
        try:
            prepared_request = self._requests.prepare(register, conversation, executor, MAX_CALLS)
        except ProtocolError:  # as a step does
            if not self._requests.agent_of(register).routes:
                raise
            register.agent = FALLBACK
            prepared_request = self._requests.prepare(register, conversation, executor, MAX_CALLS)
        return look(prepared_request, self._unsupported, self._transport.base_url)

    def _run_step(self, user: str, session_id: str, step: Step, invocation: Invocation) -> Transition | None:
        """Run one step. Returns what was committed, None if this invocation does not own the step (any more)."""
        pk, extent = keys.partition(user, session_id), step.extent
        bind(session=pk, turn=step.turn_id)
        for _ in range(_MAX_READS):
            conversation = self._read(pk, extent, step.announced_seqs)
            register = conversation.register
            if register is None or not steps.is_current(register, step):
                return None
            if register.extent != extent:  # the context must contain everything committed before the step
                extent = register.extent
                continue
            attempt = StepAttempt(self._engine, self._senders, step, conversation, invocation)
            result = self._model.ask(attempt, conversation, invocation)
            if result is not None:
                return self._commit(attempt, result, conversation, invocation)
        logger().warning("the session changes too often; the step is left to the sweep", extra={"session": pk})
        return None

    def _commit(
        self, attempt: StepAttempt, result: ModelAnswer | Failure, conversation: Conversation, invocation: Invocation
    ) -> Transition | None:
        """Commit the step's result, and send the frames of the commit. None if the lease is lost."""
        sender = attempt.acquire_sender()
        transition = self._engine.decide(
            sender.register.user,
            sender.register.session_id,
            lambda draft: steps.commit(draft, attempt.lease, result, sender.log_end),
            register=sender.register,
            items=conversation.items,
        )
        if transition is not None:
            self._engine.send(invocation.fan_out, transition)
            self._engine.run_effects_of_family(transition)
            sender.drafts.end(transition, transition.after.live(self._engine.clock()))
        return transition

    def _read(self, pk: str, extent: Extent, event_range: tuple[int, int]) -> Conversation:
        """The register and all that a step needs. `event_range`: the first and last seq of frames to read as well."""
        counters = [keys.usage_key(self._engine.clock())] if self._has_budgets else []
        events = [keys.event_key(seq) for seq in range(event_range[0], event_range[1] + 1)]
        return self._engine.store.conversation(
            pk, extent, models.most_messages(self._settings), (*_ITEM_KEYS, *counters, *events), with_register=True
        )
