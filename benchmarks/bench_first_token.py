"""The first token beside its floor, at message 1, 50, 200 and 1,000 of a session, and where its milliseconds go.

The floor consists of the calls that a first token cannot do without: read, transaction, invoke, read; then the model,
the append and the post of its first piece. Two bare functions (`benchmarks/floor`) make them with the system's own
clients, on a local cloud of their own whose table has seen at least as many turns, and send the model as many messages.
So all pass a gateway, a service of functions, an emulator and the model. What is beyond the floor is what the engine
computes, and what it waits for. In the fenced floor, the bare functions also acquire the step beside the model, and
post the status before the text: without these calls no step would be safe, and no text in order.

They take turns in blocks of ten. An answer ends 50 ms after its first piece. There are two runs: one with a model that
answers at once, one with a model that is silent for 50 ms, less than any real one. That time is left out of the
figures, so what the system does meanwhile is in them only as far as it delays the answer.

    python -m benchmarks.bench_first_token [TURNS]
"""

import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import Any

from codelab_local import LocalCloud
from websockets.sync.client import ClientConnection, connect

from benchmarks import hops
from benchmarks.hops import Stamp
from benchmarks.rig import ROOT, instant_model, system

MESSAGES = (1, 50, 200, 1_000)
#: Of each, at each message. A block of turns keeps what it needs in the processor's caches.
TURNS, BLOCK = 40, 10
QUICK, CONTENT = "pieces=1", "pieces=1 rate=20 silence={}"
#: Seconds until the model's answer begins.
SILENCES = (0.0, 0.05)
#: Messages of the session that a request of the model has by then: two a turn, until a summary replaces the oldest.
_IN_CONTEXT = {1: 0, 50: 98, 200: 200, 1_000: 200}
_PAUSE_S = 0.02

_SILENT = "model, until its answer begins"
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
    (_SILENT, "model<", 1),
    ("read its first piece, have the step, hand it over", "PutItem>", 1),
    ("**append**", "PutItem<", 1),
    ("post, gateway: until the client has it", "first", 1),
)


class Turn:
    """The seconds to the first token, without the model's silence, and the turn's stamps until then."""

    def __init__(self, began: float, first: float, silence: float) -> None:
        self.began, self.first, self._silence = began, first, silence
        self.hops: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        return self.first - self.began - self._silence

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
        self.hops[_SILENT] -= self._silence


class Ours:
    """Turns of one session of the system."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def turn(self, content: str, silence: float = 0.0) -> Turn:
        began, first = time.monotonic(), 0.0
        self._socket.send(json.dumps({"type": "user_message", "content": content}))
        while True:
            frame = json.loads(self._socket.recv(timeout=60))
            if frame["type"] == "assistant_message" and not first:
                first = time.monotonic()
            if frame["type"] == "agent_status" and frame["status"] == "idle":
                return Turn(began, first, silence)


class Floor:
    """Turns of the bare functions; `history`: messages in the request of the model."""

    def __init__(self, socket: ClientConnection, *, fenced: bool) -> None:
        self._socket = socket
        self._fields = {"session": f"floor-{fenced}", "fenced": fenced}
        self._frames = 2 if fenced else 1

    def turn(self, content: str, history: int, silence: float = 0.0) -> Turn:
        began = time.monotonic()
        self._socket.send(json.dumps({**self._fields, "content": content, "history": history}))
        for _ in range(self._frames):
            frame = json.loads(self._socket.recv(timeout=60))
        assert frame["token"], "a bare function failed"
        first = time.monotonic()
        if content != QUICK:
            time.sleep(0.06)  # until its answer has ended
        return Turn(began, first, silence)


class Measured:
    """The turns at one message number."""

    def __init__(self) -> None:
        self.ours: list[Turn] = []
        self.floor: list[Turn] = []
        self.fenced: list[Turn] = []

    def medians(self) -> list[float]:
        """Of each, in seconds."""
        return [statistics.median(turn.seconds for turn in part) for part in (self.ours, self.floor, self.fenced)]


@contextmanager
def _clouds() -> Iterator[tuple[LocalCloud, LocalCloud, tuple[Any, Any]]]:
    with ExitStack() as stack:
        model = stack.enter_context(instant_model())
        ours_file, ours = stack.enter_context(hops.stamped())
        bare_file, bare = stack.enter_context(hops.stamped())
        cloud = stack.enter_context(system(model, **ours))
        floor = LocalCloud(ROOT / "benchmarks/floor/template.yaml", environment={"LLM_BASE_URL": model, **bare})
        yield cloud, stack.enter_context(floor), (ours_file, bare_file)


def measure(turns: int, silence: float) -> dict[int, Measured]:
    """By the number of the message."""
    content = CONTENT.format(silence)
    found = {n: Measured() for n in MESSAGES}
    with _clouds() as (cloud, bare, files):
        with connect(bare.url()) as below, connect(bare.url()) as beside:
            floor, fenced = Floor(below, fenced=False), Floor(beside, fenced=True)

            def blocks(n: int, turn: Callable[[], Turn]) -> None:
                kinds: list[tuple[list[Turn], Callable[[], Turn]]] = [
                    (found[n].ours, turn),
                    (found[n].floor, partial(floor.turn, content, _IN_CONTEXT[n], silence)),
                    (found[n].fenced, partial(fenced.turn, content, _IN_CONTEXT[n], silence)),
                ]
                for block in range(turns // BLOCK):
                    for part, each in kinds[:: -1 if block % 2 else 1]:
                        part += [each() for _ in range(BLOCK)]
                        time.sleep(_PAUSE_S)

            numbers = count(1)

            def first() -> Turn:
                with connect(cloud.url(f"young{next(numbers)}")) as socket:
                    return Ours(socket).turn(content, silence)

            for _ in range(5):  # the processes warm up
                first()
                floor.turn(content, 0, silence)
                fenced.turn(content, 0, silence)
            blocks(1, first)
            with connect(cloud.url("old")) as socket:
                session, last = Ours(socket), 0
                for n in MESSAGES[1:]:
                    for _ in range(n - turns // 2 - last):
                        session.turn(QUICK)
                        floor.turn(QUICK, 0)
                    blocks(n, lambda: session.turn(content, silence))
                    last = n - turns // 2 + turns
        for name, file in zip(("ours", "floor"), files, strict=True):
            stamps = hops.read(file)
            for measured in found.values():
                for turn in getattr(measured, name):
                    turn.divide(stamps)
    return found


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def _undisturbed(turns: list[Turn]) -> list[float]:
    """The tenth percentile of each hop: what the hop takes if the machine does nothing else."""
    divided = [turn.hops for turn in turns if turn.hops]
    return [sorted(hops[name] for hops in divided)[len(divided) // 10] for name, _, _ in _HOPS]


def report(found: dict[int, Measured]) -> None:
    """Two tables in Markdown, in milliseconds: medians, and tenth percentiles of each hop alone."""
    print("| message | first token | its floor | ratio | floor, fenced | ratio |")
    print("|---|---|---|---|---|---|")
    for n, measured in found.items():
        ours, floor, fenced = measured.medians()
        print(f"| {n:,} | {_ms(ours)} | {_ms(floor)} | {ours / floor:.2f} | {_ms(fenced)} | {ours / fenced:.2f} |")
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
    print(f"\n{sum(len(measured.ours) for measured in found.values())} turns, {divided} divided into hops")


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    for silence in SILENCES:
        print(f"\nThe model's answer begins after {silence * 1000:.0f} ms\n")
        report(measure(turns, silence))


if __name__ == "__main__":
    main()
