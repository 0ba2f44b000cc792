"""Assembles native calls of functions from the pieces in which an answer has them.

Providers do not agree on what tells two calls apart: an index for each (with gaps), the same index and another id, the
same id and another index, or nothing but a name after arguments that are complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from codelab.llm.past_reasoning import fields_of_call
from codelab.llm.reasoning import Separator
from codelab.llm.scanner import mend

#: The most calls of one answer: each costs memory, and no session makes as many.
_MOST_CALLS = 256


class CallPiece(NamedTuple):
    """New characters of a call's arguments. place: the call's in the answer. name: its name, as far as known."""

    place: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A call as the model wrote it. arguments: JSON, if the model made no mistake. reasoning: see `past_reasoning`."""

    name: str
    arguments: str
    reasoning: Mapping[str, Any] = field(default_factory=dict)


class _OpenCall:
    """A call whose pieces may still come."""

    __slots__ = ("arguments", "call_id", "name", "place", "reasoning")

    def __init__(self, place: int, call_id: Any, thoughts: list[str]) -> None:
        self.place = place
        self.call_id = call_id
        self.name = ""
        self.arguments = Separator(thoughts)
        self.reasoning: dict[str, Any] = {}

    def take(self, name: Any, arguments: Any) -> CallPiece:
        """Add a piece; return what it adds to the arguments."""
        text = ""
        if name and name != self.name:  # some providers repeat the name in every piece
            self.name += name
        if arguments:
            # Some proxies pass Ollama's native arguments through, which are objects.
            text = self.arguments.feed(arguments if isinstance(arguments, str) else json.dumps(arguments))
        return CallPiece(self.place, self.name, text)

    def is_over(self, call_id: Any, name: Any, arguments: Any) -> bool:
        """Whether a piece at the same index belongs to another call."""
        if not name:
            return False
        if call_id and self.call_id and call_id != self.call_id:
            return True
        # A piece that only repeats the name may follow a complete call.
        return self.arguments.complete and bool(arguments or not call_id or name != self.name)


class CallAssembler:
    """Takes the pieces of one answer's calls.

    thoughts: receives thoughts that stand among the arguments. pieces: receives the arguments, piece by piece.
    """

    __slots__ = ("_by_index", "_calls", "_pieces", "_thoughts")

    def __init__(self, thoughts: list[str], pieces: list[CallPiece]) -> None:
        self._thoughts, self._pieces = thoughts, pieces
        self._calls: list[_OpenCall] = []
        self._by_index: dict[Any, _OpenCall] = {}

    def __bool__(self) -> bool:
        """Whether any call has begun."""
        return bool(self._calls)

    def take(self, piece: Mapping[str, Any], *, is_whole: bool) -> None:
        """Add an item of `tool_calls`. is_whole: it is all of a call.

        Raises AttributeError or TypeError if it does not have the form of an item, ValueError if there are too many.
        """
        function = piece.get("function") or {}
        index, call_id = piece.get("index"), piece.get("id")
        name, arguments = function.get("name"), function.get("arguments")
        call = self._by_index.get(index) if index is not None else next(reversed(self._calls), None)
        if call is None or is_whole or call.is_over(call_id, name, arguments):
            if len(self._calls) >= _MOST_CALLS:
                raise ValueError(f"there are more than {_MOST_CALLS} calls")
            call = _OpenCall(len(self._calls), call_id, self._thoughts)
            self._calls.append(call)
        self._by_index[index] = call
        self._pieces.append(call.take(name, arguments))
        call.reasoning |= fields_of_call(piece)

    def finish(self) -> None:
        """End the answer."""
        for call in self._calls:
            call.arguments.finish()

    @property
    def calls(self) -> list[NativeCall]:
        """The calls in the order in which they began."""
        return [NativeCall(call.name, mend(call.arguments.text), call.reasoning) for call in self._calls]
