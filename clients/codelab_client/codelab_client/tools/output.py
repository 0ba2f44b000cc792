"""What a command wrote: its beginning and its end are kept, and pieces of it are streamed."""

import codecs
from collections import deque

from codelab_client.tools import limits


class Output:
    """The text of one stream, decoded as UTF-8 with U+FFFD for what is not."""

    def __init__(self, head: int = limits.OUTPUT_HEAD, tail: int = limits.OUTPUT_TAIL) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._head_left, self._tail_most = head, tail
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._left_out = 0
        self._fresh: list[str] = []
        self._newest, self._passed_over = "", 0  # what is fresh beyond the beginning, and how much was before that

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Add what was read; `final` at the end of the stream."""
        text = self._decoder.decode(data, final)
        beginning, remainder = text[: self._head_left], text[self._head_left :]
        self._head_left -= len(beginning)
        if beginning:
            self._head.append(beginning)
            self._fresh.append(beginning)
        if remainder:
            self._tail.append(remainder)
            self._tail_chars += len(remainder)
        if remainder and self._tail_most:
            surplus = max(0, len(self._newest) + len(remainder) - limits.PIECE_CHARS)
            self._passed_over += surplus
            self._newest = (self._newest + remainder)[surplus:]
        while self._tail and self._tail_chars - len(self._tail[0]) >= self._tail_most:
            piece = self._tail.popleft()
            self._tail_chars -= len(piece)
            self._left_out += len(piece)

    def fresh(self) -> str:
        """What was added since the last time; of what is beyond the beginning, which has no bound, the newest piece."""
        note = _left_out(self._passed_over) if self._passed_over else ""
        text = "".join(self._fresh) + note + self._newest
        self._fresh.clear()
        self._newest, self._passed_over = "", 0
        return text

    def text(self) -> str:
        """Everything, or its beginning and its end with a note between them."""
        tail = "".join(self._tail)
        surplus = max(0, len(tail) - self._tail_most)
        left_out = self._left_out + surplus
        note = _left_out(left_out) if left_out else ""
        return "".join(self._head) + note + tail[surplus:]


def _left_out(count: int) -> str:
    return f"\n[… {count} characters left out …]\n"
