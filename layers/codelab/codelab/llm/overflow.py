"""Recognises a provider's error about a context that is larger than the model's window.

There is no common code: OpenAI says `context_length_exceeded`, llama.cpp `exceed_context_size_error`; the others say it
in words.
"""

from __future__ import annotations

import re

from codelab.llm.errors import ContextOverflow, TransportError

_WORDS = re.compile(
    r"context_length_exceeded|exceed_context_size"
    r"|(maximum|available|exceeds?.{0,30}|larger than.{0,30}) context"
    r"|context (length|window|size|limit)s?\b.{0,40}exceed"
    r"|maximum (prompt|input|model) length|(prompt|input|request)( is|s are) too long"
    r"|input token count|maximum number of (input )?tokens|range of input length|reduce the length of",
    re.IGNORECASE | re.DOTALL,
)
#: A limit of a rate, which has other words for a request that is too large for it.
_RATE = re.compile(r"per (minute|second|hour|day)|rate.?limit|quota", re.IGNORECASE)
#: The statuses of an error about the request; None: it came within the answer. Some servers have no other than 500.
_STATUSES = frozenset({None, 400, 413, 422, 500})


def context_overflow(error: TransportError) -> ContextOverflow | None:
    """The error as what it is, if it is about the size of the context.

    >>> context_overflow(TransportError("prompt is too long: 210000 tokens > 200000 maximum", status=400)).code
    'context_overflow'
    """
    text = f"{error.message} {error.body}"
    if error.status not in _STATUSES or not _WORDS.search(text) or _RATE.search(text):
        return None
    return ContextOverflow(error.message, status=error.status, body=error.body)
