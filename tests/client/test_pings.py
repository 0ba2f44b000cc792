"""How often a session pings: seldom while nothing goes on, because each ping costs, and more often in a turn."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from tests.client.played_server import FAST, INFO, Answer, greeting, opened, serving

NEVER = 3_600.0


@pytest.mark.parametrize(("busy", "idle", "status"), [(0.05, NEVER, "thinking"), (NEVER, 0.05, "idle")])
async def test_it_pings_by_what_goes_on(
    busy: float, idle: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(INFO, "status", status)
    pinged: asyncio.Queue[None] = asyncio.Queue()

    async def answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
        if frame["type"] == "ping":
            pinged.put_nowait(None)
            await socket.send(json.dumps({"type": "pong"}))

    timing = replace(FAST, ping_s=busy, idle_ping_s=idle)
    async with serving(greeting(answer)) as url, opened(url, tmp_path, timing=timing):
        for _ in range(3):
            await asyncio.wait_for(pinged.get(), 10)


async def test_an_idle_session_does_not_ping_as_a_busy_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pings: dict[str, int] = {"idle": 0, "thinking": 0}
    enough = asyncio.Event()

    def count(status: str) -> Answer:
        async def answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
            pings[status] += frame["type"] == "ping"
            if pings["thinking"] > 3:
                enough.set()

        return answer

    timing = replace(FAST, ping_s=0.05, idle_ping_s=NEVER)
    async with serving(greeting(count("idle"))) as one, opened(one, tmp_path / "1", timing=timing):
        monkeypatch.setitem(INFO, "status", "thinking")
        async with serving(greeting(count("thinking"))) as two, opened(two, tmp_path / "2", timing=timing):
            await asyncio.wait_for(enough.wait(), 20)
    assert pings["idle"] == 0
