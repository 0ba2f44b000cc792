"""What a finish reason means: providers have some forty of them, in all spellings."""

from __future__ import annotations

import re

from codelab.llm.errors import ContentFilter, ContextOverflow, Length, ModelError, Refusal, TransportError, Truncated
from codelab.llm.failures import FailureKind

#: The first that matches counts. All others (`stop`, `tool_calls`, `end_turn`, `eos`, …) end an answer as it should.
_WINDOW = re.compile(r"context.?(window|length)|model_context", re.IGNORECASE)
_LENGTH = re.compile(r"length|max.{0,8}tokens?|token.?limit", re.IGNORECASE)
_FILTER = re.compile(
    r"filter|safety|sensitive|recitation|guardrail|moderat|block|prohibited|spii|policy|harm", re.IGNORECASE
)
_REFUSAL = re.compile(r"refus", re.IGNORECASE)
_INTERRUPTION = re.compile(r"error|insufficient|abort|cancel|interrupt|timeout|malformed|unexpected", re.IGNORECASE)
#: What providers document as the proper end of an answer, and of one with calls only.
_ENDS_OF_CALLS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
_ENDS = _ENDS_OF_CALLS | {"stop", "end_turn", "stop_sequence", "stop_token", "eos", "eos_token", "end_of_text",
                          "complete", "completed", "finished", "done"}  # fmt: skip


def finish_error(reason: str | None) -> ModelError | None:
    """The error that a finish reason reports; None if it reports none. No reason at all is Truncated."""
    if not reason:
        return Truncated("the answer ended without a finish reason")
    reason = reason[:200]
    if _FILTER.search(reason):
        return ContentFilter(f"the provider's content filter stopped the answer ({reason})")
    if _WINDOW.search(reason):
        return ContextOverflow("the answer did not fit into the model's context", kind=FailureKind.WINDOW)
    if _LENGTH.search(reason):
        return Length("the answer did not fit into the output limit")
    if _REFUSAL.search(reason):
        return Refusal("the model refused")
    if _INTERRUPTION.search(reason):
        return TransportError(f"the provider broke off: {reason}", retryable=True, kind=FailureKind.BUSY)
    return None


def is_end(reason: str | None) -> bool:
    """Whether a finish reason says that nothing of the answer is missing."""
    return (reason or "").strip().lower() in _ENDS


def tells_of_calls(reason: str | None) -> bool:
    """Whether a finish reason says that the answer has calls."""
    return (reason or "").strip().lower() in _ENDS_OF_CALLS


def outweighs_answer(error: ModelError) -> bool:
    """Whether the error counts even if the answer is complete and valid."""
    return isinstance(error, ContentFilter | Refusal)
