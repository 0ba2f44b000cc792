"""The table's access paths as an interface, and how a write may fail. `sessions/dynamodb` implements it.

Every read on a turn's path is by key: it costs the same at message 5,000 as at message 50. Writes are one transaction
each, guarded by the register's version; the exceptions, the streamed text's events, the report that frames were posted
and the counters of users, are single writes that cannot disturb another writer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from codelab.sessions.items import (
    AboutItem,
    CallItem,
    EventItem,
    FileItem,
    InputItem,
    MessageItem,
    SummaryItem,
    ToolsItem,
)
from codelab.sessions.register import Extent, Register
from codelab.sessions.spending import Counters, Spending
from codelab.sessions.transition import Transition

#: An item as it was read: plain Python values by attribute, `pk` and `sk` among them.
StoredItem = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a step reads of its session: the newest messages, and of those before them number `turn_n`, which the turn
    answers. `files` are in the order in which they were added; `items` were asked for, None for what is not there.
    """

    history: list[MessageItem]
    turn_n: int = 0
    summary: SummaryItem | None = None
    files: Sequence[FileItem] = ()
    items: Mapping[str, StoredItem | None] = field(default_factory=dict)


class Conflict(Exception):
    """Another writer was faster: read again, decide again."""


class SlotTaken(Conflict):
    """The slot that the transition was to take, keep or give back is another's: decide again without it."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token


class SeqTaken(Conflict):
    """The log is ahead of the register, because a step streams: look for its end, decide again."""


class Duplicate(Exception):
    """The message with this id was accepted before; `key` is its item's."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as the index by last activity knows it."""

    session_id: str
    title: str
    last_activity: int


class Over(Exception):
    """Nothing was counted: it would exceed a limit. `item` holds the user's counters as they are, None without any."""

    def __init__(self, item: StoredItem | None) -> None:
        super().__init__("over a limit")
        self.item = item


class Tally(Protocol):
    """The counters of users: one item per user and day."""

    def count(
        self,
        user: str,
        spent: Spending,
        now: int,
        write_id: str,
        known: Counters | None = None,
        most: Mapping[str, int] = ...,
    ) -> None:
        """Add to the user's counters of the minute and the day of `now` (ms), in one call.

        A retry finds its own `write_id` and adds nothing. The minutes that `known` counters have left behind are
        removed; without `known`, the last few. `most` bounds the new value of an amount, by name; raises Over, and adds
        nothing, where a bound would be exceeded.
        """


class Bulk(Protocol):
    """Many items of a session at once, to copy or delete it. Not atomic: the caller holds the session's lease."""

    def keys(self, pk: str, limit: int) -> list[str]:
        """Sort keys of at most `limit` items of the session, without the register's. Read consistently."""

    def delete(self, pk: str, wanted: Iterable[str]) -> None:
        """Delete the items with these sort keys, if they are there."""

    def copy(self, items: Iterable[StoredItem], pk: str) -> None:
        """Put copies of items into the session `pk`, over what is there."""


class Revocations(Protocol):
    """Until when each user's tokens are revoked. Times of tokens are in whole seconds."""

    def revoked_at(self, user: str) -> int:
        """The time (seconds) up to which tokens of the user are revoked, 0 for none. Read consistently."""

    def revoke(self, user: str, now: int) -> int:
        """Revoke the tokens issued until `now` (ms), and have the sweep look at it. Returns the second.

        Repeated, it revokes what was issued since.
        """

    def pending(self, user: str) -> tuple[int, tuple[int, str] | None]:
        """The same time, and the session (its last activity, its id) behind which the sweep goes on."""

    def save_progress(self, user: str, revoked_at: int, seen_to: tuple[int, str] | None = None) -> None:
        """Connections are ended up to the session `seen_to`; None: all of them, and the sweep need not look again.

        A user who was revoked again meanwhile is looked at from the beginning.
        """


class SessionStore(Protocol):
    """Sessions, and what their users have beside them."""

    @property
    def tally(self) -> Tally: ...

    @property
    def bulk(self) -> Bulk: ...

    @property
    def revocations(self) -> Revocations: ...

    def read(self, pk: str) -> Register | None:
        """The register, read consistently."""

    def read_with(self, pk: str, wanted: Iterable[str]) -> tuple[Register | None, dict[str, StoredItem | None]]:
        """The register and the items with these sort keys in one round trip; None for an item that does not exist."""

    def items(self, pk: str, wanted: Sequence[str]) -> dict[str, StoredItem]:
        """Those of the items that exist, by sort key, read consistently: one call per 100 of them."""

    def read_call(self, pk: str, call_id: str) -> tuple[Register | None, CallItem | None]:
        """The register and a call of the session, None for what does not exist; in one round trip."""

    def read_about(self, pk: str) -> tuple[Register | None, AboutItem | None]:
        """The register and what the session's creator said of it, in one round trip."""

    def read_tools(self, pk: str) -> tuple[Register | None, ToolsItem]:
        """The register and the clients' own tools, in one round trip."""

    def calls(self, pk: str, call_ids: Iterable[str]) -> list[CallItem]:
        """Those of the calls that exist, in no order."""

    def message(self, pk: str, message_id: str) -> InputItem | None:
        """The accepted message with this id, None if there is none."""

    def history(self, pk: str, first: int, last: int) -> list[MessageItem]:
        """Messages first … last, in order."""

    def conversation(self, pk: str, extent: Extent, most: int, wanted: Iterable[str] = ()) -> Conversation:
        """What a step reads, in one round trip: the `most` newest messages, its turn's question, and other items."""

    def files(self, register: Register) -> list[FileItem]:
        """The files of the session's context, the first added first."""

    def events(self, pk: str, first: int, last: int, now: int) -> list[EventItem]:
        """Logged frames first … last that have not expired by `now` (ms), in order."""

    def log_end(self, pk: str, known: int) -> int:
        """The seq of the last logged frame, at least `known`."""

    def listed(
        self, user: str, limit: int, before: tuple[int, str] | None = None
    ) -> tuple[list[Listed], tuple[int, str] | None]:
        """The user's sessions, the latest activity first, and where the next page begins. Eventually consistent."""

    def commit(self, transition: Transition) -> None:
        """Write a transition as one transaction. Raises Duplicate, SeqTaken, SlotTaken or Conflict; then nothing was
        written."""

    def append(self, pk: str, event: EventItem) -> bool:
        """Append a streamed frame at its seq. False if another writer has that seq.

        Raises Conflict while another writer's transaction holds the seq: whether it gets it is not known yet.
        """

    def posted(self, register: Register, firsts: Sequence[int]) -> None:
        """Report that the frames of the transitions whose first frames are `firsts` were posted.

        Never makes a decision fail: it removes an attribute each and leaves `version` alone.
        """

    def remove(self, register: Register) -> None:
        """Remove the register of a deleted session, unless another process has written it."""

    def due(self, shard: str, now: int, limit: int = 100) -> list[str]:
        """Partition keys of sessions, and of users, that were due by `now` (ms), the most overdue first.

        Eventually consistent: read again before acting.
        """
