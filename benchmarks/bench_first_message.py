"""What choosing the agent adds to the first token of a session's first message, compared with its second message."""

import statistics
import time

from codelab_local import LocalCloud
from websockets.sync.client import connect

from benchmarks.bench_streaming import through_the_system
from benchmarks.rig import instant_model, summary, system

ROUNDS = 30
#: Seconds that the model is silent in every Request.
SILENCE_S = 0.5


def measured(cloud: LocalCloud) -> tuple[list[float], list[float]]:
    """Seconds to the first token of the first messages, and of the second ones."""
    first: list[float] = []
    second: list[float] = []
    for n in range(-3, ROUNDS):  # the first sessions warm up the processes
        with connect(cloud.url(f"session{n}")) as socket:
            for found in (first, second):
                seconds = through_the_system(socket, f"pieces=1 silence={SILENCE_S}").first
                if n >= 0:
                    found.append(seconds)
                time.sleep(0.05)
    return first, second


def main() -> None:
    with instant_model() as url, system(url, DEFAULT_AGENT="orchestrator") as cloud:
        first, second = measured(cloud)
    ratio = statistics.median(first) / statistics.median(second)
    print(f"first token with a model that is silent for {SILENCE_S * 1000:.0f} ms in every Request:")
    print(f"  first message {summary(first)}; second message {summary(second)}; {ratio:.2f} times as long")


if __name__ == "__main__":
    main()
