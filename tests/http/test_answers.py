"""Answers over HTTP, however they are cut on the way, read as http.client reads them."""

from collections.abc import Callable, Iterator
from http.client import BadStatusLine, HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from io import BytesIO
from typing import Any

import pytest
from codelab.http.responses import Head, read_body, read_head

from tests.cases import cases


def arriving(data: bytes, size: int) -> Callable[[], bytes]:
    """`size` bytes at a time."""
    parts = iter([data[at : at + size] for at in range(0, len(data), size)])
    return lambda: next(parts, b"")


def received(data: bytes, size: int) -> tuple[Head, list[bytes]]:
    read = arriving(data, size)
    head, arrived = read_head(read)
    return head, list(read_body(head, arrived, read))


class Socket:
    """What http.client needs of one."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> BytesIO:
        return BytesIO(self._data)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWERS = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Amz-Crc32:  12\r\n\r\nhello",
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    "not modified": b"HTTP/1.1 304\r\nContent-Length: 5\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello",
    "closing": b"HTTP/1.1 410 Gone\r\nContent-Length: 5\r\nConnection: Close\r\n\r\nhello",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "old and kept": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
    "no number": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "chunked": CHUNKED + b"5;a=b\r\nhello\r\n3 \r\n, w\r\n4\r\norld\r\n0\r\nx-checksum: 1\r\n\r\n",
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "twice": b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 5\r\nA: 2\r\n\r\nhello",
    "bare line breaks": b"HTTP/1.1 200 OK\nContent-Length: 5\nA:1\n\nhello",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "no ASCII": b"HTTP/1.1 200 \xc3\xa9\r\nContent-Length: 5\r\nX: \xc3\xa9\r\n\r\nhello",
}


@cases("name", ANSWERS)
def test_an_answer_is_read_as_by_the_standard_library_wherever_it_is_cut(name: str) -> None:
    data, socket = ANSWERS[name], Socket(ANSWERS[name])
    known: Any = HTTPResponse(socket)  # type: ignore[arg-type]
    known.begin()
    body = known.read()
    for size in range(1, len(data) + 1):
        head, pieces = received(data, size)
        assert (head.status, b"".join(pieces), head.keeps_alive) == (known.status, body, not known.will_close)
        assert all(pieces)
        assert head.headers == {name.lower(): known.headers.get(name) for name in known.headers}


def test_a_folded_header_is_one_line() -> None:
    head, _ = received(b"HTTP/1.1 204\r\nA: one\r\n\t two\r\nB: 3\r\n\r\n", 100)
    assert head.headers == {"a": "one two", "b": "3"}


def test_an_early_hint_is_skipped() -> None:
    head, pieces = received(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + ANSWERS["length"], 7)
    assert (head.status, "link" in head.headers, b"".join(pieces)) == (200, False, b"hello")


def test_chunks_that_arrive_together_come_in_one_piece() -> None:
    assert received(ANSWERS["chunked"], 1_000)[1] == [b"hello, world"]


@cases("size", [1, 1_000])
@cases(
    ("data", "error"),
    [
        (b"", RemoteDisconnected),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", IncompleteRead),
        (b"HTTP/2 200\r\n\r\n", BadStatusLine),
        (b"HTTP/1.1 20\r\n\r\n", BadStatusLine),
        (b"HTTP/1.1 2000 OK\r\n\r\n", BadStatusLine),
        (b"\x16\x03\x01\r\n\r\n", BadStatusLine),
        (b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", IncompleteRead),
        *(
            (CHUNKED + chunks, HTTPException)
            for chunks in (b"-5\r\nhello", b"+5\r\nhello", b"0x5\r\nhello", b"1_0\r\nhello", b"\r\n", b"5 5\r\nhello")
        ),
        (CHUNKED + b"5\r\nhello!\r\n", HTTPException),
        (CHUNKED + b"f" * 13 + b"\r\n", HTTPException),
        (CHUNKED + b"f" * 20_000, HTTPException),
        (CHUNKED + b"5\r\nhello\r\n", IncompleteRead),
        (CHUNKED + b"5\r\nhell", IncompleteRead),
        (CHUNKED + b"0\r\n", IncompleteRead),
        (CHUNKED, IncompleteRead),
    ],
)
def test_what_is_no_answer_is_an_error(data: bytes, error: type[Exception], size: int) -> None:
    with pytest.raises(error):
        received(data, size)


def test_who_speaks_no_http_is_not_waited_for() -> None:
    def greeting() -> Iterator[bytes]:
        yield b"SSH-2.0\r\n"
        raise AssertionError("the greeting was taken for the beginning of an answer")

    with pytest.raises(BadStatusLine):
        read_head(greeting().__next__)


@pytest.mark.parametrize(
    ("beginning", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"A: " + b"x" * 10_000 + b"\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100),
        (CHUNKED + b"0\r\n", b"A: " + b"x" * 10_000 + b"\r\n"),
    ],
    ids=["head", "hints", "trailers"],
)
def test_what_does_not_end_is_an_error(beginning: bytes, more: bytes) -> None:
    def endless() -> Iterator[bytes]:
        yield beginning + more
        while True:
            yield more

    read = endless().__next__
    with pytest.raises(HTTPException, match="too long"):
        list(read_body(*read_head(read), read))


def test_a_connection_is_not_used_again_after_a_body_that_must_not_be_there() -> None:
    head, pieces = received(b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 1_000)
    assert (pieces, head.keeps_alive) == ([], False)


def test_who_changes_the_protocol_has_answered() -> None:
    assert received(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", 5)[0].status == 101
