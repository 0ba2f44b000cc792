"""What the system costs, from counted calls and list prices: `python -m infra.cost`, which is `make cost`."""

import itertools
from dataclasses import dataclass
from pathlib import Path

from codelab.delivery.stream import delays

ROOT = Path(__file__).resolve().parents[2]
COUNTS = Path(__file__).with_name("counts.json")
PRICES = Path(__file__).with_name("prices.toml")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the model: how many model tokens it has, and how long the model takes in seconds."""

    tokens: int
    seconds: float

    def batches(self, max_delay_ms: int) -> int:
        """At most so many batches, with `StreamMaxDelayMs`: the first at once, the others after their delays."""
        sent_at = itertools.accumulate(delays(max_delay_ms / 1000))
        return 1 + sum(1 for _ in itertools.takewhile(lambda at: at <= self.seconds, sent_at))


#: A plain turn has one answer. A step that ends with a call of a tool has less to say.
TURN = Answer(tokens=300, seconds=6)
TOOL_STEP = Answer(tokens=100, seconds=2)
#: Values of `StreamMaxDelayMs`; the first is the default.
MAX_DELAYS_MS = (350, 100, 200, 500)
