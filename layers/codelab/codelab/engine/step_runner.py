"""Runs the steps of a turn in `llm_request`: acquires, asks the model, streams its answer to the clients, commits.

A step is acquired while the model is being asked already. Nothing is logged, routed or committed before that has
succeeded; an invocation that does not get the step hangs up on the model.

Steps that follow at once (after a refused call, or for a queued message) run in the same invocation if there is time,
because Lambda stops a function that keeps invoking itself (recursive loop detection).
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from codelab.agents import Agent, agents
from codelab.config import ConfigurationError
from codelab.delivery.fan_out import DRAIN_S, FanOut
from codelab.delivery.stream import StreamSender
from codelab.engine.compactor import Compactor
from codelab.engine.engine import Engine
from codelab.engine.meter import Meter
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Cancellation, Transport
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import Cancelled, ModelError, RequestError, TransportError, Truncated
from codelab.llm.outcome import Done, Result, TextDelta, Usage
from codelab.llm.tokens import estimate_tokens
from codelab.observability import bind, logger
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.sessions.approval_rules import RULE_KEYS
from codelab.sessions.items import MessageItem, ToolsItem
from codelab.sessions.register import LEASE_MARGIN_MS, LEASE_MS, Extent, Register
from codelab.sessions.store import Conversation
from codelab.sessions.transition import Step, Transition
from codelab.turns import routing, steps
from codelab.turns.answers import answer_of, answer_schema, failure, tool_messages
from codelab.turns.context import assemble, shown_files
from codelab.turns.draft import Draft
from codelab.turns.own_tools import declared_by
from codelab.turns.steps import Answer, Failure, Lease
from codelab.turns.usage import breakdown, counted

#: Seconds that the choice of an agent may take; after that the fallback agent answers.
_ROUTING_S = 20.0
#: Time (ms) reserved for the commit after the model's deadline, and the least time to begin a further step.
_COMMIT_MS = 3_000
_NEXT_STEP_MS = 30_000

#: The longest text (tokens) that is asked for once more if the model breaks off.
_RESTART_TOKENS = 2_000
#: How often a step is read again because the session changed before it was acquired.
_READS = 5
#: Read with the history: the approval rules for the answer's calls, and the clients' own tools.
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
    """A step that is being acquired: the lease, what stops its Requests, and the sender of its text.

    The sender is None if the step was not acquired. `restarted` is the sender of the second text, if there is one.
    """

    lease: Lease
    cancellation: Cancellation
    acquired: Future[StreamSender | None]
    restarted: StreamSender | None = None

    @property
    def sender(self) -> StreamSender:
        """Waits until the step is acquired. Raises Cancelled if it was not."""
        found = self.restarted or self.acquired.result()
        if found is None:
            raise Cancelled("another invocation has the step")
        return found


class StepRunner:
    """One per process. `remaining_ms` of `run` returns the time that the invocation has left."""

    def __init__(self, engine: Engine, transport: Transport, unsupported: UnsupportedFeatures) -> None:
        self._engine = engine
        self._transport = transport
        self._settings = settings = engine.settings
        self._unsupported = unsupported
        self._config = RequestConfig(model=settings.llm_model, provider=settings.llm_provider)
        self._config.check()
        if settings.default_agent not in agents():
            raise ConfigurationError(
                f"DEFAULT_AGENT={settings.default_agent}: unknown agent; valid agents: {', '.join(sorted(agents()))};"
                " correct DEFAULT_AGENT or unset it"
            )
        for agent in agents().values():
            self._config.changed(**agent.model).check()
        self._has_budgets = any(limits.tokens_per_day for limits in settings.limits.values())
        self._compactor = Compactor(engine, transport, unsupported)
        self._rehearse(agents()[settings.default_agent])
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="step")

    def _rehearse(self, agent: Agent) -> None:
        """Compile the schemas of a session's first step at init, while no user waits."""
        tools, prompt = tool_messages(agent), {"role": "system", "content": agent.prompt}
        breakdown(tools, [prompt])
        titled = () if agent.routes else (False, True)
        for schema in [answer_schema(agent, titled=it) for it in titled] or [routing.schema(agents())]:
            Request(self._config, schema, [prompt]).compile()

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
            config = self._config_for(self._agent(last.after), last.after)
            self._compactor.compact(last.after, config, meter, remaining_ms)
            meter.flush()

    def _run_one(self, user: str, session_id: str, step: Step, invoked: _Invocation) -> Transition | None:
        """Run one step. Returns what was committed, None if this invocation does not own the step (any more)."""
        pk, extent = keys.partition(user, session_id), step.extent
        bind(session=pk, turn=step.turn_id)
        for _ in range(_READS):
            read = self._conversation(pk, extent)
            register = read.register
            if register is None or not steps.is_current(register, step):
                return None
            if register.extent != extent:  # the context must contain everything committed before the step
                extent = register.extent
                continue
            attempt = self._begin(register, step, invoked)
            result = self._ask(register, read, attempt, invoked)
            if result is not None:
                return self._commit(attempt, result, read, invoked)
        return None

    def _begin(self, register: Register, step: Step, invoked: _Invocation) -> _Attempt:
        """Begin to acquire the step, in another thread."""
        lease_ends, now = time.monotonic() + LEASE_MS / 1000, self._engine.clock()
        lease = Lease(
            token=steps.token(invoked.id, self._engine.ids()),
            until=now + LEASE_MS,
            message_id="msg_" + self._engine.ids(),
            alive_until=now + invoked.remaining_ms() + LEASE_MARGIN_MS,
        )
        cancellation = Cancellation()

        def acquire(draft: Draft) -> Transition | None:
            same = steps.asks_the_same(draft.register, register) or steps.owns(draft.register, lease)
            return steps.acquire(draft, step, lease) if same else None

        def acquired() -> StreamSender | None:
            sender = None
            try:
                started = self._engine.decide(register.user, register.session_id, acquire, register=register)
                if started is not None:
                    sender = self._sender(started, invoked, lease_ends, cancellation)
                    sender.start()
            finally:
                if sender is None:
                    cancellation.cancel()
            return sender

        return _Attempt(lease, cancellation, self._pool.submit(acquired))

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

    def _routed(self, register: Register, attempt: _Attempt, meter: Meter, history: list[MessageItem]) -> Register:
        """The register with an agent that answers: if the session's agent only routes, the model chooses one first."""
        router = self._agent(register)
        if not router.routes:
            return register
        deadline, config = time.monotonic() + _ROUTING_S, self._config_for(router, register)
        try:
            asked = routing.messages(router, agents(), history)
            retry = RetryPolicy(attempts=2)
            request = Request(config, routing.schema(agents()), asked, unsupported=self._unsupported, retry=retry)
            result = request.run(self._transport, deadline=deadline, cancel=attempt.cancellation)
            choice = routing.choice_of(result, self._counted(result.usage, config))
        except RequestError as error:
            logger().warning("no agent chosen", extra={"session": register.pk, "error": str(error)})
            choice = routing.no_choice(self._counted(error.usage, config) if isinstance(error, ModelError) else {})
        sender, routed = attempt.sender, None
        meter.add(choice.usage, estimate_tokens(str(asked)), failed=choice.confidence is None)
        if not attempt.cancellation.cancelled:
            routed = self._engine.decide(
                register.user,
                register.session_id,
                lambda draft: routing.route(draft, attempt.lease, router.name, choice),
                register=sender.register,
            )
        if routed is None:  # the lease is lost or the turn cancelled: do not ask for the answer
            attempt.cancellation.cancel()
            return register
        sender.follow(routed)
        return routed.after

    def _ask(
        self, register: Register, read: Conversation, attempt: _Attempt, invoked: _Invocation
    ) -> Answer | Failure | None:
        """Ask the model and stream its text. None if the step was not acquired."""
        meter = invoked.meter
        meter.user_plan = register.user_plan
        streamed: list[str] = []
        config = self._config
        usage: dict[str, int] = {}
        parts: Future[dict[str, int]] | None = None
        answer: Answer | None = None
        error: RequestError | ProtocolError | None = None
        try:
            spent = meter.over_budget(read.items.get(keys.usage_key(self._engine.clock())))
            if spent is not None:
                raise spent
            own = declared_by(ToolsItem.of(read.items[keys.TOOLS]), register.executor)
            register = self._routed(register, attempt, meter, read.history)
            agent = self._agent(register).joined_by(own)
            budget = self._settings.max_context_tokens
            messages = assemble(read, agent.prompt, budget=budget)
            config, tools = self._config_for(agent, register), tool_messages(agent)
            schema = answer_schema(agent, titled=register.title_is_draft)
            # An error may quote what a client has declared, so it must not be remembered as an unsupported feature.
            request = Request(config, schema, messages, unsupported=self._unsupported, remember=not own)
            # Estimated while the model is silent.
            parts = self._pool.submit(lambda: breakdown(tools, messages, shown_files(read, budget)))
            deadline = time.monotonic() + max(1.0, (invoked.remaining_ms() - _COMMIT_MS) / 1000)
            try:
                result = self._streamed(request, attempt, deadline, streamed, meter)
            except (Truncated, TransportError) as cut:
                told = self._counted(cut.usage, config)
                if not self._restart(attempt, cut, told, "".join(streamed), invoked):
                    raise
                meter.add(told, _estimated(parts, streamed), failed=True)
                streamed.clear()
                result = self._streamed(request, attempt, deadline, streamed, meter)
            usage = {**self._counted(result.usage, config), **parts.result()}
            answer = answer_of(result.solution, agent, usage, "".join(streamed), self._engine.ids)
            if answer.text and not streamed:  # a strategy that cannot stream
                attempt.sender.write(answer.text)
        except RequestError as raised:
            error = raised.with_traceback(None)  # it would keep this frame, and the frame the error
            usage = self._counted(raised.usage, config) if isinstance(raised, ModelError) else {}
        except ProtocolError as raised:
            error = raised.with_traceback(None)
        finally:
            if attempt.acquired.result() is not None:
                attempt.sender.close()
                if parts is not None:
                    failed = isinstance(error, RequestError) and not attempt.cancellation.cancelled
                    meter.add(usage, _estimated(parts, streamed), failed=failed)
        if attempt.acquired.result() is None:
            return None
        if isinstance(error, RequestError):
            log_failure(error, invoked.id, session=register.pk)
            error = failure(error, invoked.id)
        return answer if error is None else Failure(error, usage, "".join(attempt.sender.sent))

    def _streamed(
        self, request: Request, attempt: _Attempt, deadline: float, streamed: list[str], meter: Meter
    ) -> Result:
        """Run the Request, send its text, and add it to `streamed`."""
        sender: StreamSender | None = None
        for event in request.stream(self._transport, deadline=deadline, cancel=attempt.cancellation):
            if isinstance(event, TextDelta):
                if sender is None:
                    sender = attempt.sender
                    meter.first_tokens.append(self._engine.clock() - sender.register.dispatched_at)
                streamed.append(event.text)
                sender.write(event.text)
                sender.rest(event.text)
            elif isinstance(event, Done):
                return event.result
        raise AssertionError("a run ends with a result or an error")

    def _restart(
        self,
        attempt: _Attempt,
        cut: Truncated | TransportError,
        usage: dict[str, int],
        streamed: str,
        invoked: _Invocation,
    ) -> bool:
        """Prepare to ask the model again after it broke off: discard what it has said, if all clients can do that.

        Returns False if it must not be asked again. Text is charged for, so a long one is not asked for twice.
        """
        if isinstance(cut, TransportError) and not cut.retryable:
            return False
        if attempt.cancellation.cancelled or estimate_tokens(streamed) > _RESTART_TOKENS:
            return False
        if not streamed:
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
        attempt.restarted.start()
        return True

    def _conversation(self, pk: str, extent: Extent) -> Conversation:
        counters = [keys.usage_key(self._engine.clock())] if self._has_budgets else []
        most = self._settings.max_context_messages
        return self._engine.store.conversation(pk, extent, most, (*_READ, *counters), with_register=True)

    def _counted(self, usage: Usage, config: RequestConfig) -> dict[str, int]:
        return counted(usage, self._settings.llm_prices.get(config.model))

    def _config_for(self, agent: Agent, register: Register) -> RequestConfig:
        """The agent's settings, with the model that the user has chosen for the session if it is still offered."""
        config, chosen = self._config.changed(**agent.model), register.settings.get("model")
        return config.changed(model=chosen) if chosen in self._settings.offered_models else config

    def _agent(self, register: Register) -> Agent:
        known = agents()
        return known.get(register.agent) or known[self._settings.default_agent]


def _estimated(parts: "Future[dict[str, int]] | None", streamed: list[str]) -> int:
    """Tokens of a Request, estimated from its prompt's `parts` and its text; 0 if it was not made."""
    return 0 if parts is None else sum(parts.result().values()) + estimate_tokens("".join(streamed))


def log_failure(error: RequestError, request_id: str, **where: str) -> None:
    """Log the provider's error text, which is stored nowhere else. Clients get the `request_id` to look it up."""
    said: dict[str, Any] = {"request_id": request_id, "kind": error.code, "error": error.message, **where}
    if isinstance(error, TransportError):
        said |= {"status": error.status, "body": error.body}
    logger().warning("the model gave no answer", extra=said)
