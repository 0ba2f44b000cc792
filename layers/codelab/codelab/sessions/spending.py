"""A user's usage over all sessions: counters of a day and its minutes, and the slots of open turns.

Neither is part of a session's state. Nobody waits for a counter, and a crash may lose a count. A slot is taken and
released in the transactions that begin and end a turn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Self

from codelab.sessions import keys

MINUTE_MS, DAY_MS = 60_000, 86_400_000

#: The number of earlier minutes that `earlier` names.
_EARLIER = 10

#: Amounts that are counted per minute; the others are counted per day.
BY_MINUTE = frozenset({"messages", "requests", "connections", "asking"})


@dataclass(frozen=True, slots=True)
class Spending:
    """What an event uses of its user's quotas. `stored_bytes` counts upload tickets, context files and sessions.

    `asking` counts Requests over HTTP in progress, in the minute in which they began; the end of one subtracts 1.
    """

    messages: int = 0
    requests: int = 0
    connections: int = 0
    tokens: int = 0
    stored_bytes: int = 0
    asking: int = 0

    def __bool__(self) -> bool:
        return any(_ALL(self))

    def __add__(self, other: "Spending") -> "Spending":
        own_amounts, other_amounts = self.amounts(), other.amounts()
        return Spending(**{name: own_amounts[name] + other_amounts[name] for name in own_amounts})

    def amounts(self) -> dict[str, int]:
        """All amounts by name."""
        return dict(zip(_AMOUNTS, _ALL(self), strict=True))


#: What costs nothing.
NOTHING = Spending()

_AMOUNTS = tuple(amount.name for amount in fields(Spending))
_ALL = attrgetter(*_AMOUNTS)


@dataclass(frozen=True, slots=True)
class Counters:
    """A user's usage in the minute and the day of a time. `stale` are the attributes of past minutes."""

    usage: Spending = NOTHING
    stale: tuple[str, ...] = ()

    @classmethod
    def of(cls, item: Mapping[str, Any] | None, now: int) -> Self:
        """The counters in their item at `now` (ms). `item` is None if it does not exist."""
        item = item or {}
        amounts = {name: item.get(attribute_of(name, now), 0) for name in _AMOUNTS} if item else {}
        minutes = {name: name.partition("@")[2] for name in item if "@" in name}
        # Keep the last minute: a process that has just read the clock may still count in it.
        return cls(
            Spending(**amounts), tuple(name for name, minute in minutes.items() if int(minute) < now // MINUTE_MS - 1)
        )


#: The counters of a user who has used nothing.
UNUSED = Counters()


def attribute_of(name: str, now: int) -> str:
    """The attribute that counts the amount `name` at `now` (ms)."""
    return f"{name}@{now // MINUTE_MS}" if name in BY_MINUTE else name


def earlier(spending: Spending, now: int) -> tuple[str, ...]:
    """The attributes of the same amounts in earlier minutes, for a writer that has not read the item."""
    minutes = [now - back * MINUTE_MS for back in range(2, 2 + _EARLIER)]
    names = [name for name, amount in spending.amounts().items() if amount and name in BY_MINUTE]
    return tuple(attribute_of(name, minute) for name in names for minute in minutes)


def period_end(name: str, now: int) -> int:
    """When (ms) the minute or day of `now` (ms) ends, whichever the amount `name` is counted by."""
    period = MINUTE_MS if name in BY_MINUTE else DAY_MS
    return (now // period + 1) * period


@dataclass(frozen=True, slots=True)
class Slot:
    """One of a user's places for open turns. It is free from `until` (ms) on.

    In a transition, `until` 0 releases it. With `taken_at` (ms) it is taken if it is free at that time; without, it is
    kept.
    """

    k: int
    token: str
    session_id: str
    until: int = 0
    taken_at: int = 0

    def key(self) -> str:
        return keys.slot_key(self.k)

    def row(self) -> dict[str, Any]:
        return {
            "sk": self.key(),
            "token": self.token,
            "session_id": self.session_id,
            "until": self.until,
            "ttl": self.until // 1000 + 1,
        }

    @staticmethod
    def is_free(item: Mapping[str, Any] | None, now: int) -> bool:
        """Is the slot in this item (None if there is none) free at `now` (ms)?"""
        return item is None or item["until"] <= now
