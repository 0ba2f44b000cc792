"""Reads HTTP/1.1 answers from a connection: the head, then the body in pieces (RFC 9112).

`http.client` reads a head with the parser for e-mails and a body chunk by chunk, which takes longer than all else that
a call of an AWS service does in this process.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from typing import NamedTuple

#: The most bytes of a head with the early hints before it, of trailers, and of a line between chunks.
_HEAD_BYTES, _LINE_BYTES = 256 << 10, 16 << 10
_BEGINNING = b"HTTP/1."
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01])[ \t]+([1-9][0-9]{2})(?:[ \t\r]|$)")
_DIGITS = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;|$)")

#: Returns the bytes that arrive next; none at the connection's end.
Receive = Callable[[], bytes]


class Head(NamedTuple):
    """The names in `headers` are in lower case; of two with the same name, the first counts.

    length: the bytes of the body; None if it is chunked, or ends with the connection. keeps_alive: the connection can
    be used again once the body has been read.
    """

    status: int
    headers: Mapping[str, str]
    length: int | None
    is_chunked: bool
    keeps_alive: bool


def read_answer(receive: Receive, first_bytes: bytes = b"") -> tuple[Head, bytes]:
    """The head and the whole body of the final answer. Takes and raises what `read_head` and `read_body` do."""
    head, body_bytes = read_head(receive, first_bytes)
    return head, b"".join(read_body(head, body_bytes, receive))


def read_head(receive: Receive, first_bytes: bytes = b"") -> tuple[Head, bytes]:
    """The head of the final answer, and the bytes that arrived after it. Early hints are skipped.

    first_bytes: the bytes that were read before. Raises HTTPException for what is none, RemoteDisconnected if the
    connection ends before it, and what `receive` does.
    """
    data = first_bytes
    search_from = 0  # no end of a head begins before
    hint_bytes = 0  # of early hints
    while True:
        head_end = _HEAD_END.search(data, search_from)
        if head_end is not None:
            head = _parsed(data[: head_end.start()])
            if head.status >= HTTPStatus.OK or head.status == HTTPStatus.SWITCHING_PROTOCOLS:
                return head, data[head_end.end() :]
            data, search_from, hint_bytes = data[head_end.end() :], 0, hint_bytes + head_end.end()
            continue
        if not _BEGINNING.startswith(data[: len(_BEGINNING)]):
            raise BadStatusLine(data[:80].decode("latin-1"))  # at once: a server that speaks no HTTP may wait for us
        if hint_bytes + len(data) > _HEAD_BYTES:
            raise HTTPException("the answer's head is too long")
        search_from = max(0, len(data) - len(b"\r\n\r"))
        piece = receive()
        if not piece:
            raise IncompleteRead(data) if data else RemoteDisconnected("the connection was closed without an answer")
        data += piece


def _parsed(head: bytes) -> Head:
    if b"\n " in head or b"\n\t" in head:
        head = _FOLD.sub(b" ", head)
    first_line, *lines = head.split(b"\n")
    status_line = _STATUS_LINE.match(first_line)
    if status_line is None:
        raise BadStatusLine(first_line[:80].decode("latin-1"))
    status = int(status_line[2])
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise HTTPException("a header has no colon")
        headers.setdefault(name.strip().lower(), value.strip())
    is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
    length: int | None = None
    if status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        is_chunked, length = False, 0
    elif not is_chunked and _DIGITS.fullmatch(content_length := headers.get("content-length", "")):
        length = int(content_length)
    connection = headers.get("connection", "").lower()
    keeps_alive = "close" not in connection if status_line[1] == b"1" else "keep-alive" in connection
    # Without a known end, or with a body that must not be there, nobody knows where the next answer begins.
    has_end = is_chunked or (length is not None and not (length == 0 and "transfer-encoding" in headers))
    return Head(status, headers, length, is_chunked, keeps_alive and has_end)


def read_body(head: Head, first_piece: bytes, receive: Receive) -> Iterator[bytes]:
    """The body; what arrived together comes in one piece. `first_piece` are the bytes behind the head.

    Raises IncompleteRead if the connection ends before the body, HTTPException for what is no chunk, and what `receive`
    does.
    """
    if head.is_chunked:
        yield from _unchunked(first_piece, receive)
        return
    remaining_bytes = head.length
    piece = first_piece if remaining_bytes is None else first_piece[:remaining_bytes]
    while True:
        if piece:
            yield piece
        if remaining_bytes is not None:
            remaining_bytes -= len(piece)
            if not remaining_bytes:
                return
        piece = receive()
        if not piece:
            if remaining_bytes:
                raise IncompleteRead(b"", remaining_bytes)
            return
        if remaining_bytes is not None:
            piece = piece[:remaining_bytes]


def _unchunked(first_piece: bytes, receive: Receive) -> Iterator[bytes]:
    """The data of a chunked body (section 7.1), of as many chunks as arrived together."""
    # remaining_bytes: of a chunk; awaits_line_break: it follows the chunk; trailers: their bytes.
    incomplete_line, remaining_bytes, awaits_line_break, is_last, trailers = b"", 0, False, False, 0
    piece = first_piece or receive()
    while True:
        if not piece:
            raise IncompleteRead(incomplete_line)
        data, position, parts = incomplete_line + piece if incomplete_line else piece, 0, []
        while position < len(data):
            if remaining_bytes:
                part = data[position : position + remaining_bytes]
                parts.append(part)
                position += len(part)
                remaining_bytes -= len(part)
                if remaining_bytes:
                    break
            end = data.find(b"\n", position)
            if end < 0:
                break
            line = data[position:end].rstrip(b"\r")
            position = end + 1
            if awaits_line_break:
                if line:
                    raise HTTPException("a chunk is longer than its size")
                awaits_line_break = False
            elif is_last:
                if not line:  # after the trailers
                    if parts:
                        yield b"".join(parts)
                    return
                trailers += len(line)
                if trailers > _HEAD_BYTES:
                    raise HTTPException("the trailers are too long")
            else:
                size = _CHUNK_SIZE.match(line)
                if size is None:
                    raise HTTPException("a chunk has no size")
                remaining_bytes = int(size[1], 16)
                awaits_line_break, is_last = remaining_bytes > 0, remaining_bytes == 0
        incomplete_line = data[position:]
        if len(incomplete_line) > _LINE_BYTES:
            raise HTTPException("a line between chunks is too long")
        if parts:
            yield b"".join(parts) if len(parts) > 1 else parts[0]
        piece = receive()
