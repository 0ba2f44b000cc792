"""Runs compaction: reads a part of the history, cuts old results or asks the model for a summary, commits that."""

import time
from collections.abc import Callable
from typing import Any

from codelab.engine.engine import Engine
from codelab.engine.meter import Ending, Meter
from codelab.llm.client.request import Request
from codelab.llm.client.retry import RetryPolicy
from codelab.llm.client.transport import Transport
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import ModelError, RequestError
from codelab.observability import logger, metrics
from codelab.protocol.errors import ProtocolError
from codelab.sessions.register import Register
from codelab.sessions.transition import Transition
from codelab.tracing import model_call
from codelab.turns import compaction, requested_compaction
from codelab.turns.draft import Draft
from codelab.turns.models import budget
from codelab.turns.usage import usage_amounts

#: In ms: the least time left to begin a summary, the most time it may take, and the time it must leave.
_LEAST_MS, _MOST_MS, _MARGIN_MS = 20_000, 60_000, 5_000


class Compactor:
    """One per process. A summary that was not finished is tried again after the next step; one that failed, later."""

    def __init__(self, engine: Engine, transport: Transport, unsupported: UnsupportedFeatures) -> None:
        self._engine = engine
        self._transport = transport
        self._settings = engine.settings
        self._unsupported = unsupported

    def compact(self, register: Register, config: RequestConfig, meter: Meter, remaining_ms: Callable[[], int]) -> None:
        """Cut or summarise a part of the history if that is due. A failure is logged, and noted in the register."""
        if register.compact_at:
            self.compact_as_asked(register, config, meter, remaining_ms)
            return
        if not compaction.is_due(register, self._settings) or remaining_ms() < _LEAST_MS:
            return
        extent, max_messages = compaction.extent(register)
        conversation = self._engine.store.conversation(register.pk, extent, max_messages)
        cut = compaction.cut(register, conversation.history, self._settings)
        if cut is not None:
            self._note(register, lambda draft: compaction.commit_cut(draft, cut))
            return
        piece = compaction.piece(register, conversation.history, self._settings)
        if piece is None:
            return
        user_texts = compaction.user_texts(conversation.summary, piece, budget(register, self._settings).tokens)
        deadline = time.monotonic() + min(_MOST_MS, remaining_ms() - _MARGIN_MS) / 1000
        content = self._summary(register, compaction.messages(piece, conversation.summary), config, meter, deadline)

        def note(draft: Draft) -> Transition | None:
            if content is None:
                return compaction.back_off(draft, register)
            return compaction.commit(draft, piece, content, user_texts)

        self._note(register, note)

    def compact_as_asked(
        self, register: Register, config: RequestConfig, meter: Meter, remaining_ms: Callable[[], int]
    ) -> None:
        """Make the compaction that a client asked for, unless another process does. The sweep repeats what is lost."""
        left_ms = remaining_ms() - _MARGIN_MS
        if left_ms < _LEAST_MS:
            return
        started_at, lasting_ms = time.monotonic(), min(_MOST_MS, left_ms)
        lease, until = self._engine.ids(), self._engine.clock() + lasting_ms + _MARGIN_MS
        claim = self._note(register, lambda draft: requested_compaction.claim(draft, lease, until), latest=register)
        if claim is None:
            return
        register = claim.after
        extent, max_messages = compaction.extent(register)
        conversation = self._engine.store.conversation(register.pk, extent, max_messages)
        piece = compaction.piece(register, conversation.history, self._settings, is_asked=True)
        content, user_texts = None, tuple[str, ...]()
        if piece is not None:
            user_texts = compaction.user_texts(conversation.summary, piece, budget(register, self._settings).tokens)
            prompt = compaction.messages(piece, conversation.summary)
            content = self._summary(register, prompt, config, meter, started_at + lasting_ms / 1000)
        try:
            self._engine.apply(
                register.user,
                register.session_id,
                lambda draft: requested_compaction.end(draft, lease, conversation.summary, piece, content, user_texts),
            )
        except ProtocolError as error:
            logger().warning("compaction not stored", extra={"session": register.pk, "error": error.message})

    def _note(
        self, register: Register, decide: Callable[[Draft], Transition | None], latest: Register | None = None
    ) -> Transition | None:
        try:
            return self._engine.decide(register.user, register.session_id, decide, register=latest)
        except ProtocolError as error:
            logger().warning("compaction not stored", extra={"session": register.pk, "error": error.message})
            return None

    def _summary(
        self, register: Register, prompt: list[dict[str, Any]], config: RequestConfig, meter: Meter, deadline: float
    ) -> str | None:
        """Ask the model for a summary; None if it fails. Asks only once if the last try failed."""
        attempts = 1 if register.summary_failed_tokens else 2
        config, retry = config.changed(max_repairs=attempts - 1), RetryPolicy(attempts=attempts)
        price = self._settings.llm_prices.get(config.model)
        try:
            request = Request(config, compaction.SCHEMA, prompt, unsupported=self._unsupported, retry=retry)
            with model_call(config.model, config.provider, session=register.pk) as span:
                result = request.run(self._transport, deadline=deadline)
                span.answered(result.usage, result.finish_reason)
        except RequestError as error:
            usage = usage_amounts(error.usage, price) if isinstance(error, ModelError) else {}
            meter.add(usage, Ending.of(error), model=config.model)
            fields = {"session": register.pk, "error": str(error), **metrics(SummaryFailed=1)}
            logger().warning("compaction failed", extra=fields)
            return None
        meter.add(usage_amounts(result.usage, price), Ending.of(result), model=config.model)
        return compaction.text_of(result.solution, register, self._settings)
