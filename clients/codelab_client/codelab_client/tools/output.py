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
        while self._tail and self._tail_chars - len(self._tail[0]) >= self._tail_most:
            piece = self._tail.popleft()
            self._tail_chars -= len(piece)
            self._left_out += len(piece)

    def fresh(self) -> str:
        """What was added to the beginning since the last time. The rest is not streamed: it is not bounded."""
        text = "".join(self._fresh)
        self._fresh.clear()
        return text

    def text(self) -> str:
        """Everything, or its beginning and its end with a note between them."""
        tail = "".join(self._tail)
        surplus = max(0, len(tail) - self._tail_most)
        left_out = self._left_out + surplus
        note = f"\n[… {left_out} characters left out …]\n" if left_out else ""
        return "".join(self._head) + note + tail[surplus:]
