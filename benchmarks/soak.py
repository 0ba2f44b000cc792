"""Twelve sessions for twenty minutes: tools, approvals, reconnects, compaction, and a model that fails now and then.

Before that, a function is killed in the middle of an answer.

Prints a table, and what is wrong: failures that a client sees, turns that become slower, functions whose memory grows.
`python -m benchmarks.soak [MINUTES]` exits with 1 if anything is.
"""

import json
import random
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from codelab.sessions import keys
from codelab_local import LocalCloud

from benchmarks.rig import instant_model, system
from benchmarks.soak_model import FAILURES, asks, text
from tests.fakes.ide.follower import Follower
from tests.fakes.ide.received import messages

SESSIONS, MINUTES = 12, 20.0
#: Tokens of a context; a summary is due after a few turns.
CONTEXT = 6_000
#: Seconds between the turns of a session, and between two looks at the memory.
PAUSE_S, SAMPLE_S = 0.2, 2.0
#: A frame in so many of the running answer is the last that its connection gets.
BREAKS = 60
#: From which turn on a session's context is full, and so costs the same; and the most that the last quarter of these
#: turns may take of the first quarter's time and CPU time.
FULL, DRIFT, CPU_DRIFT = 20, 1.5, 1.25
#: A worker is warm after so many events, and may grow by this factor then.
WARM, GROWTH = 200, 1.1
#: How many looks tell anything.
LOOKS = 12


@dataclass
class Soak:
    """What was seen. `turns` are (when it began, seconds to the first text, seconds to the end, its number)."""

    turns: list[tuple[float, float, float, int]] = field(default_factory=list)
    calls: int = 0
    reconnects: int = 0
    failures: list[str] = field(default_factory=list)
    model: dict[str, int] = field(default_factory=dict)
    #: At each look: when, the seconds that the same work took, and the CPU seconds of the system so far.
    looks: list[tuple[float, float, float]] = field(default_factory=list)
    #: By function and process: how many events it had served and its PSS, in bytes, at each look since it was warm.
    memory: dict[str, dict[int, list[tuple[int, int]]]] = field(default_factory=dict)

    def drift(self) -> dict[str, float]:
        """How many times as much the last quarter of the turns took as the first quarter, by medians; empty if too few.

        Latencies are divided by how much slower the machine did the same work, for others may use it too. What that
        hides, because the system itself keeps the machine busier, shows in the CPU time of a turn.
        """
        ordered = sorted(turn for turn in self.turns if turn[3] >= FULL)
        quarter = len(ordered) // 4
        first, last = (self._costs(part) for part in (ordered[:quarter], ordered[-quarter:]))
        if not first or not last:
            return {}
        busier = last["work"] / first["work"]
        rates = {name: last[name] / first[name] for name in first}
        return {
            "first text": rates["first"] / busier,
            "turn": rates["end"] / busier,
            "CPU": rates["cpu"],
            "work": busier,
        }

    def _costs(self, turns: Sequence[tuple[float, float, float, int]]) -> dict[str, float]:
        """Of these turns and their time: seconds to first texts and ends, of CPU a turn, and of the work; or empty."""
        looks = [it for it in self.looks if turns and turns[0][0] <= it[0] <= turns[-1][0]]
        if len(looks) < LOOKS:
            return {}
        (begun, _, before), (ended, _, after) = looks[0], looks[-1]
        return {
            "first": statistics.median(turn[1] for turn in turns),
            "end": statistics.median(turn[2] for turn in turns),
            "cpu": (after - before) / sum(begun <= turn[0] < ended for turn in turns),
            "work": statistics.median(it[1] for it in looks),
        }

    def growth(self) -> Iterator[tuple[str, int, float, float, float]]:
        """By function: how many processes were long warm, their mean MB at first and at last, bytes an event."""
        for function, processes in self.memory.items():
            seen = [looks for looks in processes.values() if len(looks) >= LOOKS]
            if seen:
                first, last = (
                    statistics.mean(statistics.median(size for _, size in part) for part in parts) / 1e6
                    for parts in ([looks[:3] for looks in seen], [looks[-3:] for looks in seen])
                )
                events = statistics.mean(looks[-1][0] - looks[0][0] for looks in seen)
                yield function, len(seen), first, last, (last - first) * 1e6 / max(1, events)

    def complaints(self) -> list[str]:
        """What is wrong; empty if nothing is."""
        found = list(self.failures)
        for name, drift in self.drift().items():
            if name != "work" and drift > (CPU_DRIFT if name == "CPU" else DRIFT):
                found.append(f"{name}: {drift:.2f} times as much in the last quarter")
        for function, _, first, last, left in self.growth():
            if last > GROWTH * first:
                found.append(f"{function} grows from {first:.1f} to {last:.1f} MB a process, {left:.0f} bytes an event")
        return found


class Session:
    """One client in one session: says something, executes calls, loses its connection now and then."""

    def __init__(self, cloud: LocalCloud, name: str, seen: Soak) -> None:
        self._name, self._seen = name, seen
        self._client = Follower(cloud.url(name, extensions=1))
        self._choose = random.Random(name)
        self._told = self._resumed = 0

    def has(self, frame_type: str) -> bool:
        """Has its client received such a frame?"""
        return self._client.count(frame_type) > 0

    def run(self, until: float) -> None:
        turn = 0
        try:
            while time.monotonic() < until:
                self._turn(turn)
                turn += 1
                time.sleep(PAUSE_S * 2 * self._choose.random())
        except Exception as error:
            self._seen.failures.append(f"{self._name}, turn {turn}: {type(error).__name__}: {error}")
        finally:
            self._seen.reconnects += self._client.reconnects
            self._client.close()

    def _turn(self, turn: int) -> None:
        """One turn, from the message to the end. Raises AssertionError if the client sees anything wrong."""
        client, tools = self._client, turn % 3
        began, first = time.monotonic(), 0.0
        at = self._told
        client.send("user_message", content=asks(self._name, turn, tools), client_msg_id=f"m{turn}")
        while not any(frame["type"] == "turn_end" for frame in client.frames[at:]):
            client.receive()
            for frame in client.frames[self._told :]:
                if frame["type"] == "assistant_message" and frame["token"]:
                    first = first or time.monotonic() - began
                self._react(frame)
            self._told = len(client.frames)
            for reply in client.replies[self._resumed :]:
                assert reply["type"] != "error", f"refused: {reply}"
                for call in reply.get("open_calls", ()):
                    self._execute(call)
            self._resumed = len(client.replies)
            if client.frames[at:] and self._choose.randrange(BREAKS) == 0:
                client.drop(clean=self._choose.random() < 0.5)
        self._seen.turns.append((began, first, time.monotonic() - began, turn))
        self._check(client.frames[at:], [text(self._name, turn, step) for step in range(tools + 1)])

    def _react(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "tool_call" and frame["requires_approval"]:
            self._client.send("hitl_decision", call_id=frame["call_id"], decision="approve")
        elif frame["type"] == "tool_call" and frame.get("execute", True):
            self._seen.calls += 1
            self._execute({**frame, "state": "executing"})

    def _execute(self, call: dict[str, Any]) -> None:
        if call["state"] == "awaiting_approval":
            self._client.send("hitl_decision", call_id=call["call_id"], decision="approve")
        else:
            result = {"content": "print('hello')\n" * 20} if call["tool_name"] == "read_file" else {}
            self._client.send("tool_result", call_id=call["call_id"], result=result)

    def _check(self, frames: list[dict[str, Any]], said: list[str]) -> None:
        """The turn ended as it should, and the client has read what the model said, once."""
        (end,) = (frame for frame in frames if frame["type"] == "turn_end")
        errors = [frame for frame in frames if frame["type"] == "error"]
        assert not errors, f"an error: {errors[0]}"
        assert end["reason"] == "completed", f"ended: {end['reason']}"
        read = list(messages(frames).values())
        assert read == said, f"read: {read}"


def pss(pid: int) -> int:
    """A process's proportional share of memory, in bytes; 0 if it has ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(1024 * int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))


def work() -> float:
    """The seconds that a fixed amount of work takes."""
    began = time.monotonic()
    sum(range(500_000))
    return time.monotonic() - began


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants, with those that have ended."""
    total = 0.0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def look(cloud: LocalCloud, seen: Soak, ended: threading.Event) -> None:
    """Look at the machine's speed, and at the system's CPU time and memory, until the end."""
    while not ended.wait(SAMPLE_S):
        seen.looks.append((time.monotonic(), work(), cpu_seconds(cloud.process.pid)))
        for function, it in cloud.functions().items():
            for pid, served in zip(it["workers"], it["served"], strict=True):
                if served >= WARM and (size := pss(pid)):
                    seen.memory.setdefault(function, {}).setdefault(pid, []).append((served, size))


def lose_a_step(cloud: LocalCloud, seen: Soak) -> None:
    """Kill the process that streams an answer, so that the sweep repairs its session.

    It seldom has anything to repair later: what it uses for that first would look like growth.
    """
    with ThreadPoolExecutor(1) as threads:
        session = Session(cloud, "soak-lost", seen)
        turn = threads.submit(session.run, time.monotonic() + PAUSE_S)
        while not (session.has("assistant_message") or turn.done()):
            time.sleep(0.005)
        cloud.kill("llm_request")
        turn.result()
    if not session.has("message_discarded"):
        seen.failures.append("no step was lost")


def leave_to_the_sweep(cloud: LocalCloud) -> None:
    """Have the sweep look at the sessions, which it does in threads that it starts for the first one.

    A step that was lost is repaired without them, because OnFailure tells of it.
    """
    table = cloud.client("dynamodb")
    (name,) = table.list_tables()["TableNames"]
    for item in table.scan(TableName=name)["Items"]:
        if item["sk"]["S"] == keys.REGISTER:
            table.update_item(
                TableName=name,
                Key={"pk": item["pk"], "sk": item["sk"]},
                UpdateExpression="SET due_at = :due, due_shard = :shard",
                ExpressionAttributeValues={":due": {"N": "1"}, ":shard": {"S": keys.due_shard(item["pk"]["S"])}},
            )
    cloud.invoke("sweep", {"time": datetime.now(UTC).isoformat()})


def soak(minutes: float) -> Soak:
    """Run it, and return what was seen."""
    seen, ended = Soak(), threading.Event()
    with (
        instant_model("benchmarks.soak_model") as url,
        system(url, MAX_CONTEXT_TOKENS=str(CONTEXT)) as cloud,
        ThreadPoolExecutor(SESSIONS + 1) as threads,
    ):
        lose_a_step(cloud, seen)
        leave_to_the_sweep(cloud)
        looking = threads.submit(look, cloud, seen, ended)
        until = time.monotonic() + 60 * minutes
        sessions = [Session(cloud, f"soak-{n}", seen) for n in range(SESSIONS)]
        running = [threads.submit(session.run, until) for session in sessions]
        for session in running:
            session.result()
        ended.set()
        looking.result()
        with urllib.request.urlopen(url.removesuffix("/v1") + "/counts", timeout=10) as counts:
            seen.model = json.loads(counts.read())
    return seen


def show(seen: Soak) -> None:
    """Print the table."""
    counts = seen.model
    failed = ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in FAILURES)
    first, end = (statistics.median([turn[n] for turn in seen.turns] or [0.0]) * 1000 for n in (1, 2))
    print(f"{len(seen.turns)} turns, {seen.calls} calls of tools, {seen.reconnects} reconnects")
    print(f"{counts['calls']} calls of the model, {counts['summaries']} for summaries; failed: {failed}")
    print(f"seen by clients: {len(seen.failures)} failures")
    print(f"first text p50 {first:.0f} ms, turn {end:.0f} ms")
    print("last quarter to first:", ", ".join(f"{name} {drift:.2f}" for name, drift in seen.drift().items()))
    for function, processes, before, after, left in sorted(seen.growth()):
        grown = f"{before:6.1f} → {after:5.1f} MB ({after / before:.2f}, {left:.0f} bytes an event)"
        print(f"{function:16} {grown}, {processes} processes")


def main(minutes: float) -> int:
    seen = soak(minutes)
    show(seen)
    complaints = seen.complaints()
    for complaint in complaints:
        print(f"WRONG: {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES))
