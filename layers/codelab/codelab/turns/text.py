"""Cuts long texts, and estimates their tokens."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codelab.llm.tokens import IMAGE_TOKENS, estimate_tokens
from codelab.sessions.items import CallRequest, dumps

#: Characters of a long text by which its tokens are estimated.
_SAMPLE = 8_000
#: The most characters of the note in an excerpt, without the call's id.
_NOTE_CHARS = 200
#: Texts in arguments are not cut shorter than this (characters).
_SHORTEST = 50


def head_and_tail(text: str, max_chars: int) -> str:
    """`text`, or about `max_chars` characters of its beginning and end, with a note of what was cut out."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters cut out …]\n{text[-half:] if half else ''}"


def excerpt(text: str, max_chars: int, call_id: str, length: int = 0) -> str:
    """Like `head_and_tail` for a call's result, with a note that tells the agent how to read the rest.

    `text` may itself be an excerpt of a result of `length` characters; it is then cut further.
    """
    if len(text) <= max_chars:
        return text
    if max_chars < _NOTE_CHARS:  # the note alone would be longer
        return text[:max_chars] + "…"
    half = max_chars // 2
    if length:  # the middle is the note of the first cut
        half = max(0, min(half, (len(text) - _NOTE_CHARS - len(call_id)) // 2))
    length = length or len(text)
    note = f"characters {half} to {length - half} of {length} cut out; to read on: read_result, call_id {call_id}"
    return f"{text[:half]}\n[… {note}, offset {half} …]\n{text[-half:] if half else ''}"


def token_estimate(text: str, *, once: bool = False) -> int:
    """The estimated tokens of a text; a long one is estimated from its beginning. `once`: see `estimate_tokens`."""
    if len(text) <= _SAMPLE:
        return estimate_tokens(text, once=once)
    return estimate_tokens(text[:_SAMPLE], once=once) * len(text) // _SAMPLE


def message_tokens(content: str, calls: Sequence[CallRequest], *, max_tokens: int, once: bool = False) -> int:
    """The estimated tokens of a message in a context, where it is cut to `max_tokens` tokens.

    `once`: see `estimate_tokens`.
    """
    tokens = sum(token_estimate(dumps(call.arguments), once=once) for call in calls) + token_estimate(
        content, once=once
    )
    return min(max_tokens, tokens)


def attached_tokens(summaries: Sequence[Mapping[str, Any]]) -> int:
    """The estimated tokens of the attachments with these summaries."""
    return sum(IMAGE_TOKENS if summary["type"] == "image" else summary["bytes"] // 4 for summary in summaries)


def within_bytes(text: str, max_bytes: int, shorten: Callable[[str, int], str] = head_and_tail) -> str:
    """`text`, cut by `shorten` to at most `max_bytes` bytes of UTF-8, or to little more than a note."""
    candidate, characters = text, len(text)
    while characters > 0 and (size := len(candidate.encode())) > max_bytes:
        characters = min(characters - 1, characters * max_bytes // size)
        candidate = shorten(text, characters)
    return candidate


def shortened(arguments: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """`arguments` with long texts cut, so that they have at most about `max_bytes` bytes as JSON."""
    candidate, longest = arguments, max_bytes
    while len(dumps(candidate).encode()) > max_bytes:
        longest //= 2
        if longest < _SHORTEST:
            return {"cut": within_bytes(dumps(arguments), max_bytes // 3)}
        candidate = _with_texts_cut(arguments, longest)
    return candidate


def _with_texts_cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return head_and_tail(value, longest)
    if isinstance(value, list):
        return [_with_texts_cut(child, longest) for child in value]
    if isinstance(value, dict):
        return {name: _with_texts_cut(child, longest) for name, child in value.items()}
    return value
