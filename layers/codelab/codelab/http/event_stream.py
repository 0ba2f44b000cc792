"""Reads the messages of an event stream of AWS (`application/vnd.amazon.eventstream`).

A message is a prelude (two lengths and their checksum), headers, a payload, and the checksum of all before it.
https://smithy.io/2.0/aws/amazon-eventstream.html
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

#: The lengths of the message and of its headers, and their checksum.
_PRELUDE = struct.Struct("!III")
_CHECKSUM = struct.Struct("!I")
_NAME_LENGTH, _TEXT_LENGTH = struct.Struct("!B"), struct.Struct("!H")
_TEXT, _BYTES = 7, 6
#: The bytes of a header's value by its type: true, false, byte, short, integer, long, time, UUID.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class BrokenStream(ValueError):
    """Bytes that are no message, or that were changed on their way."""


class Message(NamedTuple):
    """headers: those whose value is a text."""

    headers: Mapping[str, str]
    payload: bytes


def messages(pieces: Iterable[bytes], most_bytes: int) -> Iterator[list[Message]]:
    """The messages; those that arrived together come in one list. What is cut at the end is no message.

    most_bytes: of one message. Raises BrokenStream, behind the messages before it.
    """
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        batch: list[Message] = []
        position = 0
        try:
            while length := _length(buffer, position, most_bytes):
                batch.append(_message(memoryview(buffer)[position : position + length]))
                position += length
        except BrokenStream:
            if batch:
                yield batch
            raise
        if batch:
            del buffer[:position]
            yield batch


def _length(buffer: bytearray, position: int, most_bytes: int) -> int:
    """The bytes of the message that begins here; 0 if not all of it has arrived."""
    if len(buffer) - position < _PRELUDE.size:
        return 0
    length, headers_length, checksum = _PRELUDE.unpack_from(buffer, position)
    if zlib.crc32(buffer[position : position + 8]) != checksum:
        raise BrokenStream("the checksum of a message's lengths is wrong")
    if not _PRELUDE.size + headers_length + _CHECKSUM.size <= length <= most_bytes:
        raise BrokenStream(f"a message of {length} bytes cannot be")
    return int(length) if len(buffer) - position >= length else 0


def _message(data: memoryview) -> Message:
    """A whole message. It copies what it keeps of the data."""
    with data:
        if zlib.crc32(data[: -_CHECKSUM.size]) != _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)[0]:
            raise BrokenStream("the checksum of a message is wrong")
        headers_end = _PRELUDE.size + _PRELUDE.unpack_from(data)[1]
        headers = _headers(bytes(data[_PRELUDE.size : headers_end]))
        return Message(headers, bytes(data[headers_end : -_CHECKSUM.size]))


def _headers(data: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    position = 0
    try:
        while position < len(data):
            [name_length] = _NAME_LENGTH.unpack_from(data, position)
            name_end = position + 1 + name_length
            name, kind = data[position + 1 : name_end].decode(), data[name_end]
            position = name_end + 1
            if kind in _SIZES:
                position += _SIZES[kind]
                continue
            if kind not in (_TEXT, _BYTES):
                raise BrokenStream(f"a header has the unknown type {kind}")
            [length] = _TEXT_LENGTH.unpack_from(data, position)
            position += _TEXT_LENGTH.size + length
            if kind == _TEXT:
                headers[name] = data[position - length : position].decode()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BrokenStream(f"the headers of a message are broken: {error}") from None
    if position != len(data):
        raise BrokenStream("the headers of a message are longer than it says")
    return headers
