"""The session's mode as a client switches it: what the user consented to, and what they acted on."""

import json
from pathlib import Path
from typing import Any

import pytest
from codelab_client.session import Session
from codelab_client.session.decisions import Verdict
from codelab_client.session.events import ToolCall
from websockets.asyncio.server import ServerConnection

from tests.client.played_server import INFO, greeting, opened, serving

WRITE = ToolCall(
    call_id="c", tool_name="write_file", requires_approval=False, arguments={"path": "a.py", "content": "x"}
)
AUTONOMOUS = {"mode": "autonomous", "settings": {"autonomy": "autonomous"}}
EARLIER = {"settings": {"autonomy": "autonomous"}}


def runs_unasked(session: Session) -> bool:
    return session._decisions.verdict(WRITE) is Verdict.RUNS


@pytest.mark.parametrize(
    ("wanted", "told", "runs"),
    [
        ("autonomous", AUTONOMOUS, True),
        ("autonomous", EARLIER, True),
        ("autonomous", {"mode": "code"}, False),
        ("autonomous", {}, False),
        ("autonomous", {**EARLIER, "mode": "plan"}, False),
        ("code", AUTONOMOUS, False),
    ],
)
async def test_consent_to_autonomous_needs_the_users_word_and_the_servers(
    wanted: str, told: dict[str, Any], runs: bool, tmp_path: Path
) -> None:
    """Another window may have switched meanwhile, and an earlier server does not know the field."""

    async def answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
        if frame["type"] == "session_config":
            await socket.send(json.dumps({**INFO, **told, "request_id": frame.get("request_id")}))

    async with serving(greeting(answer)) as url, opened(url, tmp_path) as session:
        await session.configure(mode=wanted)
        assert runs_unasked(session) == runs


@pytest.mark.parametrize(
    ("told", "acting_mode"),
    [(AUTONOMOUS, "autonomous"), (EARLIER, "autonomous"), ({"mode": "autonomous"}, "autonomous"), ({}, "code")],
)
async def test_the_acting_mode_is_known_from_either_name(
    told: dict[str, Any], acting_mode: str, tmp_path: Path
) -> None:
    async def answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
        await socket.send(json.dumps({**INFO, **told, "request_id": frame.get("request_id")}))

    async with serving(greeting(answer)) as url, opened(url, tmp_path) as session:
        await session.configure()
        assert session.acting_mode == acting_mode


async def test_a_switch_names_the_newest_state_that_the_user_has_seen(tmp_path: Path) -> None:
    """A `session_info` may come before the frames that it tells of."""
    named = []

    async def answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
        if frame["type"] == "session_config":
            named.append(frame.get("last_seq"))
            told = {**INFO, "last_seq": 7, "mode": frame.get("mode", "code"), "title": frame.get("title", "")}
            await socket.send(json.dumps({**told, "request_id": frame.get("request_id")}))

    async with serving(greeting(answer)) as url, opened(url, tmp_path) as session:
        await session.configure(title="A talk")
        await session.configure(mode="plan")
    assert named == [None, 7]
