"""A server that sends nonsense: the client says so, goes on, and executes nothing twice."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from codelab_client.session import InvalidAddress, Session, SessionClosed, Unauthorized, Unreachable
from codelab_client.session import events as on
from websockets.asyncio.server import ServerConnection

from tests.client.executing import CountingExecutor
from tests.client.played_server import INFO, greeting, opened, serving


async def until(session: Session, kind: type[on.Event]) -> list[on.Event]:
    """The events up to the first of this kind."""
    events = []
    async for event in session.events():
        events.append(event)
        if isinstance(event, kind):
            return events
    return events


async def read_all(events: AsyncIterator[on.Event]) -> None:
    async for _ in events:
        pass


NONSENSE = [
    "",
    "{",
    "[]",
    "null",
    '"text"',
    "1e999",
    "[" * 100_000,
    '{"type": null}',
    '{"type": ["tool_call"]}',
    '{"type": "tool_call"}',
    '{"type": "tool_call", "call_id": 1, "tool_name": "read_file", "requires_approval": false, "seq": 1}',
    '{"type": "tool_call", "call_id": "c", "tool_name": "read_file", "requires_approval": "false", "seq": 1}',
    '{"type": "tool_call", "call_id": "c", "tool_name": {}, "arguments": [], "requires_approval": false}',
    '{"type": "assistant_message", "token": {"a": 1}, "message_id": "m", "turn_id": "t", "seq": 1}',
    '{"type": "agent_status", "status": "idle", "seq": "1"}',
    '{"type": "agent_status", "status": "idle", "seq": -1}',
    '{"type": "agent_status", "status": "idle", "seq": true}',
    '{"type": "agent_status", "status": "idle", "seq": 1e300}',
    '{"type": "agent_status", "status": "idle", "seq": 99999999999999999999999999}',
    '{"type": "resumed", "last_seq": 0, "open_calls": [1]}',
    '{"type": "plan", "items": "none", "seq": 1}',
    '{"type": "upload_ticket", "payload_ref": "r", "url": 1, "headers": {}}',
    '{"type": "session_info", "session_id": 1}',
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda text: text[:60])
async def test_malformed_frames_are_ignored(nonsense: str, tmp_path: Path) -> None:
    executor = CountingExecutor()

    async def answer(socket: ServerConnection, _: dict[str, Any]) -> None:
        await socket.send(nonsense)
        await socket.send(json.dumps({"type": "queued", "client_msg_id": "other", "position": 1, "seq": 1}))

    async with serving(greeting(answer)) as url, opened(url, tmp_path, executor) as session:
        sending = asyncio.ensure_future(session.send("hello"))
        events = await until(session, on.Queued)
        assert any(isinstance(event, on.Ignored) for event in events)
        sending.cancel()
    assert not executor.calls


async def test_an_unknown_frame_is_shown_and_keeps_its_place(tmp_path: Path) -> None:
    async def answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
        await socket.send('{"type": "of_the_future", "seq": 1, "x": 1}')
        await socket.send(
            json.dumps({"type": "queued", "client_msg_id": frame["client_msg_id"], "position": 1, "seq": 2})
        )

    async with serving(greeting(answer)) as url, opened(url, tmp_path) as session:
        await session.send("hello")
        events = await until(session, on.Queued)
        assert [event.type for event in events if isinstance(event, on.UnknownFrame)] == ["of_the_future"]


async def test_frames_in_any_order_and_twice_are_shown_once_in_order(tmp_path: Path) -> None:
    order = [3, 1, 1, 5, 2, 4, 3, 5, 6]

    async def answer(socket: ServerConnection, _: dict[str, Any]) -> None:
        for seq in order:
            piece = {"token": str(seq), "content": "", "is_final": False, "message_id": "m", "turn_id": "t", "seq": seq}
            await socket.send(json.dumps({"type": "assistant_message", **piece}))
        await socket.send(json.dumps({"type": "queued", "client_msg_id": "other", "position": 1, "seq": 7}))

    async with serving(greeting(answer)) as url, opened(url, tmp_path) as session:
        sending = asyncio.ensure_future(session.send("hello"))
        events = await until(session, on.Queued)
        assert "".join(event.token for event in events if isinstance(event, on.AssistantMessage)) == "123456"
        sending.cancel()


async def test_a_repeated_call_is_executed_once_and_answered_each_time(tmp_path: Path) -> None:
    executor, results = CountingExecutor(), []
    call = {"type": "tool_call", "call_id": "c1", "tool_name": "read_file", "arguments": {"path": "a"}, "seq": 1}

    async def answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
        if frame["type"] == "tool_result":
            results.append(frame)
        else:
            for _ in range(3):
                await socket.send(json.dumps({**call, "requires_approval": False}))
                await asyncio.sleep(0.1)
            await socket.send(
                json.dumps({"type": "queued", "client_msg_id": frame["client_msg_id"], "position": 1, "seq": 2})
            )

    async with serving(greeting(answer)) as url, opened(url, tmp_path, executor) as session:
        await session.send("hello")
        while len(results) < 3:
            await asyncio.sleep(0.01)
    assert executor.executed == {"c1": 1}
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://127.0.0.1:1/x", "gopher://x", "", "http://[", "http://a b/"]
)
async def test_arguments_at_a_strange_address_are_an_error_of_the_call(url: str, tmp_path: Path) -> None:
    executor, results = CountingExecutor(), []
    call = {
        "type": "tool_call",
        "call_id": "c1",
        "tool_name": "read_file",
        "payload_url": url,
        "payload_bytes": 5,
        "seq": 1,
    }
    answered = asyncio.Event()

    async def answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
        if frame["type"] == "tool_result":
            results.append(frame)
            answered.set()
        else:
            await socket.send(json.dumps({**call, "requires_approval": False}))

    async with serving(greeting(answer)) as address, opened(address, tmp_path, executor) as session:
        sending = asyncio.ensure_future(session.send("hello"))
        await answered.wait()
        sending.cancel()
    assert not executor.calls
    assert results[0]["error"]["code"] == "EXECUTION_FAILED"


async def test_a_message_that_is_too_large_breaks_the_connection_and_not_the_client(tmp_path: Path) -> None:
    async def answer(socket: ServerConnection, _: dict[str, Any]) -> None:
        await socket.send("x" * 5_000_000)

    async with serving(greeting(answer)) as url, opened(url, tmp_path) as session:
        sending = asyncio.ensure_future(session.send("hello"))
        await until(session, on.Disconnected)
        sending.cancel()


async def test_a_flood_ends_with_an_error_instead_of_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codelab_client.session.stream._MOST_EVENTS", 1_000)

    async def answer(socket: ServerConnection, _: dict[str, Any]) -> None:
        for n in range(1_100):
            await socket.send(f'{{"type": "agent_status", "status": "thinking", "seq": {n + 1}}}')
        await socket.send('{"type": "rules", "rules": []}')

    async with serving(greeting(answer)) as url, opened(url, tmp_path) as session:
        reading = aiter(session.events())
        await anext(reading)
        await session.rules()
        with pytest.raises(SessionClosed, match="faster"):
            await read_all(reading)


@pytest.mark.parametrize(("code", "error"), [(1000, SessionClosed), (1003, SessionClosed)])
async def test_a_final_close_ends_the_session(code: int, error: type[Exception], tmp_path: Path) -> None:
    async def answer(socket: ServerConnection, _: dict[str, Any]) -> None:
        await socket.close(code)

    async with serving(greeting(answer)) as url, opened(url, tmp_path) as session:
        with pytest.raises(error):
            await session.send("hello")
        with pytest.raises(error):
            await session.approve("c1")


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, Unauthorized), (403, Unauthorized), (404, Unreachable), (400, InvalidAddress), (200, Unreachable)],
)
async def test_a_refused_upgrade_says_why(status: int, error: type[Exception], tmp_path: Path) -> None:
    async def refuse(connection: ServerConnection, _: Any) -> Any:
        return connection.respond(status, "no\n")

    async def nothing(_: ServerConnection) -> None: ...

    async with serving(nothing, process_request=refuse) as url:
        with pytest.raises(error):
            async with opened(url, tmp_path):
                pass


async def test_a_server_that_is_no_websocket_server(tmp_path: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")  # else the connection may be reset before its answer is read
        writer.write(b"SSH-2.0-OpenSSH\r\n")
        writer.close()

    listening = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with listening:
        with pytest.raises(Unreachable, match="does not speak WebSocket"):
            async with opened(f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}", tmp_path):
                pass


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x", "ws://", "ws://u:p@host", "ws://[", "", "ws://host:99999999"]
)
async def test_a_wrong_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidAddress):
        async with opened(url, tmp_path):
            pass


async def test_a_call_waits_for_its_decision_although_the_log_does_not_reach_back_to_it(tmp_path: Path) -> None:
    """A server of ours, whose log has expired: only `session_info` tells about the call."""
    call = {"call_id": "c", "tool_name": "write_file", "state": "awaiting_approval", "deadline": 1}
    shown = {**call, "arguments": {"path": "a.py", "content": "1"}, "risk": "write", "turn_id": "t"}
    decided: list[Any] = []

    async def talk_to(socket: ServerConnection) -> None:
        async for message in socket:
            frame, answers = json.loads(message), list[dict[str, Any]]()
            if frame["type"] == "hello":
                answers = [{**INFO, "last_seq": 9, "pending_calls": [{**shown, "call_id": 1}, {"state": 2}, shown]}]
            elif frame["type"] == "resume" and not frame["last_seq"]:
                answers = [{"type": "resync_required", "last_seq": 9}]
            elif frame["type"] == "resume":
                answers = [{"type": "resumed", "last_seq": 9, "open_calls": [call]}]
            elif frame["type"] == "hitl_decision":
                decided.append((frame["call_id"], frame["decision"]))
                answers = [{"type": "call_update", "call_id": "c", "state": "rejected", "seq": 10}]
            for answer in answers:
                await socket.send(json.dumps(answer))

    async with serving(talk_to) as url, opened(url, tmp_path) as session:
        events = await until(session, on.ToolCall)
        [asked] = [event for event in events if isinstance(event, on.ToolCall)]
        assert (asked.arguments, asked.requires_approval) == (shown["arguments"], True)
        assert list(session.open_calls) == ["c"]
        await session.reject("c")
        await until(session, on.CallUpdate)
        assert not session.open_calls
    assert set(decided) == {("c", "reject")}  # a repeat has no effect
