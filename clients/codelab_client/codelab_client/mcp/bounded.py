"""Messages of a server, of which no more is kept than the agent could get: the rest is not even read into memory.

An answer that is too long becomes the answer to the same call with the text that was read, and a note.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

#: Bytes of one message that are read. The text in it may be a sixth of that, because JSON escapes characters.
MOST_BYTES = 4_000_000
#: Bytes of the end of a longer one that are kept: servers may write the id behind the result.
_TAIL_BYTES = 4_096
#: The id as the last field of an answer, or the last but one.
_ID = re.compile(rb'"id"\s*:\s*("[^"\\]{0,200}"|-?\d{1,20})\s*(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?\}\s*$')
_IS_ERROR = re.compile(rb'"isError"\s*:\s*true')
#: Bytes of a broken character or escape sequence at the end.
_BROKEN_BYTES = 16


class Line(NamedTuple):
    """A line of `size` bytes: its beginning, which may be all of it, and the end of a longer one."""

    head: bytes
    tail: bytes
    size: int

    def message(self) -> bytes:
        """The line as a message. A longer one becomes the answer with what was read of its texts.

        It becomes empty if it is no answer.
        """
        if self.size <= len(self.head):
            return self.head
        return _shortened(self)


class Lines:
    """Splits what a server writes into lines, of which at most `limit` bytes are kept, and the end."""

    def __init__(self, limit: int = MOST_BYTES) -> None:
        self._limit = limit
        self._head, self._tail, self._size = bytearray(), b"", 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that end in this data."""
        *ends, tail = data.split(b"\n")
        for end in ends:
            self.add(end)
            yield self.end()
        self.add(tail)

    def add(self, data: bytes) -> None:
        """More of the same line."""
        self._size += len(data)
        self._head += data[: max(0, self._limit - len(self._head))]
        if self._size > self._limit:
            self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def end(self) -> Line:
        """The line, which ends here."""
        line = Line(bytes(self._head), self._tail, self._size)
        self._head, self._tail, self._size = bytearray(), b"", 0
        return line


def _shortened(line: Line) -> bytes:
    message = _read_part(line.head)
    last = _ID.search(line.tail)
    number = json.loads(last[1]) if last is not None else message.get("id")
    if number is None or "method" in message:
        return b""
    extent = f"{line.size:,} bytes, of which the first {len(line.head):,} were read"
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
    result = message.get("result")
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(content, list):
        return json.dumps({**answer, "error": {"code": -32_000, "message": f"The answer has {extent}"}}).encode()
    texts = [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]
    blocks = [{"type": "text", "text": text} for text in (f"[The result has {extent}]", *texts)]
    is_error = result.get("isError") is True or bool(_IS_ERROR.search(line.tail))
    return json.dumps({**answer, "result": {"content": blocks, "isError": is_error}}).encode("utf-8", "replace")


def _read_part(head: bytes) -> dict[str, Any]:
    """The beginning of a JSON object as far as it goes; empty if it is none."""
    from pydantic_core import from_json

    for cut in range(_BROKEN_BYTES):
        try:
            message = from_json(head[: len(head) - cut], allow_partial="trailing-strings")
        except ValueError:
            continue
        return message if isinstance(message, dict) else {}
    return {}
