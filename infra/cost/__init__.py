"""What the system costs, from counted calls and list prices: `python -m infra.cost`, which is `make cost`."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTS = Path(__file__).with_name("counts.json")
PRICES = Path(__file__).with_name("prices.toml")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the model: how many model tokens it has, and how long the model takes in seconds."""

    tokens: int
    seconds: float

    def batches(self, interval_ms: int) -> int:
        """At most so many batches: the first at once, then one an interval."""
        return 1 + int(self.seconds * 1000 / interval_ms)


#: A plain turn has one answer. A step that ends with a call of a tool has less to say.
TURN = Answer(tokens=300, seconds=6)
TOOL_STEP = Answer(tokens=100, seconds=2)
#: Values of `StreamMaxDelayMs`; the first is the default.
INTERVALS_MS = (100, 50, 200, 500)
