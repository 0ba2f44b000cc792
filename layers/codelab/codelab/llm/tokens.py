"""Estimates how many tokens a text has, without a tokenizer.

The estimate counts the pieces that byte-pair tokenizers make: words with their leading space, short runs of digits,
punctuation, and about one token per character of scripts that are rare in their training data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from codelab.llm.past_reasoning import fields_of_message

_PIECES = re.compile(
    r"[ ]?[A-Za-z]+"
    r"|[ ]?\d{1,3}"
    r"|\s+"
    r"|[ ]?[!-/:-@\[-`{-~]{1,3}"  # marks
    r"|[ ]?[^\W\d_a-zA-Z]+"  # letters beyond ASCII
    r"|.",
    re.DOTALL,
)
#: The tokens of a message beside its content.
PER_MESSAGE = 4
#: Assumed for an image: providers count by its size, mostly less.
IMAGE_TOKENS = 1_000
#: The characters of a word that is one token, with its leading space.
_WORD = 8

#: Estimates by the hash of a text, because a history is estimated again at each step. The texts themselves are
#: somebody's, so they are not kept. The shortest texts are not cached: estimating them is as fast as a lookup.
_estimates: dict[int, int] = {}
_MAX_ESTIMATES, _SHORT = 2_048, 8


def estimate_tokens(text: str, *, once: bool = False) -> int:
    """The approximate number of tokens of a text.

    once: do not cache it, because the process will hardly need it again.
    """
    if once or len(text) < _SHORT:
        return _estimate(text)
    key = hash(text)
    tokens = _estimates.get(key)
    if tokens is None:
        tokens = _estimate(text)
        if len(_estimates) >= _MAX_ESTIMATES:
            _estimates.clear()
        _estimates[key] = tokens
    return tokens


def _estimate(text: str) -> int:
    pieces = _PIECES.findall(text)
    # A space alone is nearly always part of the next piece.
    tokens = len(pieces) - 0.9 * pieces.count(" ")
    for word in [piece for piece in pieces if len(piece) > _WORD]:
        if word.isascii() and word[-1].isalpha():
            tokens += (len(word) - _WORD) / 5
    if not text.isascii():
        for word in [piece for piece in pieces if not piece.isascii()]:
            if word[-1].isalnum() and not word[-1].isdecimal():
                tokens += _letters(word) - 1
    return round(tokens)


def _letters(word: str) -> float:
    """Letters beyond ASCII: about three per token in Cyrillic and the like, about one in ideographs."""
    if ord(word[-1]) >= 0x2E80:
        return len(word) * 1.1
    return 1 + len(word) / 3.2


def estimate_context(messages: list[dict[str, Any]]) -> int:
    """The approximate prompt tokens of chat messages."""
    return sum(map(estimate_message, messages))


def estimate_message(message: Mapping[str, Any]) -> int:
    """The approximate tokens of one chat message."""
    calls = message.get("tool_calls")
    call_tokens = estimate_tokens(json.dumps(calls)) + estimate_reasoning(message) if calls else 0
    return PER_MESSAGE + estimate_content(message.get("content")) + call_tokens


def estimate_reasoning(message: Mapping[str, Any]) -> int:
    """The approximate tokens of the reasoning that a message with calls repeats."""
    return sum(
        estimate_tokens(text if isinstance(text, str) else json.dumps(text))
        for text in fields_of_message(message).values()
    )


def estimate_content(content: Any) -> int:
    """The approximate tokens of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return estimate_tokens(content)
    if not isinstance(content, list):
        return estimate_tokens(json.dumps(content, ensure_ascii=False)) if content else 0
    return sum(map(_part, content))


def _part(part: Any) -> int:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "image_url":
        return IMAGE_TOKENS
    return estimate_tokens(part["text"] if kind == "text" else json.dumps(part, ensure_ascii=False))
