"""Event streams of AWS: whole messages only, however they arrive, and as the SDK reads them."""

import struct
import zlib
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from codelab.http.event_stream import BrokenStream, Message, messages
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.fakes.model.converse import message

MOST = 1 << 20
NAMES = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=12)
MESSAGES = st.lists(
    st.tuples(st.dictionaries(NAMES, st.text(max_size=12), max_size=3), st.binary(max_size=40)), min_size=1, max_size=4
)


def read(*pieces: bytes, most: int = MOST) -> list[Message]:
    return [one for batch in messages(pieces, most) for one in batch]


@given(MESSAGES, st.integers(1, 50))
def test_messages_are_read_as_the_sdk_reads_them(values: list[tuple[dict[str, str], bytes]], size: int) -> None:
    data = b"".join(message(*value) for value in values)
    theirs: Any = EventStreamBuffer()
    theirs.add_data(data)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert read(*pieces) == [Message(one.headers, one.payload) for one in theirs]


def test_what_is_cut_is_no_message() -> None:
    first, second = message({":event-type": "a"}, b"{}"), message({":event-type": "b"}, b"[]" * 20)
    data = first + second
    for end in range(len(data)):
        assert len(read(data[:end])) == (end >= len(first))


def test_a_byte_that_was_changed_on_its_way_is_noticed() -> None:
    first, second = message({":event-type": "a"}, b"{}"), message({":event-type": "b"}, b"[]" * 20)
    for place in range(len(second)):
        changed = bytearray(second)
        changed[place] ^= 0x10
        batches = messages([first + changed + second], MOST)
        assert [one.payload for one in next(batches)] == [b"{}"], "what came before it counts"
        with pytest.raises(BrokenStream):
            next(batches)


def _framed(headers: bytes, payload: bytes = b"") -> bytes:
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    data = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return data + struct.pack("!I", zlib.crc32(data))


def test_headers_of_other_types_are_skipped() -> None:
    values = {0: b"", 1: b"", 2: b"x", 3: b"xx", 4: b"x" * 4, 5: b"x" * 8, 6: b"\0\3xyz", 8: b"x" * 8, 9: b"x" * 16}
    headers = b"".join(b"\1h" + bytes([kind]) + value for kind, value in values.items()) + b"\1t\7\0\2ab"
    assert read(_framed(headers, b"p")) == [Message({"t": "ab"}, b"p")]


@cases("headers", [b"\1h\x0a", b"\1h\7\0\5ab", b"\5h", b"\1h\7\0\1\xff", b"\1h\5"])
def test_broken_headers_are_an_error(headers: bytes) -> None:
    with pytest.raises(BrokenStream):
        read(_framed(headers))


def test_a_message_that_is_too_long_is_refused_before_it_arrives() -> None:
    data = message({}, b"x" * 100)
    with pytest.raises(BrokenStream, match="116 bytes"):
        read(data[:12], most=115)
    assert read(data, most=116)
