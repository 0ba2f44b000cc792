"""API Gateway's quotas: sizes and kinds of messages, in both directions."""

import json
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

KB = 1024


def _close_code(client: Any, message: str | bytes | list[str], text: bool | None = None) -> int:
    """Send the message and return the close code. The connection may close before the last frame is sent."""
    with suppress(ConnectionClosed):
        client.socket.send(message, text=text)
    with pytest.raises(ConnectionClosed) as closed:
        client.socket.recv(30)
    assert closed.value.rcvd is not None
    return int(closed.value.rcvd.code)


def _fragments(size: int, frame: int) -> list[str]:
    text = json.dumps({"type": "command", "do": "event", "pad": ""})
    text = text[:-2] + "x" * (size - len(text)) + text[-2:]
    return [text[start : start + frame] for start in range(0, size, frame)]


def test_a_url_of_over_4096_characters_is_refused(open_socket: Any) -> None:
    with pytest.raises(InvalidStatus):
        open_socket(pad="x" * 4096)


def test_a_frame_of_32_kb_is_accepted(client: Any) -> None:
    client.send(_fragments(32 * KB, 32 * KB)[0])
    assert len(client.receive()["body"]) == 32 * KB


def test_a_frame_over_32_kb_closes_with_1009(client: Any) -> None:
    assert _close_code(client, _fragments(32 * KB + 1, 64 * KB)[0]) == 1009


def test_a_fragmented_message_over_128_kb_closes_with_1009(client: Any) -> None:
    assert _close_code(client, _fragments(128 * KB + 1, 16 * KB)) == 1009


def test_a_fragmented_message_is_assembled(client: Any) -> None:
    message = json.dumps({"type": "command", "do": "manage", "call": "get", "connection": "x" * 60_000})
    client.socket.send([message[start : start + 20_000] for start in range(0, len(message), 20_000)])
    assert client.receive()["status"] in (410, 400, 414)


def test_a_binary_frame_closes_with_1003(client: Any) -> None:
    assert _close_code(client, b'{"type": "command", "do": "event"}') == 1003


def test_text_that_is_not_utf_8_closes_with_1007(client: Any) -> None:
    assert _close_code(client, b"\xff\xfe", text=True) == 1007


def test_a_post_of_128_kb_arrives_in_frames_of_at_most_32_kb(open_socket: Any) -> None:
    receiver, sender = open_socket(), open_socket()
    connection_id = receiver.id
    assert sender.do("manage", call="post", connection=connection_id, size=128 * KB)["status"] == 200
    frames = list(receiver.socket.recv_streaming())
    assert sum(map(len, frames)) == 128 * KB
    assert max(map(len, frames)) <= 32 * KB


def test_a_post_over_128_kb_is_refused_with_413(client: Any) -> None:
    answer = client.do("manage", call="post", connection=client.id, size=128 * KB + 1)
    assert (answer["status"], answer["error"]) == (413, "PayloadTooLargeException")
    assert client.do("event")
