"""Which limits of AWS so many sessions meet first: `python -m benchmarks.scale [--write]`.

A simulation of ten minutes from the calls that tests count (infra/cost/counts.json): turns, calls, pings and
connections begin at random, and what they use is added up by second. `--write` puts the table into docs/scale.md.
"""

import json
import math
import random
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codelab.sessions.keys import DUE_SHARDS

from infra.cost import COUNTS, PRICES, ROOT, TOOL_STEP, TURN
from infra.docs.markdown import table

PAGE = ROOT / "docs/scale.md"
SIZES = (1_000, 100_000, 10_000_000)
SECONDS = 600

#: What a session does, on average, while somebody works with it: a turn in ten minutes, with two calls of tools, one
#: in five of which a human approves; a ping in nine minutes; a connection an hour.
TURN_EVERY_S, CALLS, APPROVED, PING_EVERY_S, CONNECTION_S = 600, 2, 0.2, 540, 3_600

#: An entry of the index of due sessions that moves is deleted and written.
DUE_UNITS = 2


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit: what it is called, its default, and what to do about it."""

    name: str
    default: float
    unit: str
    cure: str


REQUESTS = Limit(
    "API Gateway, **Throttle rate**: frames and `@connections` posts of all APIs",
    10_000, "a second", "Service Quotas; fewer posts with a longer `StreamMaxDelayMs`; an account of its own",
)  # fmt: skip
SMALL_REGION = Limit(
    "API Gateway, the same in a small region, such as Milan or Zurich", 2_500, "a second", "the same; ask earlier"
)
CONNECTS = Limit(
    "API Gateway, **New connections per second**", 500, "a second", "Service Quotas (L-9ED1E49A), then `ConnectRate`"
)
FRAMES = Limit("`ThrottleRate`, our own", 2_000, "a second", "the parameter, up to the account's throttle rate")
OWN_CONNECTS = Limit("`ConnectRate`, our own", 200, "a second", "the parameter")
EXECUTIONS = Limit(
    "Lambda, **Concurrent executions**", 1_000, "at once", "Service Quotas; reserve some for the routes, see deploy.md"
)
GROWTH = Limit(
    "Lambda, scaling rate of one function (`llm_request`)", 1_000, "more in 10 s", "none; requests wait and are retried"
)
WRITES = Limit("DynamoDB, **Table-level write throughput limit**", 40_000, "units a second", "Service Quotas")
READS = Limit("DynamoDB, **Table-level read throughput limit**", 40_000, "units a second", "Service Quotas")
COLD_WRITES = Limit(
    "DynamoDB, writes of a new table before it has grown", 4_000, "units a second", "`WarmWriteUnits`, before the crowd"
)
COLD_READS = Limit(
    "DynamoDB, reads of a new table before it has grown", 12_000, "units a second", "`WarmReadUnits`, before the crowd"
)
SESSION = Limit(
    "DynamoDB, one partition: the writes of the busiest session", 1_000, "units a second", "nothing; it does not grow"
)
DUE = Limit(
    "DynamoDB, one partition of the index of due sessions, at most", 1_000, "units a second", "more shards, in the code"
)
LIMITS = (
    *(REQUESTS, SMALL_REGION, CONNECTS, FRAMES, OWN_CONNECTS, EXECUTIONS, GROWTH),
    *(WRITES, COLD_WRITES, READS, COLD_READS, SESSION, DUE),
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens at random, `rate` times a second and session, and what it uses within `seconds`."""

    rate: float
    seconds: float
    executions: float = 0  # of `llm_request`, while it lasts
    event_s: float = 0  # seconds of other functions
    frames: float = 0
    posts: float = 0
    connects: float = 0
    writes: float = 0
    reads: float = 0
    commits: float = 0


def events(counts: Mapping[str, Any], assumed: Mapping[str, float]) -> list[Event]:
    """The events of a session, from the counts."""

    def used(field: str, *scenarios: str) -> float:
        return float(sum(usage[field] for name in scenarios for usage in counts[name].values()))

    def event(rate: float, seconds: float, *scenarios: str, **more: float) -> Event:
        units = {"writes": used("writes", *scenarios), "reads": used("reads", *scenarios)}
        invoked = sum(folder != "llm_request" for name in scenarios for folder in counts[name])
        event_s = invoked * assumed["event_ms"] / 1_000
        return Event(rate, seconds, event_s=event_s, posts=used("messages", *scenarios), **units, **more)

    turns, answer = 1 / TURN_EVERY_S, next(name for name in counts if name.startswith("answer"))
    step_s = assumed["step_ms"] / 1_000
    steps = {"executions": 1.0, "frames": 1.0, "commits": 3.0}  # the frame's, and a step's beginning and end
    return [
        event(turns, TURN.seconds + step_s, "turn", answer, **steps),
        event(turns * CALLS, TOOL_STEP.seconds + step_s, "tool call", **steps),
        event(turns * CALLS * APPROVED, 1, "approval", frames=1, commits=1),
        event(1 / PING_EVERY_S, 1, "ping", frames=1),
        event(1 / CONNECTION_S, 1, "connect", "disconnect", connects=1, commits=2),
    ]


def simulate(sessions: int, happening: list[Event], seed: int = 1) -> dict[Limit, float]:
    """The highest use of each limit in any second."""
    random_numbers = random.Random(seed)
    length = SECONDS + math.ceil(max(event.seconds for event in happening))
    running, others, frames, posts, connects, writes, reads, commits = ([0.0] * length for _ in range(8))
    for event in happening:
        spread = math.ceil(event.seconds)
        for second in range(SECONDS):
            begun = _poisson(random_numbers, sessions * event.rate)
            for later in range(second, second + spread):
                running[later] += begun * event.executions * min(1.0, event.seconds - (later - second))
                posts[later] += begun * event.posts / spread
                writes[later] += begun * event.writes / spread
                reads[later] += begun * event.reads / spread
                commits[later] += begun * event.commits / spread
            others[second] += begun * event.event_s
            frames[second] += begun * event.frames
            connects[second] += begun * event.connects
    warm = slice(spread_of(happening), SECONDS)  # when as many events end as begin

    def peak(series: list[float]) -> float:
        return max(series[warm])

    grown = [after - before for before, after in zip(running[warm], running[warm][10:], strict=False)]
    requests, written, read = peak([sum(pair) for pair in zip(frames, posts, strict=True)]), peak(writes), peak(reads)
    return {
        REQUESTS: requests,
        SMALL_REGION: requests,
        CONNECTS: peak(connects),
        FRAMES: peak(frames),
        OWN_CONNECTS: peak(connects),
        EXECUTIONS: peak([sum(pair) for pair in zip(running, others, strict=True)]),
        GROWTH: max(grown),
        WRITES: written,
        COLD_WRITES: written,
        READS: read,
        COLD_READS: read,
        # All that a session does, at once: a person who answers, approves and connects in the same seconds.
        SESSION: sum(event.writes / math.ceil(event.seconds) for event in happening),
        DUE: peak(commits) * DUE_UNITS / len(DUE_SHARDS),
    }


def spread_of(happening: list[Event]) -> int:
    return math.ceil(max(event.seconds for event in happening))


def _poisson(random_numbers: random.Random, mean: float) -> int:
    """How many events happen in a second with so many on average."""
    if mean > 50:
        return max(0, round(random_numbers.gauss(mean, math.sqrt(mean))))
    count, left = 0, random_numbers.random()
    while left > math.exp(-mean):
        count, left = count + 1, left * random_numbers.random()
    return count


def rows(counts: Mapping[str, Any], assumed: Mapping[str, float]) -> list[str]:
    """The table: the use of each limit by the number of sessions, with those in bold that are exceeded."""
    happening = events(counts, assumed)
    peaks = {sessions: simulate(sessions, happening) for sessions in SIZES}
    cells = [
        (
            limit.name,
            f"{limit.default:,.0f} {limit.unit}",
            *(_shown(peaks[sessions][limit], limit) for sessions in SIZES),
            limit.cure,
        )
        for limit in LIMITS
    ]
    return table(("limit", "default", *(f"{sessions:,}" for sessions in SIZES), "what to do"), cells)


def _shown(used: float, limit: Limit) -> str:
    digits = max(0, 1 - math.floor(math.log10(used))) if 0 < used < 10 else 0
    rounded = round(used, digits if used < 10 else 1 - math.floor(math.log10(used)))
    text = f"{rounded:,.{digits}f}"
    return f"**{text}**" if used > limit.default else text


def page(text: str) -> str:
    """The page with its table made anew."""
    counts = json.loads(COUNTS.read_text(encoding="utf-8"))
    assumed = tomllib.loads(PRICES.read_text(encoding="utf-8"))["assumed"]
    made = "\n".join(rows(counts, assumed))
    return re.sub(
        r"(<!-- scale -->\n).*?(<!-- /scale -->)", lambda place: f"{place[1]}{made}\n{place[2]}", text, flags=re.S
    )


def main() -> None:
    written = page(PAGE.read_text(encoding="utf-8"))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(written, encoding="utf-8")
    print(written.partition("<!-- scale -->\n")[2].partition("<!-- /scale -->")[0])


if __name__ == "__main__":
    main()
