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
Read = Callable[[], bytes]


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


def read_head(read: Read) -> tuple[Head, bytes]:
    """The head of the final answer, and the bytes that arrived after it. Early hints are skipped.

    Raises HTTPException for what is none, RemoteDisconnected if the connection ends before it, and what `read` does.
    """
    data, seen, hinted = b"", 0, 0  # seen: bytes without the beginning of an end; hinted: bytes of early hints
    while True:
        found = _HEAD_END.search(data, seen)
        if found is not None:
            head = _parsed(data[: found.start()])
            if head.status >= HTTPStatus.OK or head.status == HTTPStatus.SWITCHING_PROTOCOLS:
                return head, data[found.end() :]
            data, seen, hinted = data[found.end() :], 0, hinted + found.end()
            continue
        if not _BEGINNING.startswith(data[: len(_BEGINNING)]):
            raise BadStatusLine(data[:80].decode("latin-1"))  # at once: who speaks no HTTP may wait for us
        if hinted + len(data) > _HEAD_BYTES:
            raise HTTPException("the answer's head is too long")
        seen = max(0, len(data) - len(b"\r\n\r"))
        more = read()
        if not more:
            raise IncompleteRead(data) if data else RemoteDisconnected("the connection was closed without an answer")
        data += more


def _parsed(head: bytes) -> Head:
    if b"\n " in head or b"\n\t" in head:
        head = _FOLD.sub(b" ", head)
    first, *lines = head.split(b"\n")
    status_line = _STATUS_LINE.match(first)
    if status_line is None:
        raise BadStatusLine(first[:80].decode("latin-1"))
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
    elif not is_chunked and _DIGITS.fullmatch(told := headers.get("content-length", "")):
        length = int(told)
    connection = headers.get("connection", "").lower()
    keeps_alive = "close" not in connection if status_line[1] == b"1" else "keep-alive" in connection
    # Without a known end, or with a body that must not be there, nobody knows where the next answer begins.
    has_end = is_chunked or (length is not None and not (length == 0 and "transfer-encoding" in headers))
    return Head(status, headers, length, is_chunked, keeps_alive and has_end)


def read_body(head: Head, arrived: bytes, read: Read) -> Iterator[bytes]:
    """The body; what arrived together comes in one piece. `arrived` are the bytes behind the head.

    Raises IncompleteRead if the connection ends before the body, HTTPException for what is no chunk, and what `read`
    does.
    """
    if head.is_chunked:
        yield from _unchunked(arrived, read)
        return
    left = head.length
    piece = arrived if left is None else arrived[:left]
    while True:
        if piece:
            yield piece
        if left is not None:
            left -= len(piece)
            if not left:
                return
        piece = read()
        if not piece:
            if left:
                raise IncompleteRead(b"", left)
            return
        if left is not None:
            piece = piece[:left]


def _unchunked(arrived: bytes, read: Read) -> Iterator[bytes]:
    """The data of a chunked body (section 7.1), of as many chunks as arrived together."""
    # left: bytes of a chunk; ends: then comes a line break; trailers: their bytes.
    rest, left, ends, last, trailers = b"", 0, False, False, 0
    piece = arrived or read()
    while True:
        if not piece:
            raise IncompleteRead(rest)
        data, at, found = rest + piece if rest else piece, 0, []
        while at < len(data):
            if left:
                part = data[at : at + left]
                found.append(part)
                at += len(part)
                left -= len(part)
                if left:
                    break
            end = data.find(b"\n", at)
            if end < 0:
                break
            line = data[at:end].rstrip(b"\r")
            at = end + 1
            if ends:
                if line:
                    raise HTTPException("a chunk is longer than its size")
                ends = False
            elif last:
                if not line:  # after the trailers
                    if found:
                        yield b"".join(found)
                    return
                trailers += len(line)
                if trailers > _HEAD_BYTES:
                    raise HTTPException("the trailers are too long")
            else:
                size = _CHUNK_SIZE.match(line)
                if size is None:
                    raise HTTPException("a chunk has no size")
                left = int(size[1], 16)
                ends, last = left > 0, left == 0
        rest = data[at:]
        if len(rest) > _LINE_BYTES:
            raise HTTPException("a line between chunks is too long")
        if found:
            yield b"".join(found) if len(found) > 1 else found[0]
        piece = read()
