"""Asks the model for the answer of a step, and streams its text: one Request, or more after one without an answer.

Another Request follows if the model broke off, if its context was too large, if it chose no agent, or one that has
settings of its own.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from codelab.agents import Agent
from codelab.delivery.stream import StreamSender
from codelab.engine.attachments import Attachments
from codelab.engine.engine import Engine
from codelab.engine.meter import Ending
from codelab.engine.step_attempt import Invocation, StepAttempt
from codelab.engine.step_requests import MAX_CALLS, PreparedRequest, StepRequests
from codelab.llm.client.transport import Transport
from codelab.llm.errors import Cancelled, ContextOverflow, ModelError, RequestError, TransportError, Truncated
from codelab.llm.outcome import Done, ItemDelta, ItemsDropped, Result, TextDelta, ThinkingDelta, Usage
from codelab.llm.tokens import estimate_tokens
from codelab.observability import logger
from codelab.protocol.errors import ProtocolError
from codelab.protocol.tools import ExecutorTools
from codelab.sessions import keys
from codelab.sessions.items import ToolsItem
from codelab.sessions.kept_reasoning import ReasoningItem
from codelab.sessions.store import Conversation
from codelab.tracing import model_call
from codelab.turns import routing
from codelab.turns.model_answers import answer_of, failure
from codelab.turns.own_tools import tools_of_connection
from codelab.turns.steps import Failure, ModelAnswer
from codelab.turns.usage import CONTEXT

#: Time (ms) reserved for the commit after the model's deadline.
_COMMIT_MS = 3_000
#: The longest text (tokens) that is asked for once more if the model breaks off.
_RESTART_TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class StepModel:
    """The model as steps ask it. One per process, and several steps may ask at once."""

    engine: Engine
    transport: Transport
    requests: StepRequests
    attachments: Attachments

    def ask(
        self, attempt: StepAttempt, conversation: Conversation, invocation: Invocation
    ) -> ModelAnswer | Failure | None:
        """Ask the session's agent until there is an answer, or a failure. None: the step was not acquired.

        Acquires the step, also if there is nothing to ask. Raises AwsError and the failures of the attempt's sender.
        """
        return _RequestLoop(self, attempt, conversation, invocation).run()


@dataclass(frozen=True, slots=True)
class _Response:
    """The result of a Request, and the agent that gave it."""

    result: Result
    agent: Agent


@dataclass(frozen=True, slots=True)
class _Overflow:
    """The refusal of a context that was too large, and the estimated tokens of that."""

    error: ContextOverflow
    tokens: int


class _RequestLoop:
    """The Requests of one attempt, one after the other."""

    def __init__(
        self, model: StepModel, attempt: StepAttempt, conversation: Conversation, invocation: Invocation
    ) -> None:
        self._engine = model.engine
        self._transport = model.transport
        self._requests = model.requests
        self._attachments = model.attachments
        self._attempt = attempt
        self._conversation = conversation
        self._invocation = invocation
        self._meter = invocation.meter
        #: The Request that is not metered yet, its text, and once they are known its usage and its end.
        self._request: PreparedRequest | None = None
        self._streamed: list[str] = []
        self._usage: dict[str, int] = {}
        self._ending = Ending()
        #: Of the Requests before it: the calls of the model, and the usage that the commit has to count.
        self._model_calls = 0
        self._previous_usage: Counter[str] = Counter()
        self._broke_off = False
        self._overflow: _Overflow | None = None

    def run(self) -> ModelAnswer | Failure | None:
        """See `StepModel.ask`."""
        outcome: ModelAnswer | RequestError | ProtocolError | None = None
        final_text = ""
        try:
            outcome = self._outcome()
        finally:
            is_acquired = self._attempt.ensure_acquired()
            if is_acquired:
                final_text = self._end(outcome)
        if not is_acquired:
            return None
        if isinstance(outcome, ModelAnswer):
            return replace(outcome, final_delta=final_text)
        sent_text = "".join(self._attempt.acquire_sender().sent_pieces)
        return Failure(self._public_error(outcome), self._total_usage(), sent_text)

    def _outcome(self) -> ModelAnswer | RequestError | ProtocolError:
        """The answer, or why there is none.

        The error has no traceback: that would keep this frame, and the frame the error.
        """
        try:
            return self._answer(self._response())
        except RequestError as error:
            self._ending = Ending.of(error)
            if self._request is not None:
                usage = error.usage if isinstance(error, ModelError) else Usage()
                self._usage = self._reported_usage(self._request, usage, was_stopped=isinstance(error, Cancelled))
            return error.with_traceback(None)
        except ProtocolError as error:
            return error.with_traceback(None)

    def _end(self, outcome: ModelAnswer | RequestError | ProtocolError | None) -> str:
        """Send what is left of the text, and meter the last Request. Returns the end of an answer's text, not logged.

        The outcome is None if an error of another kind is being raised.
        """
        final_text = self._attempt.acquire_sender().close(keeps_last=isinstance(outcome, ModelAnswer))
        if self._request is not None:
            ending, estimate = self._ending, self._request.estimate_tokens(self._streamed)
            if self._attempt.cancellation.cancelled:
                ending = ending._replace(is_failure=False)
            self._meter.add(self._usage, ending, estimate, model=self._request.config.model)
        return final_text

    def _response(self) -> _Response:
        """Make Requests until one has a result. Raises RequestError or ProtocolError if none may be made any more."""
        attempt, items = self._attempt, self._conversation.items
        self._meter.user_plan = attempt.register.user_plan
        budget_error = self._meter.over_budget(items.get(keys.usage_key(self._engine.clock())))
        if budget_error is not None:
            raise budget_error
        executor = tools_of_connection(ToolsItem.of(items[keys.TOOLS]), attempt.register.executor)
        deadline = time.monotonic() + max(1.0, (self._invocation.remaining_ms() - _COMMIT_MS) / 1000)
        self._conversation = self._attachments.added_to(self._conversation, attempt.register)
        while True:
            request = self._request = self._prepare(executor)
            ending = Ending()
            try:
                response = self._stream_in_span(request, deadline)
                if response is not None:
                    return response
                usage = self._requests.usage_of(Usage(), request.config)
            except ModelError as error:
                ending = Ending.of(error)
                usage = self._reported_usage(request, error.usage, was_stopped=False)
                if not self._may_ask_again(request, error, usage):
                    raise
            estimate = request.estimate_tokens(self._streamed)
            self._meter.add(usage, ending, estimate, model=request.config.model)
            self._request = None
            attempt.acquire_sender().drafts.drop()
            if not self._streamed:  # otherwise counted when the text was discarded
                self._previous_usage.update(usage)
            self._streamed.clear()

    def _answer(self, response: _Response) -> ModelAnswer:
        """The answer to commit. Raises ProtocolError LLM_ERROR if it is empty."""
        request = self._request
        assert request is not None
        self._ending = Ending.of(response.result)
        usage = self._usage = self._requests.usage_of(response.result.usage, request.config)
        parts = request.wait_for_parts()
        total = {**self._total_usage(), **parts, CONTEXT: usage["prompt_tokens"] or sum(parts.values())}
        streamed_text = "".join(self._streamed)
        answer = answer_of(
            response.result,
            response.agent,
            total,
            streamed_text,
            self._engine.ids,
            follows_results=request.request.follows_results,
        )
        if answer.text and not streamed_text:  # a strategy that cannot stream
            self._attempt.acquire_sender().write(answer.text)
        reasoning = response.result.reasoning
        if reasoning is None:
            return answer
        item = ReasoningItem(0, request.config.model, request.config.provider, reasoning, 0)
        return replace(answer, reasoning=item)

    def _prepare(self, executor: ExecutorTools) -> PreparedRequest:
        """The Request to the session's agent, or to the fallback agent if the prompts of all agents leave no room.

        Raises ContextOverflow if the model refused a larger one, and there is nothing to leave out.
        """
        attempt, max_calls = self._attempt, MAX_CALLS - self._model_calls
        overflow_tokens = None if self._overflow is None else self._overflow.tokens

        def prepare() -> PreparedRequest:
            return self._requests.prepare(
                attempt.register, self._conversation, executor, max_calls, overflow_tokens=overflow_tokens
            )

        try:
            return prepare()
        except ProtocolError:
            if self._overflow is not None:
                raise self._overflow.error from None
            if not self._requests.agent_of(attempt.register).routes:
                raise
        attempt.route(routing.NO_CHOICE)
        return prepare()

    def _stream_in_span(self, request: PreparedRequest, deadline: float) -> _Response | None:
        """`_stream` within a span."""
        config, register = request.config, self._attempt.register
        with model_call(config.model, config.provider, session=register.pk, register=register) as span:
            response = self._stream(request, deadline)
            if response is not None:
                span.answered(response.result.usage, response.result.finish_reason)
        return response

    def _stream(self, request: PreparedRequest, deadline: float) -> _Response | None:
        """Run the Request, send its text, and add it to `_streamed`.

        None: another Request must ask the chosen agent, or the one that the user has chosen instead.
        """
        attempt, streamed = self._attempt, self._streamed
        sender: StreamSender | None = None
        agent = request.agent
        choosing = routing.Choosing(request.agent_names) if request.agent_names else None
        is_chosen = choosing is None
        events = request.request.stream(
            self._transport,
            deadline=deadline,
            cancel=attempt.cancellation,
            on_wait=attempt.acquire,
            shows_items=any(connection.drafts for connection in attempt.register.connections.values()),
        )
        with closing(events):
            for event in events:
                text = ""
                if isinstance(event, TextDelta):
                    text = event.text if choosing is None else choosing.take(event)
                elif isinstance(event, Done) and choosing is not None:
                    choosing.agent = choosing.agent or event.result.solution[routing.AGENT]
                elif isinstance(event, ThinkingDelta):
                    attempt.acquire_sender().think(event.text)
                elif isinstance(event, ItemDelta):
                    attempt.acquire_sender().drafts.take(event)
                elif isinstance(event, ItemsDropped):
                    attempt.acquire_sender().drafts.drop()
                if choosing is not None and choosing.agent and not is_chosen:
                    chosen_agent = self._choose(request, choosing.agent)
                    if chosen_agent is None:
                        return None
                    agent, is_chosen = chosen_agent, True
                if text:
                    if sender is None:
                        sender = attempt.acquire_sender()
                        self._meter.add_first_token(self._engine.clock() - sender.register.dispatched_at)
                    streamed.append(text)
                    sender.take(text)
                    if len(streamed) == 1:
                        request.begin_estimate()
                if isinstance(event, Done):
                    return _Response(event.result, agent)
        raise AssertionError("a run ends with a result or an error")

    def _choose(self, request: PreparedRequest, name: str) -> Agent | None:
        """Commit the choice. Returns the chosen agent, None if this Request does not give that agent's answer."""
        self._attempt.route(routing.Choice(name))
        return request.candidates.get(name) if self._attempt.register.agent == name else None

    def _may_ask_again(self, request: PreparedRequest, error: ModelError, usage: dict[str, int]) -> bool:
        """Prepare for another Request after one that has failed.

        It is the same if the model broke off, a smaller one if its context was too large, or one without choice.
        """
        self._model_calls += error.attempts
        if self._model_calls >= MAX_CALLS:
            return False
        if isinstance(error, ContextOverflow):
            return self._may_halve(request, error)
        if isinstance(error, Truncated | TransportError) and not self._broke_off:
            self._broke_off = True
            if self._may_restart(error, usage):
                return True
        register = self._attempt.register
        if not self._requests.agent_of(register).routes or not routing.cannot_choose(error):
            return False
        logger().warning("no agent chosen", extra={"session": register.pk, "error": str(error)})
        self._attempt.route(routing.NO_CHOICE)
        return True

    def _may_halve(self, request: PreparedRequest, error: ContextOverflow) -> bool:
        """Prepare to ask with half of the context, which is tried once, and not after text."""
        if self._overflow is not None or self._streamed:
            return False
        self._overflow = _Overflow(error.with_traceback(None), request.context_tokens())
        fields = {"session": self._attempt.register.pk, "tokens": self._overflow.tokens, "error": error.message}
        logger().warning("the context is larger than the model's; half of it is tried", extra=fields)
        return True

    def _may_restart(self, error: Truncated | TransportError, usage: dict[str, int]) -> bool:
        """Discard the text of a model that broke off, if there is any.

        Returns False if it must not be asked again. Text is charged for, so a long one is not asked for twice.
        """
        if isinstance(error, TransportError) and not error.retryable:
            return False
        if self._attempt.cancellation.cancelled or estimate_tokens("".join(self._streamed)) > _RESTART_TOKENS:
            return False
        return not self._streamed or self._attempt.restart(usage)

    def _reported_usage(self, request: PreparedRequest, usage: Usage, *, was_stopped: bool) -> dict[str, int]:
        return self._requests.reported_usage(request, usage, self._streamed, was_stopped=was_stopped)

    def _total_usage(self) -> dict[str, int]:
        """The usage of all Requests that the commit has to count."""
        usage, previous = self._usage, self._previous_usage
        return {name: usage.get(name, 0) + previous[name] for name in {**previous, **usage}}

    def _public_error(self, error: RequestError | ProtocolError | None) -> ProtocolError:
        """The error as clients see it. Logs a failure of the model."""
        assert error is not None, "a Request ends with an answer or an error"
        if isinstance(error, ProtocolError):
            return error
        if not isinstance(error, Cancelled):  # nothing has failed
            log_failure(error, self._invocation.id, session=self._attempt.register.pk)
        return failure(error, self._invocation.id, quotes_provider=self._engine.settings.codelab_local)


def log_failure(error: RequestError, request_id: str, **ids: str) -> None:
    """Log the provider's error text, which is stored nowhere else. Clients get the `request_id` to look it up."""
    fields: dict[str, Any] = {"request_id": request_id, "kind": error.code, "error": error.message, **ids}
    if isinstance(error, TransportError):
        fields |= {"status": error.status, "body": error.body}
    logger().warning("the model gave no answer", extra=fields)
