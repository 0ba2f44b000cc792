"""The reasoning of an answer with native calls, in the fields in which its provider wants it back.

Models that think between calls were trained to see what they thought before them. Which providers want it back, a
profile says (`Profile.past_reasoning`). The fields are the provider's own, opaque (some are signed or encrypted), and
go back unchanged: those of a message stand in the message, those of a call in the item of `tool_calls`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Fields = Mapping[str, Any]

#: Texts of a message: DeepSeek's and Moonshot's, and that of some servers of open weights.
_TEXTS = ("reasoning_content", "reasoning")
#: Lists of a message. `reasoning_details` is OpenRouter's; the others are the blocks of Anthropic's Messages API and
#: the items of OpenAI's Responses API, behind the form of the chat completions API.
_LISTS = ("reasoning_details", "thinking_blocks", "reasoning_items")
_OF_MESSAGES = (*_TEXTS, *_LISTS)
#: Of a call: Gemini's signature, and items of the Responses API that stand before it.
_OF_CALLS = ("extra_content", "reasoning_items")
#: Of an entry of `reasoning_details`: what comes in pieces.
_DETAILS_IN_PIECES = ("text", "summary", "data")


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The fields of an answer's message, and those of each of its calls, in order."""

    message: Fields
    calls: tuple[Fields, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.message) or any(self.calls)

    def as_dict(self) -> dict[str, Any]:
        return {"message": dict(self.message), "calls": [dict(fields) for fields in self.calls]}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Reasoning:
        """The inverse of `as_dict`."""
        return cls(value["message"], tuple(value["calls"]))

    def fields_of_call(self, index: int) -> Fields:
        return self.calls[index] if index < len(self.calls) else {}


def fields_of_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message that are its reasoning."""
    return {name: message[name] for name in _OF_MESSAGES if message.get(name)}


def fields_of_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a call, or of a piece of one, that are its reasoning."""
    return {name: call[name] for name in _OF_CALLS if call.get(name)}


class ReasoningCollector:
    """Takes the pieces of one answer's message."""

    __slots__ = ("_lists", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}

    def take(self, delta: Mapping[str, Any]) -> None:
        """Add the fields of a piece. What has another form than it should is ignored."""
        for name in _TEXTS:
            text = delta.get(name)
            if text and isinstance(text, str):
                self._texts.setdefault(name, []).append(text)
        for name in _LISTS:
            entries = delta.get(name)
            if entries and isinstance(entries, list):
                self._lists.setdefault(name, []).extend(entries)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields so far. Texts only show what stands in a list, if there is one."""
        if self._lists:
            return {
                name: _whole_details(entries) if name == "reasoning_details" else entries
                for name, entries in self._lists.items()
            }
        return {name: "".join(pieces) for name, pieces in self._texts.items()}


def _whole_details(pieces: Iterable[Any]) -> list[Any]:
    """The entries of `reasoning_details` whose pieces a stream has sent: those of one entry follow each other."""
    entries: list[dict[str, Any]] = []
    texts: list[dict[str, list[str]]] = []
    for piece in pieces:
        if not isinstance(piece, dict):
            continue
        last = entries[-1] if entries else {}
        if not entries or (piece.get("type"), piece.get("index")) != (last.get("type"), last.get("index")):
            entries.append(dict(piece))
            texts.append({})
        for name, value in piece.items():
            if name in _DETAILS_IN_PIECES and isinstance(value, str):
                texts[-1].setdefault(name, []).append(value)
            elif value is not None:
                entries[-1][name] = value
    return [
        {**entry, **{name: "".join(parts) for name, parts in texts_of_entry.items()}}
        for entry, texts_of_entry in zip(entries, texts, strict=True)
    ]
