"""The strings of items that are not complete: what the model has written of its calls so far, see `ItemDelta`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codelab.llm.call_schema import TOOL
from codelab.llm.functions import Functions
from codelab.llm.native_calls import CallPiece
from codelab.llm.outcome import ItemDelta, TextDelta
from codelab.llm.scanner import Scanner

#: The strings of an item that are reported, such as `content`, `paths.0` and `edits.0.new`.
_STRINGS = [("*",) * depth for depth in (1, 2, 3)]
#: The most digits of an item's index: a hostile key that stands in its place is none.
_INDEX_DIGITS = 4


def string_paths(items: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths of the strings in the items of an array, for a `Scanner` of the whole answer."""
    return [(*items, "*", *path) for path in _STRINGS]


def item_delta(event: TextDelta, items: tuple[str, ...]) -> ItemDelta | None:
    """The event of such a `Scanner`, if it is about an item of the array."""
    prefix = ".".join(items) + "."
    if not event.field.startswith(prefix):
        return None
    index, _, name = event.field[len(prefix) :].partition(".")
    is_item = index.isdecimal() and len(index) <= _INDEX_DIGITS
    return ItemDelta(int(index), name, event.text) if is_item else None


class NativeItems:
    """Reads the strings in the arguments of native calls while they are written."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._scanners: dict[int, Scanner] = {}

    def feed(self, pieces: Iterable[CallPiece]) -> Iterator[ItemDelta]:
        """Take the next pieces. A call of an unknown function is left out."""
        for index, name, text in pieces:
            tool = self._functions.tool_of(name)
            if not text or tool is None:
                continue
            if index not in self._scanners:
                self._scanners[index] = Scanner(_STRINGS)
                yield ItemDelta(index, TOOL, tool)
            for event in self._scanners[index].feed(text):
                if isinstance(event, TextDelta):
                    yield ItemDelta(index, event.field, event.text)
