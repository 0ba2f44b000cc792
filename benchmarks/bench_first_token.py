"""The first token beside its floor, at message 1, 50, 200 and 1,000 of a session, and where its milliseconds go.

The floor consists of the calls that a first token cannot do without: read, transaction, invoke, read; then the model,
the append and the post of its first piece. Two bare functions (`benchmarks/floor`) make them with the system's own
clients, on a local cloud of their own, and send the model as many messages. So both pass a gateway, a service of
functions, an emulator and the model. What is beyond the floor is what the engine computes, and what it waits for.

Turns of both alternate in one run. An answer ends 50 ms after its first piece.

    python -m benchmarks.bench_first_token [ROUNDS]
"""

import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

from codelab_local import LocalCloud
from websockets.sync.client import ClientConnection, connect

from benchmarks import hops
from benchmarks.hops import Stamp
from benchmarks.rig import ROOT, instant_model, system

MESSAGES = (1, 50, 200, 1_000)
ROUNDS = 40
QUICK, CONTENT = "pieces=1", "pieces=1 rate=20"
#: Messages of the session that a request of the model has by then: two a turn, until a summary replaces the oldest.
_IN_CONTEXT = {1: 0, 50: 98, 200: 200, 1_000: 200}
_PAUSE_S = 0.02

#: A hop ends with the stamp of this name, the n-th one of the turn.
_HOPS = (
    ("gateway, function: until `user_message` runs", "event>", 1),
    ("parse, look up the sender", "GetItem>", 1),
    ("**read the register**", "GetItem<", 1),
    ("decide, build the transaction", "TransactWriteItems>", 1),
    ("**transaction**", "TransactWriteItems<", 1),
    ("**invoke**, until `llm_request` runs", "event>", 2),
    ("parse, build the read", "BatchGetItem>", 1),
    ("**read the step**", "BatchGetItem<", 1),
    ("build the request of the model", "model>", 1),
    ("model, until its answer begins", "model<", 1),
    ("read its first piece, have the step, hand it over", "PutItem>", 1),
    ("**append**", "PutItem<", 1),
    ("post, gateway: until the client has it", "first", 1),
)


class Turn:
    """The seconds to the first token, and the turn's stamps until then."""

    def __init__(self, began: float, first: float) -> None:
        self.began, self.first = began, first
        self.hops: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        return self.first - self.began

    def divide(self, stamps: list[Stamp]) -> None:
        """Measure the hops. A turn in which one is missing, for example after a retry, has none."""
        found: dict[tuple[str, int], float] = {("first", 1): self.first}
        seen: dict[str, Iterator[int]] = defaultdict(lambda: count(1))
        for stamp in stamps:
            if self.began <= stamp.at <= self.first:
                found[stamp.name, next(seen[stamp.name])] = stamp.at
        last = self.began
        for name, end, n in _HOPS:
            if (end, n) not in found:
                self.hops = {}
                return
            self.hops[name], last = found[end, n] - last, found[end, n]


class Ours:
    """Turns of one session of the system."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def turn(self, content: str) -> Turn:
        began, first = time.monotonic(), 0.0
        self._socket.send(json.dumps({"type": "user_message", "content": content}))
        while True:
            frame = json.loads(self._socket.recv(timeout=60))
            if frame["type"] == "assistant_message" and not first:
                first = time.monotonic()
            if frame["type"] == "agent_status" and frame["status"] == "idle":
                return Turn(began, first)


class Floor:
    """Turns of the bare functions; `history`: messages in the request of the model."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def turn(self, session: str, history: int) -> Turn:
        began = time.monotonic()
        self._socket.send(json.dumps({"session": session, "content": CONTENT, "history": history}))
        assert json.loads(self._socket.recv(timeout=60))["token"], "a bare function failed"
        first = time.monotonic()
        time.sleep(0.06)  # until its answer has ended
        return Turn(began, first)


class Measured:
    """The turns of both at one message number, in pairs."""

    def __init__(self) -> None:
        self.ours: list[Turn] = []
        self.floor: list[Turn] = []

    def ratio(self) -> float:
        return statistics.median(a.seconds / b.seconds for a, b in zip(self.ours, self.floor, strict=True))


@contextmanager
def _clouds() -> Iterator[tuple[LocalCloud, LocalCloud, tuple[Any, Any]]]:
    with ExitStack() as stack:
        model = stack.enter_context(instant_model())
        ours_file, ours = stack.enter_context(hops.stamped())
        bare_file, bare = stack.enter_context(hops.stamped())
        cloud = stack.enter_context(system(model, **ours))
        floor = LocalCloud(ROOT / "benchmarks/floor/template.yaml", environment={"LLM_BASE_URL": model, **bare})
        yield cloud, stack.enter_context(floor), (ours_file, bare_file)


def measure(rounds: int) -> dict[int, Measured]:
    found = {n: Measured() for n in MESSAGES}
    with _clouds() as (cloud, bare, files):
        with connect(bare.url()) as below:
            floor = Floor(below)

            def pair(session: Ours, n: int) -> None:
                found[n].ours.append(session.turn(CONTENT))
                time.sleep(_PAUSE_S)
                found[n].floor.append(floor.turn("floor", _IN_CONTEXT[n]))
                time.sleep(_PAUSE_S)

            for n in range(-5, rounds):  # the first ones warm up the processes
                with connect(cloud.url(f"young{n}")) as socket:
                    pair(Ours(socket), 1)
            del found[1].ours[:5], found[1].floor[:5]
            with connect(cloud.url("old")) as socket:
                session, last = Ours(socket), 0
                for n in MESSAGES[1:]:
                    for _ in range(n - rounds // 2 - last):
                        session.turn(QUICK)
                    for _ in range(rounds):
                        pair(session, n)
                    last = n - rounds // 2 + rounds
        for part, file in zip(("ours", "floor"), files, strict=True):
            stamps = hops.read(file)
            for measured in found.values():
                for turn in getattr(measured, part):
                    turn.divide(stamps)
    return found


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def _undisturbed(turns: list[Turn]) -> list[float]:
    """The tenth percentile of each hop: what the hop takes if the machine does nothing else."""
    divided = [turn.hops for turn in turns if turn.hops]
    return [sorted(hops[name] for hops in divided)[len(divided) // 10] for name, _, _ in _HOPS]


def report(found: dict[int, Measured]) -> None:
    """Two tables in Markdown, in milliseconds.

    The first has medians, and the median of the pairs' ratios; the second one tenth percentiles, of each hop alone.
    """
    print("| message | first token | its floor | ratio | fastest turn of each |")
    print("|---|---|---|---|---|")
    for n, measured in found.items():
        ours, floor = ([turn.seconds for turn in turns] for turns in (measured.ours, measured.floor))
        fastest = f"{_ms(min(ours))} / {_ms(min(floor))} = {min(ours) / min(floor):.2f}"
        middle = f"{_ms(statistics.median(ours))} | {_ms(statistics.median(floor))}"
        print(f"| {n:,} | {middle} | {measured.ratio():.2f} | {fastest} |")
    print(f"\n| hop | {' | '.join(f'at {n:,}' for n in found)} | floor |")
    print("|---|" + "---|" * (len(found) + 1))
    columns = [_undisturbed(measured.ours) for measured in found.values()]
    columns.append(_undisturbed([turn for measured in found.values() for turn in measured.floor]))
    for index, (hop, _, _) in enumerate(_HOPS):
        print(f"| {hop} | {' | '.join(_ms(column[index]) for column in columns)} |")
    whole = [sum(column) for column in columns]
    print(f"| together | {' | '.join(map(_ms, whole))} |")
    print(f"| × the floor | {' | '.join(f'{seconds / whole[-1]:.2f}' for seconds in whole)} |")
    divided = sum(bool(turn.hops) for measured in found.values() for turn in measured.ours)
    print(f"\n{sum(len(measured.ours) for measured in found.values())} pairs of turns, {divided} divided into hops")


def main() -> None:
    report(measure(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))


if __name__ == "__main__":
    main()
