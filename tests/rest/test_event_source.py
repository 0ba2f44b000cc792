"""The tests' EventSource follows the HTML standard."""

import pytest

from tests.rest.event_source import Event, Parser


def parsed(*pieces: bytes) -> tuple[list[Event], Parser]:
    parser = Parser()
    return [event for piece in pieces for event in parser.feed(piece)], parser


@pytest.mark.parametrize("newline", [b"\n", b"\r", b"\r\n"])
def test_events_end_with_an_empty_line_in_every_line_ending(newline: bytes) -> None:
    text = newline.join([b": a comment", b"id: 1", b"data: one", b"data: two", b"", b"data:three", b"", b"data: cut"])
    whole, _ = parsed(text)
    bytewise, _ = parsed(*(bytes([byte]) for byte in text))
    assert whole == bytewise == [Event("one\ntwo", "1"), Event("three", "1")]


def test_an_id_without_data_counts_but_an_incomplete_one_does_not() -> None:
    _, parser = parsed(b"id: 4\n\nid: 5\n")
    assert parser.last_event_id == "4"


def test_unknown_fields_are_ignored() -> None:
    events, parser = parsed(b"\xef\xbb\xbfretry: soon\nretry: 20\nid: a\0b\nno\nevent: x\ndata\n\n")
    assert events == [Event("", "", "x")]
    assert parser.retry_ms == 20
