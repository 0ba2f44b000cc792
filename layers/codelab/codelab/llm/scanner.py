"""An incremental JSON scanner for streams.

It takes pieces of JSON text, cut anywhere, and reports the characters of chosen string fields while the string is still
open, and each item of one chosen array at its last character. It looks at each character once, so the cost is linear.
It does not validate: the caller parses the whole text at the end.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from codelab.llm.outcome import ItemDone, TextDelta

Path = tuple[str | int, ...]

_STRING_END = re.compile(r'["\\]')
_STRUCTURE = re.compile(r'["{}\[\],]')
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ROOT = re.compile(r'\{\s*["}]')
_ROOT_BEGUN = re.compile(r"\{\s*\Z")
_HEX = frozenset("0123456789abcdefABCDEF")

_BEFORE, _STRUCT, _TEXT, _KEY, _SKIP, _AFTER = range(6)


def finite(digits: str) -> float:
    """A number; one that no double can hold, such as 1e999, is the largest one."""
    number = float(digits)
    return math.copysign(sys.float_info.max, number) if math.isinf(number) else number


def _reject(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


#: JSON as models write it: control characters may stand in strings. Numbers are finite: NaN and Infinity are no JSON.
DECODER = json.JSONDecoder(strict=False, parse_float=finite, parse_constant=_reject)


def mend(text: str) -> str:
    """Join surrogate pairs that pieces have split. An unpaired surrogate becomes U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Mender:
    """Mends a text in pieces: the first half of a surrogate pair is held back until the other half comes."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is complete."""
        if not piece or (piece.isascii() and not self._half):
            return piece
        piece = self._half + piece
        self._half = piece[-1] if "\ud800" <= piece[-1] <= "\udbff" else ""
        return mend(piece[:-1] if self._half else piece)

    def finish(self) -> str:
        """End the text; return the rest."""
        half, self._half = self._half, ""
        return mend(half)


class Scanner:
    """Feed it pieces; it returns the events that each piece completes.

    fields: the paths of the string fields to report. items: the path of the array whose items to report. A path is a
    sequence of keys and indices from the root; "*" stands for any. prose: skip text before the first JSON object, such
    as an introduction or a code fence. The text must not contain thoughts (see `reasoning`).
    """

    __slots__ = (
        "_capture",
        "_carry",
        "_depths",
        "_exact",
        "_expect_key",
        "_field",
        "_index",
        "_item_depth",
        "_items",
        "_items_exact",
        "_key",
        "_levels",
        "_mode",
        "_parts",
        "_path",
        "_prose",
        "_skip_next",
        "_stack",
        "_wild",
        "attempt",
    )

    def __init__(
        self,
        fields: Iterable[Sequence[str | int]] = (),
        items: Sequence[str | int] | None = None,
        *,
        prose: bool = False,
        attempt: int = 1,
    ) -> None:
        paths = [tuple(path) for path in fields]
        self._exact = {path: _name(path) for path in paths if "*" not in path}
        self._wild = [path for path in paths if "*" in path]
        self._depths = {len(path) for path in paths}
        self._items = tuple(items) if items is not None else None
        self._items_exact = self._items is not None and "*" not in self._items
        self._levels = max([len(path) for path in paths] + [len(self._items or ())], default=0)
        self._prose = prose
        self._mode = _BEFORE
        self._stack: list[str] = []  # open brackets
        self._path: list[str | int] = []  # the current key or index in each of them
        self._expect_key = False
        self._key: list[str] = []
        self._field = ""
        self._carry = ""  # an incomplete escape or root
        self._skip_next = False
        self._item_depth = -1
        self._index = 0
        self._capture = False
        self._parts: list[str] = []
        self.attempt = attempt

    @property
    def complete(self) -> bool:
        """Whether the root value is closed."""
        return self._mode == _AFTER

    @property
    def open_field(self) -> str:
        """The reported string whose closing quote has not come; empty if there is none."""
        return self._field if self._mode == _TEXT else ""

    def feed(self, piece: str) -> list[TextDelta | ItemDone]:
        """Take the next piece of text; return the events that it completes, in order."""
        mode = self._mode
        if mode == _TEXT and not self._carry and not self._capture:
            # Nearly all pieces of a long answer: inside a streamed string, without special characters.
            if '"' not in piece and "\\" not in piece and piece.isascii():
                return [TextDelta(self._field, piece)] if piece else []
        elif mode == _AFTER:
            return []
        return self._scan(piece)

    def _scan(self, piece: str) -> list[TextDelta | ItemDone]:
        if self._carry:
            piece = self._carry + piece
            self._carry = ""
        events: list[TextDelta | ItemDone] = []
        position, end = 0, len(piece)
        item_offset = 0  # the captured item is stored up to here
        while position < end:
            mode = self._mode
            if mode == _STRUCT:
                match = _STRUCTURE.search(piece, position)
                if match is None:
                    break
                char = match.group()
                start = match.start()
                position = start + 1
                if char == '"':
                    self._open_string()
                elif char == ",":
                    if self._stack and self._stack[-1] == "{":
                        self._expect_key = True
                    else:
                        if self._capture and len(self._stack) == self._item_depth:
                            self._parts.append(piece[item_offset:start])
                            self._finish_scalar(events)
                        if self._stack:
                            self._path[-1] += 1  # type: ignore[operator]
                        if len(self._stack) == self._item_depth:
                            self._capture = True
                            item_offset = position
                elif char in "{[":
                    self._open(char)
                    if char == "[" and len(self._stack) == self._item_depth and not self._capture:
                        self._capture = True
                        item_offset = position
                else:
                    if self._capture:
                        is_nested = len(self._stack) > self._item_depth
                        self._parts.append(piece[item_offset : position if is_nested else start])
                        item_offset = position
                        if not is_nested:
                            self._finish_scalar(events)
                    self._close(events)
            elif mode == _SKIP:
                if self._skip_next:
                    self._skip_next = False
                    position += 1
                    continue
                match = _STRING_END.search(piece, position)
                if match is None:
                    break
                position = match.end()
                if match.group() == "\\":
                    self._skip_next = True
                else:
                    self._mode = _STRUCT
                    if self._capture and len(self._stack) == self._item_depth:
                        self._parts.append(piece[item_offset:position])
                        item_offset = position
                        self._finish_item(events)
            elif mode == _BEFORE:
                position = self._find_root(piece, position)
                item_offset = position
            elif mode == _AFTER:
                break
            else:
                text_end, text = self._string(piece, position)
                if mode == _KEY:
                    self._key.append(text)
                elif text:
                    last_event = events[-1] if events else None
                    if isinstance(last_event, TextDelta) and last_event.field == self._field:
                        last_event.text += text
                    else:
                        events.append(TextDelta(self._field, text))
                if self._carry:
                    end = text_end
                    break
                position = text_end
                if self._mode == _STRUCT:
                    if mode == _KEY:
                        self._path[-1] = "".join(self._key)
                    elif self._capture and len(self._stack) == self._item_depth:
                        self._parts.append(piece[item_offset:position])
                        item_offset = position
                        self._finish_item(events)
        if self._capture and item_offset < end:
            self._parts.append(piece[item_offset:end])
        return events

    def _find_root(self, piece: str, position: int) -> int:
        """Where the root begins, or the end of the piece. Carry over what may still become a root."""
        if not self._prose:
            for i in range(position, len(piece)):
                if piece[i] in "{[":
                    self._mode = _STRUCT
                    return i
            return len(piece)
        text = piece[position:]
        root = _ROOT.search(text)
        if root is None:
            root_start = _ROOT_BEGUN.search(text)
            if root_start is not None:
                self._carry = "{"  # the spaces behind it say nothing, however many come
            return len(piece)
        self._mode = _STRUCT
        return position + root.start()

    def _open_string(self) -> None:
        depth = len(self._stack)
        if self._expect_key:
            self._expect_key = False
            if depth <= self._levels:
                self._key = []
                self._mode = _KEY
                return
        elif depth in self._depths:
            field = self._streamed()
            if field is not None:
                self._field = field
                self._mode = _TEXT
                return
        self._mode = _SKIP

    def _streamed(self) -> str | None:
        path = tuple(self._path)
        if path in self._exact:
            return self._exact[path]
        return _name(path) if any(_matches(path, pattern) for pattern in self._wild) else None

    def _open(self, char: str) -> None:
        if (
            char == "["
            and self._items is not None
            and self._item_depth < 0
            and len(self._stack) == len(self._items)
            and (tuple(self._path) == self._items if self._items_exact else _matches(tuple(self._path), self._items))
        ):
            self._item_depth = len(self._stack) + 1
            self._parts = []
        self._stack.append(char)
        self._path.append("" if char == "{" else 0)
        self._expect_key = char == "{"

    def _close(self, events: list[TextDelta | ItemDone]) -> None:
        if self._stack:
            self._stack.pop()
            self._path.pop()
        self._expect_key = False
        depth = len(self._stack)
        if depth == self._item_depth and self._capture:
            self._finish_item(events)
        elif depth < self._item_depth:
            self._item_depth = -1
            self._capture = False
        if not self._stack:
            self._mode = _AFTER

    def _finish_item(self, events: list[TextDelta | ItemDone]) -> None:
        text = "".join(self._parts)
        self._parts = []
        self._capture = False
        try:
            value: Any = DECODER.decode(mend_escapes(mend(text)))
        except (ValueError, RecursionError):
            return  # not JSON; parsing the whole answer reports it
        events.append(ItemDone(self._index, value, self.attempt))
        self._index += 1

    def _finish_scalar(self, events: list[TextDelta | ItemDone]) -> None:
        if any(part and not part.isspace() for part in self._parts):
            self._finish_item(events)
        self._parts = []
        self._capture = False

    def _string(self, piece: str, position: int) -> tuple[int, str]:
        """Decode string characters from `position` on, up to the closing quote or an incomplete escape."""
        match = _STRING_END.search(piece, position)
        texts: list[str] = []
        while match is not None:
            text_end = match.start()
            if text_end > position:
                texts.append(piece[position:text_end])
            if match.group() == '"':
                self._mode = _STRUCT
                return text_end + 1, mend("".join(texts))
            char, position = _unescape(piece, text_end)
            if position < 0:
                self._carry = piece[text_end:]
                return text_end, mend("".join(texts))
            texts.append(char)
            match = _STRING_END.search(piece, position)
        tail = piece[position:]
        end = len(piece)
        if tail and "\ud800" <= tail[-1] <= "\udbff":
            self._carry = tail[-1]
            tail = tail[:-1]
            end -= 1
        texts.append(tail)
        return end, mend("".join(texts))


class TextScanner:
    """A scanner of an answer that is the text of `field` itself, not JSON. is_reported: report its characters."""

    #: Only the finish reason tells whether the text has ended.
    open_field = ""

    def __init__(self, field: str, *, is_reported: bool) -> None:
        self._field = field
        self._is_reported = is_reported

    def feed(self, piece: str) -> list[TextDelta | ItemDone]:
        """Take the next piece of text; return it as an event if it is reported."""
        return [TextDelta(self._field, piece)] if self._is_reported else []


def _unescape(piece: str, position: int) -> tuple[str, int]:
    """The character of the escape at `position`, and the position after it, or -1 if it is incomplete."""
    if position + 1 >= len(piece):
        return "", -1
    kind = piece[position + 1]
    if kind != "u":
        return _ESCAPES.get(kind, kind), position + 2
    digits = piece[position + 2 : position + 6]
    if not _HEX.issuperset(digits):
        return "\ufffd", position + 2
    if len(digits) < 4:
        return "", -1
    code = int(digits, 16)
    escape_end = position + 6
    if not 0xD800 <= code <= 0xDFFF:
        return chr(code), escape_end
    if code <= 0xDBFF:
        low_escape = piece[escape_end : escape_end + 6]
        if len(low_escape) < 6 and "\\u".startswith(low_escape[:2]) and _HEX.issuperset(low_escape[2:]):
            return "", -1
        if low_escape[:2] == "\\u" and len(low_escape) == 6 and _HEX.issuperset(low_escape[2:]):
            low_surrogate = int(low_escape[2:], 16)
            if 0xDC00 <= low_surrogate <= 0xDFFF:
                return chr(0x10000 + ((code - 0xD800) << 10) + (low_surrogate - 0xDC00)), escape_end + 6
    return "\ufffd", escape_end


_PAIR_OR_HALF = re.compile(
    r"(\\\\)|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def mend_escapes(text: str) -> str:
    r"""Replace unpaired escapes such as `\ud83d` with `\ufffd`, so that the parsed text can be encoded as UTF-8."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _PAIR_OR_HALF.sub(lambda m: m.group() if m.group(1) or m.group(2) else "\\ufffd", text)


def _name(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path))


def _matches(path: Path, pattern: Path) -> bool:
    return len(path) == len(pattern) and all(b in ("*", a) for a, b in zip(path, pattern, strict=True))
