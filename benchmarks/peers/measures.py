"""What is measured. Times are in seconds, memory is in bytes.

A block is the load that one server gets before it is the next one's turn. It gives a figure for some of the rows.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import NamedTuple

import psutil

from benchmarks.bench_concurrency import pss_bytes
from benchmarks.peers.client import BROKEN, Open, Refused, Say, Turn, turn
from benchmarks.peers.systems import Running
from benchmarks.rig import cpu_seconds

SHORT = "pieces=30"
#: A question of 700 characters, as in a real conversation, and a short answer.
TALK = "why is that so, and what would be another way to do it? " * 12 + "pieces=1"
SLOW = "silence=2 pieces=30"
LONG = "pieces=300 rate=100 clock=1"
#: Between two turns of a session, nothing happens for so long.
PAUSE = 0.02

Figures = dict[str, float]
_names = (f"s{n}" for n in range(1_000_000))


class Row(NamedTuple):
    """A line of the table: its title, and its unit (a key of `report.UNITS`, or `count`)."""

    title: str
    unit: str


#: The numbers of sessions, and the messages of a growing session, that are measured.
SESSIONS = (1, 5, 10, 20, 50, 100, 200)
MESSAGES = (1, 50, 200, 1000)

ROWS = {
    "first_p50": Row("first token, p50", "ms"),
    "first_p95": Row("first token, p95", "ms"),
    "cpu": Row("CPU a turn", "ms"),
    **{f"rate_{n}": Row(f"turns a second, {n} session{'s' * (n > 1)}", "turns/s") for n in SESSIONS},
    "lag": Row("300 tokens at 100/s: from the model's end to the turn's", "ms"),
    "cold_50": Row("50 sessions, model of 2 s: first burst, p50", "s"),
    "warm_50": Row("50 sessions, model of 2 s: second burst, p50", "s"),
    "cold_200": Row("200 sessions, model of 2 s: first burst, p50", "s"),
    "warm_200": Row("200 sessions, model of 2 s: second burst, p50", "s"),
    "idle": Row("memory idle (PSS)", "MB"),
    "used": Row("memory after 200 sessions (PSS)", "MB"),
    **{f"history_{n}": Row(f"first token of message {n:,}", "ms") for n in MESSAGES},
    "failed": Row("failed turns", "count"),
}


def tree_cpu(pid: int) -> float:
    """The processor time of a process and its descendants, the ended ones included."""
    root = psutil.Process(pid)
    return cpu_seconds([pid, *(process.pid for process in root.children(recursive=True))])


async def short_turns(running: Running) -> Figures:
    """One session, one turn after another."""
    turns = 40
    async with running.open(next(_names)) as say:
        for _ in range(3):
            await turn(say, SHORT)
        await asyncio.sleep(0.3)
        before = tree_cpu(running.pid)
        times = []
        for _ in range(turns):
            done = await turn(say, SHORT)
            times.append(done.first - done.began)
            await asyncio.sleep(PAUSE)
        await asyncio.sleep(0.3)
        cpu = (tree_cpu(running.pid) - before) / turns
    return {"first_p50": statistics.median(times), "first_p95": statistics.quantiles(times, n=20)[-1], "cpu": cpu}


async def long_answers(running: Running) -> Figures:
    """Long answers at the rate of a fast model, one after another."""
    async with running.open(next(_names)) as say:
        await turn(say, SHORT)
        lags = []
        for _ in range(2):
            done = await turn(say, LONG)
            lags.append(done.ended - float(done.text.split()[-1]))
    return {"lag": statistics.mean(lags)}


def rates(sessions: int) -> Callable[[Running], Awaitable[Figures]]:
    """So many sessions, each sending its next message when a turn ends: turns that end within a window, a second."""
    warm_up, window = 1.5, 3.0

    async def block(running: Running) -> Figures:
        ends: list[float] = []
        failed = 0

        async def talk(say: Say, deadline: float) -> None:
            nonlocal failed
            while time.monotonic() < deadline:
                try:
                    ends.append((await turn(say, SHORT)).ended)
                except Refused:
                    failed += 1
                except BROKEN:
                    failed += 1
                    return

        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(running.open(next(_names))) for _ in range(sessions)]
            began = time.monotonic() + warm_up
            await asyncio.gather(*(talk(say, began + window) for say in opened))
        return {f"rate_{sessions}": sum(began <= end < began + window for end in ends) / window, "failed": failed}

    return block


async def bursts(running: Running) -> Figures:
    """On a server just started: new sessions all at once, one turn each, and what memory that takes."""
    await asyncio.sleep(2)
    figures: Figures = {"idle": pss_bytes(running.pid)[0], "failed": 0}
    for key, sessions in (("cold_50", 50), ("warm_50", 50), ("cold_200", 200), ("warm_200", 200)):
        done = await asyncio.gather(*(_dialogue(running.open) for _ in range(sessions)), return_exceptions=True)
        times = [each.ended - each.began for each in done if isinstance(each, Turn)]
        figures["failed"] += sessions - len(times)
        if times:
            figures[key] = statistics.median(times)
    return {**figures, "used": pss_bytes(running.pid)[0]}


async def _dialogue(opened: Open) -> Turn:
    async with opened(next(_names)) as say:
        return await turn(say, SLOW)


class History:
    """A session that grows to `messages` messages of its user.

    It ends early if its turns have taken `patience` seconds, or if one has failed.
    """

    STEP = 25
    #: A figure is the median of so many messages, the last of which gives it its name.
    NEAR = 9

    def __init__(self, messages: int, patience: float) -> None:
        self._messages, self._patience = messages, patience
        self.first_tokens: list[float] = []
        self.ended = False

    async def block(self, say: Say) -> Figures:
        """The next messages."""
        figures: Figures = {}
        for _ in range(self.STEP):
            self.ended = True  # If the turn fails, it stays so.
            done = await turn(say, TALK)
            self.first_tokens.append(done.first - done.began)
            self._patience -= done.ended - done.began
            count = len(self.first_tokens)
            if count in MESSAGES[1:]:
                figures[f"history_{count}"] = statistics.median(self.first_tokens[-self.NEAR :])
            self.ended = count == self._messages or self._patience <= 0
            if self.ended:
                break
            await asyncio.sleep(PAUSE)
        return figures


async def first_message(running: Running) -> float:
    """The first token of a new session."""
    async with running.open(next(_names)) as say:
        done = await turn(say, TALK)
    return done.first - done.began
