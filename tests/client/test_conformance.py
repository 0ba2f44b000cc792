"""`codelab conformance` finds each fault of a server, and only it, and has no complaint about ours."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from codelab_client.conformance import dialogues
from codelab_client.conformance.command import judge
from codelab_client.conformance.dialogues import WITHOUT_MODEL, Dialogue, Subject
from codelab_client.conformance.rules import RULES
from codelab_client.session.address import Address
from codelab_local import LocalCloud
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

Frame = dict[str, Any]
Change = Callable[[Frame], Frame]
PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"


def changed(frame_type: str, **fields: Any) -> Change:
    """A fault: the fields of all frames of a type are others."""
    return lambda frame: {**frame, **fields} if frame.get("type") == frame_type else frame


def without(name: str, frame: Frame) -> Frame:
    """A fault: no frame has this field."""
    return {key: value for key, value in frame.items() if key != name}


def approved(frame: Frame) -> Frame:
    """A fault: a rejection is taken for an approval."""
    return {**frame, "decision": "approve"} if frame.get("decision") == "reject" else frame


def renamed(frame: Frame) -> Frame:
    """A fault: a message is known by its `request_id`, so that one which comes again is another."""
    return {**frame, "client_msg_id": frame["request_id"]} if {"client_msg_id", "request_id"} <= frame.keys() else frame


def shifted(frame: Frame) -> Frame:
    """A fault: the frames are numbered from 2."""
    return {**frame, "seq": frame["seq"] + 1} if "seq" in frame else frame


def same(frame: Frame) -> Frame:
    return frame


#: Each fault of a server: what it does to frames that come, to frames that go, and to the address; the rule that
#: it breaks; and a dialogue that shows it.
FAULTS: dict[str, tuple[Change, Change, str, str, Dialogue]] = {
    "ends no message": (same, changed("assistant_message", is_final=False), "", "ends-messages", dialogues.a_message),
    "accepts again": (renamed, same, "", "accepts-once", dialogues.a_message),
    "replays everything": (changed("resume", last_seq=0), same, "", "replays", dialogues.a_message),
    "sends extensions": (same, same, "extensions=1", "hides-extensions", dialogues.a_seed_client),
    "ignores rejections": (approved, same, "", "obeys-rejection", dialogues.a_rejection),
    "ignores edits": (
        lambda frame: approved({**frame, "decision": "reject"}) if frame.get("decision") == "edit" else frame,
        same, "", "returns-the-edit", dialogues.an_edit,
    ),
    "sends invalid frames": (same, changed("pong", request_id=7), "", "valid-frames", dialogues.wrong_frames),
    "names no call": (same, partial(without, "call_id"), "", "names-the-call", dialogues.wrong_frames),
    "has other codes": (same, changed("error", error_code="AGENT_ERROR"), "", "refuses", dialogues.wrong_frames),
    "forgets request ids": (same, partial(without, "request_id"), "", "answers-requests", dialogues.a_greeting),
    "numbers from 2": (same, shifted, "", "numbers", dialogues.a_message),
    "has several executors": (same, partial(without, "execute"), "", "one-executor", dialogues.a_call),
    "forgets open calls": (same, changed("resumed", open_calls=[]), "", "keeps-open-calls", dialogues.an_approval),
}  # fmt: skip


@contextlib.asynccontextmanager
async def wrong_server(url: str, coming: Change, going: Change, query: str) -> AsyncIterator[Address]:
    """The server at `url`, with a fault."""

    async def pass_on(source: Any, target: Any, change: Change) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in source:
                with contextlib.suppress(ValueError):
                    message = json.dumps(change(json.loads(message)))
                await target.send(message)
        await target.close()

    async def handle(client: ServerConnection) -> None:
        assert client.request is not None
        path = client.request.path + (("&" if "?" in client.request.path else "?") + query if query else "")
        async with connect(url.replace("/ws/SESSION", path)) as server:
            await asyncio.gather(pass_on(client, server, coming), pass_on(server, client, going))

    async with serve(handle, "127.0.0.1", 0) as listener:
        (socket,) = listener.sockets
        yield Address.parse(f"ws://127.0.0.1:{socket.getsockname()[1]}")


@pytest.mark.parametrize(
    "fault",
    [fault if it[4] in WITHOUT_MODEL else pytest.param(fault, marks=pytest.mark.deep) for fault, it in FAULTS.items()],
)
async def test_each_fault_is_reported_and_only_it(demo_cloud: LocalCloud, fault: str) -> None:
    coming, going, query, rule, dialogue = FAULTS[fault]
    async with wrong_server(demo_cloud.url("SESSION"), coming, going, query) as address:
        report = await judge(Subject(address), [dialogue])
    assert not report.gaps, report.text()
    assert set(report.complaints) == {rule}, report.text()


@pytest.mark.deep
async def test_there_is_no_complaint_about_the_system(demo_cloud: LocalCloud) -> None:
    report = await judge(Subject(Address.parse(demo_cloud.url("SESSION").replace("SESSION", "{session_id}"))))
    assert f"{len(RULES)} rules held, 0 broken, 0 not seen" in report.text()
    assert not report.gaps, report.text()


@pytest.mark.deep
async def test_a_server_that_makes_no_sense_is_judged_to_the_end() -> None:
    async def handle(client: ServerConnection) -> None:
        async for _ in client:
            for frame in (
                "hello?",
                "[]",
                "{}",
                '{"type": "tool_call", "seq": "x"}',
                '{"type": "resumed", "open_calls": 1}',
            ):
                await client.send(frame)

    async with serve(handle, "127.0.0.1", 0) as listener:
        (socket,) = listener.sockets
        address = Address.parse(f"ws://127.0.0.1:{socket.getsockname()[1]}")
        report = await judge(Subject(address, patience=0.2))
    assert not report.kept_rules
    assert {"valid-frames", "introduces-itself", "refuses", "ends-turns"} <= report.complaints.keys()


def test_the_sources_exist() -> None:
    headings = re.findall(r"^#+ (.+)$", PROTOCOL.read_text("utf-8"), re.MULTILINE)
    anchors = {re.sub(r"\W+", "-", heading.lower()) for heading in headings}
    assert {rule.source.partition("#")[2].partition(",")[0] for rule in RULES.values()} <= anchors
