"""A long answer in the terminal: little work per piece, and nothing of it is missing from the scrollback."""

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from benchmarks.rig import cpu_seconds
from tests.client.played_server import greeting, serving
from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.waiting import until

PIECES, RATE = 10_000, 200.0


async def _answer(socket: ServerConnection, frame: dict[str, Any]) -> None:
    """Answer a message with numbered words: paragraphs of 200 words, at a constant rate."""
    if frame["type"] != "user_message":
        return
    pieces = int(frame["content"])
    await socket.send('{"type": "agent_status", "status": "thinking", "seq": 1}')
    begun = time.monotonic()
    for n in range(pieces):
        await asyncio.sleep(begun + n / RATE - time.monotonic())
        ending = "\n\n" if n % 200 == 199 else " "
        told = {"token": f"w{n}{ending}", "message_id": "m", "turn_id": "t", "is_final": n == pieces - 1}
        await socket.send(json.dumps({"type": "assistant_message", "seq": n + 2, **told}))
    end = {"type": "turn_end", "turn_id": "t", "reason": "completed", "usage": {}, "seq": pieces + 2}
    await socket.send(json.dumps(end))
    await socket.send(json.dumps({"type": "agent_status", "status": "idle", "seq": pieces + 3}))


@contextlib.contextmanager
def answering() -> Iterator[str]:
    """The address of a server that answers so, in a thread of its own."""
    address: list[str] = []
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving(greeting(_answer)) as url:
            address.append(url)
            await stop.wait()

    running = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    running.start()
    until(lambda: address)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        running.join()
        loop.close()


def words(terminal: Terminal) -> list[str]:
    return re.findall(r"\bw\d+", terminal.all_lines())


@pytest.mark.deep
def test_everything_is_in_the_scrollback(environment: dict[str, str], folder: Path) -> None:
    with answering() as url, Terminal(CODELAB, {**environment, "CODELAB_URL": url}, folder, rows=20) as terminal:
        terminal.expect("/help lists the commands")
        terminal.type("600\r")
        until(lambda: "w599" in terminal.shown() and "thinking" not in terminal.shown())
        assert words(terminal) == [f"w{n}" for n in range(600)]


@pytest.mark.deep
def test_a_long_answer_takes_a_fifth_of_a_core_at_most(environment: dict[str, str], folder: Path) -> None:
    with answering() as url, Terminal(CODELAB, {**environment, "CODELAB_URL": url}, folder, rows=20) as terminal:
        terminal.expect("/help lists the commands")
        time.sleep(3)  # what is imported late is imported
        before = cpu_seconds([terminal.process.pid])
        terminal.type(f"{PIECES}\r")
        until(lambda: f"w{PIECES - 1}" in terminal.shown() and "thinking" not in terminal.shown(), 180)
        used = cpu_seconds([terminal.process.pid]) - before
        assert words(terminal) == [f"w{n}" for n in range(PIECES)]
        assert used <= 0.2 * PIECES / RATE
