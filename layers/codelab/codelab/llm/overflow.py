"""Recognises a provider's error about a context that is larger than the model's window."""

from __future__ import annotations

from codelab.llm.errors import ContextOverflow, TransportError
from codelab.llm.failures import FailureKind, kind_of


def context_overflow(error: TransportError) -> ContextOverflow | None:
    """The error as what it is, if it is about the size of the context.

    >>> context_overflow(TransportError("prompt is too long: 210000 tokens > 200000 maximum", status=400)).code
    'context_overflow'
    """
    is_known = error.kind is FailureKind.WINDOW
    if not is_known and kind_of(error.status, None, f"{error.message} {error.body}") is not FailureKind.WINDOW:
        return None
    return ContextOverflow(error.message, status=error.status, body=error.body, kind=FailureKind.WINDOW)
