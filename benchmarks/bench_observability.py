"""What spans and metrics add to the CPU time of a turn: three processes take turns, plain, with spans, with metrics.

    python -m benchmarks.bench_observability          # 120 turns of each; another number as the argument

A turn is that of `way_of_the_data`: a message, a step with a call, the call's approval and its result, and a last step.
Each process has its own DynamoDB, model and collector, so no cache and no backlog of one is another's. The aim is that
neither spans nor metrics add more than 2 ms of CPU to a step, which is an invocation of `llm_request`.
"""

import multiprocessing
import os
import statistics
import sys
from multiprocessing.connection import Connection

from benchmarks.way_of_the_data import FUNCTIONS, Conversation, Timing, load, surroundings

#: What each process has switched on.
KINDS = ("plain", "spans", "metrics")
#: The turns of a session, and those of all sessions that are not measured.
_TURNS, _WARM_UP = 4, 8


def _serve(kind: str, parent: Connection) -> None:
    """Run a turn for every message of the parent, and send it the CPU time of its events in milliseconds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the functions' log
    with surroundings() as url:
        os.environ["LOG_LEVEL"] = "INFO"
        os.environ["METRICS"] = str(kind == "metrics").lower()
        os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{url}/v1/traces" if kind == "spans" else ""
        handlers = {function: load(function) for function in FUNCTIONS}
        number = 0
        while parent.recv():
            if number % _TURNS == 0:
                conversation = Conversation(handlers, url, f"s{number}")
            timing, number = Timing(), number + 1
            conversation.turn(timing)
            parent.send({name: sum(times) for name, times in timing.cpu_ms.items()})


def measure(turns: int) -> dict[str, list[dict[str, float]]]:
    """By kind, the CPU time of each turn's events in milliseconds."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for kind in KINDS:
        pipes[kind], child = context.Pipe()
        processes.append(context.Process(target=_serve, args=(kind, child)))
        processes[-1].start()
    measured: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for number in range(_WARM_UP + turns):
        for place in range(len(KINDS)):
            kind = KINDS[(number + place) % len(KINDS)]
            pipes[kind].send(True)
            times = pipes[kind].recv()
            if number >= _WARM_UP:
                measured[kind].append(times)
    for pipe in pipes.values():
        pipe.send(False)
    for process in processes:
        process.join()
    return measured


def main(turns: str = "120") -> None:
    measured = measure(int(turns))
    plain = measured.pop("plain")
    for event in plain[0]:
        before = [times[event] for times in plain]
        print(f"{event}: {statistics.median(before):.2f} ms of CPU")
        for kind, rounds in measured.items():
            after = [times[event] for times in rounds]
            added = statistics.median(with_it - without for with_it, without in zip(after, before, strict=True))
            ratio = statistics.median(with_it / without for with_it, without in zip(after, before, strict=True))
            print(f"    with {kind}: {added:+.2f} ms, × {ratio:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
