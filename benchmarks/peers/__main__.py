"""Measure our system beside others: the same load, from the same client, on the same model, block by block in turns.

Read ratios: they hold on other machines too, the times only on this one.
"""

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager

import uvloop

from benchmarks.peers import measures, report
from benchmarks.peers.measures import Figures
from benchmarks.peers.systems import BY_HAND, OURS, SYSTEMS, NotInstalled, Running, System
from benchmarks.rig import instant_model

MEASURES = {
    "turns": "first token and CPU of short turns, one session",
    "rates": "turns a second of 50 sessions (--all: of 1 to 200), without model delay",
    "stream": "300 tokens at 100/s: from the model's end to the turn's end",
    "bursts": "50 and 200 sessions with a model of 2 s, on a server just started; memory before and after",
    "history": "first token against message number",
}
CAVEATS = f"""
A figure is the median of the rounds. Its ratio is the median of the rounds' ratios to the server {BY_HAND}.
CPU is of all processes of a server, without the model's server and the client, which run on the same cores.
{OURS} is the local cloud: a gateway, an emulator of DynamoDB in memory, and a worker per function and event.
"""


class Comparison:
    """The servers to compare, and their figures so far."""

    def __init__(self, model_url: str, systems: Sequence[System]) -> None:
        self._model_url, self.systems = model_url, systems
        self.results: dict[str, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
        #: Per server, those of its growing session, in order of the messages.
        self.first_tokens: dict[str, list[float]] = {}

    def taking_part(self, measure: str) -> list[System]:
        return [system for system in self.systems if not system.only or measure in system.only]

    @contextmanager
    def all_running(self, systems: Sequence[System]) -> Iterator[dict[str, Running]]:
        """Those of the servers that start, by name."""
        with ExitStack() as stack:
            running = {}
            for system in systems:
                try:
                    running[system.name] = stack.enter_context(system.start(self._model_url))
                except RuntimeError as reason:
                    print(f"{system.name} does not start: {reason}", file=sys.stderr)
            yield running

    async def interleaved(
        self, running: dict[str, Running], block: Callable[[Running], Awaitable[Figures]], rounds: int
    ) -> None:
        """A round is a block of each server."""
        for number in range(rounds):
            for name in running:
                self._add(name, number, await _attempt(name, block(running[name])))

    async def on_fresh_servers(self, block: Callable[[Running], Awaitable[Figures]], rounds: int) -> None:
        """Each block is on a server just started, beside no other."""
        for number in range(rounds):
            for system in self.taking_part("bursts"):
                with self.all_running([system]) as running:
                    for name, server in running.items():
                        self._add(name, number, await _attempt(name, block(server)))

    async def history(self, messages: int, patience: float, starts: int) -> None:
        """The first messages of `starts` sessions, then a session that grows to `messages` (see `measures.History`)."""
        systems = self.taking_part("history")
        with self.all_running(systems) as running:
            for number in range(starts):
                for name, server in running.items():
                    self._add(name, number, await _attempt(name, _first(server)))
            grown = {name: measures.History(messages, patience) for name in running}
            async with AsyncExitStack() as stack:
                opened = {name: await stack.enter_async_context(each.open("grown")) for name, each in running.items()}
                while names := [name for name, history in grown.items() if not history.ended]:
                    for name in names:
                        self._add(name, 0, await _attempt(name, grown[name].block(opened[name])))
        self.first_tokens = {name: history.first_tokens for name, history in grown.items()}

    def _add(self, name: str, number: int, figures: Figures) -> None:
        for row, figure in figures.items():
            rounds = self.results[row][name]
            rounds += [None] * (number - len(rounds))
            rounds.append(figure)


async def _first(server: Running) -> Figures:
    return {"history_1": await measures.first_message(server)}


async def _attempt(name: str, block: Awaitable[Figures]) -> Figures:
    """A server's block; without figures if it fails."""
    try:
        return await block
    except Exception as error:
        print(f"{name}: {error!r}", file=sys.stderr)
        return {}


def _installed(systems: Sequence[System]) -> Iterator[System]:
    for system in systems:
        try:
            system.install()
            yield system
        except NotInstalled as reason:
            print(f"{system.name} is skipped, it cannot be installed: {reason}", file=sys.stderr)


def _said(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr)


async def compare(options: argparse.Namespace, model_url: str) -> Comparison:
    systems = list(_installed([system for system in SYSTEMS if system.name in options.systems]))
    comparison = Comparison(model_url, systems)
    sessions = measures.SESSIONS if options.all else (50,)
    together = [measure for measure in ("turns", "rates", "stream") if measure in options.measures]
    if together:
        with comparison.all_running(comparison.taking_part("turns")) as running:
            for measure in together:
                _said(MEASURES[measure])
                if measure == "turns":
                    await comparison.interleaved(running, measures.short_turns, options.rounds)
                elif measure == "stream":
                    await comparison.interleaved(running, measures.long_answers, options.rounds)
                else:
                    for count in sessions:
                        await comparison.interleaved(running, measures.rates(count), options.rounds)
    if "bursts" in options.measures:
        _said(MEASURES["bursts"])
        await comparison.on_fresh_servers(measures.bursts, max(1, options.rounds // 2))
    if "history" in options.measures:
        _said(MEASURES["history"])
        await comparison.history(options.messages, options.patience, 10)
    return comparison


def main() -> None:
    names = [system.name for system in SYSTEMS]
    parser = argparse.ArgumentParser("python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every server, 1,000 messages, 1 to 200 sessions")
    parser.add_argument("--plot", action="store_true", help="also write the plots and the table of docs/performance.md")
    parser.add_argument("--systems", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--measures",
        nargs="+",
        choices=MEASURES,
        default=list(MEASURES),
        metavar="NAME",
        help="; ".join(f"{name}: {what}" for name, what in MEASURES.items()),
    )
    parser.add_argument("--rounds", type=int, help="blocks of each server (3; --all: 5; of bursts half as many)")
    parser.add_argument("--messages", type=int, help="of the growing session (200; --all: 1000)")
    parser.add_argument(
        "--patience", type=float, default=300, help="seconds after which a server's growing session ends (300)"
    )
    options = parser.parse_args()
    options.systems = options.systems or (names if options.all else [BY_HAND, OURS])
    options.rounds = options.rounds or (5 if options.all else 3)
    options.messages = options.messages or (1000 if options.all else 200)
    with instant_model() as model_url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        comparison = runner.run(compare(options, model_url))
    shown = [system.name for system in comparison.systems if not system.only]
    table = report.lines(comparison.results, shown)
    print("\n".join(table), CAVEATS, sep="\n")
    if options.plot:
        report.write_table(table)
        report.plot_first_tokens(comparison.first_tokens)
        report.plot_rates(comparison.results)


if __name__ == "__main__":
    main()
