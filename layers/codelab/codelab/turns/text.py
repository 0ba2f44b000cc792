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


def head_and_tail(text: str, most: int) -> str:
    """`text`, or about `most` characters of its beginning and end, with a note of what was cut out."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters cut out …]\n{text[-half:] if half else ''}"


def excerpt(text: str, most: int, call_id: str, whole: int = 0) -> str:
    """Like `head_and_tail` for a call's result, with a note that tells the agent how to read the rest.

    `text` may itself be an excerpt of a result of `whole` characters; it is then cut further.
    """
    if len(text) <= most:
        return text
    if most < _NOTE_CHARS:  # the note alone would be longer
        return text[:most] + "…"
    half = most // 2
    if whole:  # the middle is the note of the first cut
        half = max(0, min(half, (len(text) - _NOTE_CHARS - len(call_id)) // 2))
    whole = whole or len(text)
    note = f"characters {half} to {whole - half} of {whole} cut out; to read on: read_result, call_id {call_id}"
    return f"{text[:half]}\n[… {note}, offset {half} …]\n{text[-half:] if half else ''}"


def token_estimate(text: str, *, once: bool = False) -> int:
    """The estimated tokens of a text; a long one is estimated from its beginning. `once`: see `estimate_tokens`."""
    if len(text) <= _SAMPLE:
        return estimate_tokens(text, once=once)
    return estimate_tokens(text[:_SAMPLE], once=once) * len(text) // _SAMPLE


def message_tokens(content: str, calls: Sequence[CallRequest], *, most: int, once: bool = False) -> int:
    """The estimated tokens of a message in a context, where it is cut to `most` tokens. `once`: as there."""
    found = sum(token_estimate(dumps(call.arguments), once=once) for call in calls) + token_estimate(content, once=once)
    return min(most, found)


def attached_tokens(summaries: Sequence[Mapping[str, Any]]) -> int:
    """The estimated tokens of what is attached to a message, by what is said of it."""
    return sum(IMAGE_TOKENS if found["type"] == "image" else found["bytes"] // 4 for found in summaries)


def within_bytes(text: str, most: int, cut: Callable[[str, int], str] = head_and_tail) -> str:
    """`text`, cut by `cut` to at most `most` bytes of UTF-8, or to little more than a note."""
    kept, characters = text, len(text)
    while characters > 0 and (size := len(kept.encode())) > most:
        characters = min(characters - 1, characters * most // size)
        kept = cut(text, characters)
    return kept


def shortened(arguments: dict[str, Any], most: int) -> dict[str, Any]:
    """`arguments` with long texts cut, so that they have at most about `most` bytes as JSON."""
    kept, longest = arguments, most
    while len(dumps(kept).encode()) > most:
        longest //= 2
        if longest < _SHORTEST:
            return {"cut": within_bytes(dumps(arguments), most // 3)}
        kept = _with_texts_cut(arguments, longest)
    return kept


def _with_texts_cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return head_and_tail(value, longest)
    if isinstance(value, list):
        return [_with_texts_cut(inner, longest) for inner in value]
    if isinstance(value, dict):
        return {name: _with_texts_cut(inner, longest) for name, inner in value.items()}
    return value
