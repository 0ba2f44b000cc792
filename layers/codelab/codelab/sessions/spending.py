"""What a user uses beside the sessions: counters of a day with its minutes, and the slots of their open turns.

Neither is part of any session's state. A counter makes nobody wait, and a crash may lose what it was to be told. A slot
is taken and given back in the transaction that begins and ends a turn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from codelab.sessions import keys

MINUTE_MS, DAY_MS = 60_000, 86_400_000

#: Minutes before the last one that `earlier` names.
_EARLIER = 10

#: Counted by the minute; the others by the day.
BY_MINUTE = frozenset({"messages", "requests", "connections", "asking"})


@dataclass(frozen=True, slots=True)
class Spending:
    """What an event has used of what its user may use. `stored_bytes` are those of tickets, contexts and sessions.

    `asking` are Requests over HTTP that are under way, in the minute in which they began; one that ends takes 1 away.
    """

    messages: int = 0
    requests: int = 0
    connections: int = 0
    tokens: int = 0
    stored_bytes: int = 0
    asking: int = 0

    def __bool__(self) -> bool:
        return any(self.amounts().values())

    def __add__(self, other: "Spending") -> "Spending":
        mine, theirs = self.amounts(), other.amounts()
        return Spending(**{name: mine[name] + theirs[name] for name in mine})

    def amounts(self) -> dict[str, int]:
        """Every amount by its name."""
        return {it.name: getattr(self, it.name) for it in fields(self)}


@dataclass(frozen=True, slots=True)
class Counters:
    """What a user has used in the minute and the day of a time. `stale` are attributes of minutes that are over."""

    used: Spending = field(default_factory=Spending)
    stale: tuple[str, ...] = ()

    @classmethod
    def of(cls, item: Mapping[str, Any] | None, now: int) -> Self:
        """The counters in their item, None for one that does not exist. `now` is in milliseconds."""
        item = item or {}
        amounts = {it.name: item.get(attribute_of(it.name, now), 0) for it in fields(Spending)}
        minutes = {name: name.partition("@")[2] for name in item if "@" in name}
        # The minute before may still be told of by who has read the clock a moment ago.
        return cls(
            Spending(**amounts), tuple(it for it, minute in minutes.items() if int(minute) < now // MINUTE_MS - 1)
        )


def attribute_of(name: str, now: int) -> str:
    """The attribute that counts `name` at `now` (ms)."""
    return f"{name}@{now // MINUTE_MS}" if name in BY_MINUTE else name


def earlier(spent: Spending, now: int) -> tuple[str, ...]:
    """The attributes that counted the same in the minutes before, for who has not read which of them there are."""
    minutes = [now - back * MINUTE_MS for back in range(2, 2 + _EARLIER)]
    counted = [name for name, amount in spent.amounts().items() if amount and name in BY_MINUTE]
    return tuple(attribute_of(name, minute) for name in counted for minute in minutes)


def window_end(name: str, now: int) -> int:
    """When (ms) the window of `name` ends that `now` is in."""
    window = MINUTE_MS if name in BY_MINUTE else DAY_MS
    return (now // window + 1) * window


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for an open turn, of those that its user has. At `until` (ms) it is anybody's.

    In a transition: `until` 0 gives it back. `taken_at` (ms) takes it, if it is free then; without it, it is kept.
    """

    k: int
    token: str
    session_id: str
    until: int = 0
    taken_at: int = 0

    def key(self) -> str:
        return keys.slot_key(self.k)

    def attributes(self) -> dict[str, Any]:
        return {
            "token": self.token,
            "session_id": self.session_id,
            "until": self.until,
            "ttl": self.until // 1000 + 1,
        }

    @staticmethod
    def is_free(item: Mapping[str, Any] | None, now: int) -> bool:
        """May the slot in this item (None: there is none) be taken at `now` (ms)?"""
        return item is None or item["until"] <= now
