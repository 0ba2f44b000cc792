"""Estimates how many tokens a text has, without a tokenizer.

The estimate counts the pieces that byte-pair tokenizers make: words with their leading space, short runs of digits,
punctuation, and about one token per character of scripts that are rare in their training data.
"""

from __future__ import annotations

import json
import re
from typing import Any

_PIECES = re.compile(
    r"(?P<word>[ ]?[A-Za-z]+)"
    r"|(?P<digits>[ ]?\d{1,3})"
    r"|(?P<space>\s+)"
    r"|(?P<mark>[ ]?[!-/:-@\[-`{-~]{1,3})"
    r"|(?P<letter>[ ]?[^\W\d_a-zA-Z]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_PER_MESSAGE = 4


def estimate_tokens(text: str) -> int:
    """The approximate number of tokens of a text."""
    tokens = 0.0
    for found in _PIECES.finditer(text):
        kind = found.lastgroup
        size = found.end() - found.start()
        if kind == "word":
            tokens += 1 if size <= 8 else 1 + (size - 8) / 5
        elif kind == "space":
            tokens += 1 if size > 1 or found.group() != " " else 0.1
        elif kind == "letter":
            tokens += _letters(found.group())
        else:
            tokens += 1
    return round(tokens)


def _letters(word: str) -> float:
    """Letters beyond ASCII: about three per token in Cyrillic and the like, about one in ideographs."""
    if ord(word[-1]) >= 0x2E80:
        return len(word) * 1.1
    return 1 + len(word) / 3.2


def estimate_context(messages: list[dict[str, Any]]) -> int:
    """The approximate prompt tokens of chat messages."""
    total = 0
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) if content else ""
        calls = message.get("tool_calls")
        total += _PER_MESSAGE + estimate_tokens(text) + (estimate_tokens(json.dumps(calls)) if calls else 0)
    return total
