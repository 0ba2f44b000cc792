"""The table's access paths as an interface, and how a write may fail. `sessions/dynamodb` implements it.

Every read in a turn is by key, so it costs the same at message 5,000 as at message 50. Each write is one transaction,
guarded by the register's version. The exceptions (streamed text, reports of posted frames, users' counters) are single
writes that cannot disturb another writer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from codelab.sessions.kept_reasoning import ReasoningItem
from codelab.sessions.register import Extent, Register
from codelab.sessions.spending import Counters, Spending
from codelab.sessions.transition import Transition

#: An item as read: plain Python values by attribute, including `pk` and `sk`.
StoredItem = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a step reads of its session: the newest messages, and message `turn_n`, which the turn answers.

    `files` are in the order in which they were added; `items` are the requested ones, None if an item does not exist.
    `register` is None if it was not requested or does not exist.
    """

    history: list[MessageItem]
    turn_n: int = 0
    summary: SummaryItem | None = None
    files: Sequence[FileItem] = ()
    items: Mapping[str, StoredItem | None] = field(default_factory=dict)
    register: Register | None = None
    #: The project's instructions, by the path of their file, and the client's environment.
    instructions: Mapping[str, str] = field(default_factory=dict)
    environment: str = ""
    #: Large attachments of the history that were read, by digest; read after the rest.
    attachments: Mapping[str, Any] = field(default_factory=dict)
    #: The kept reasoning of the turn's answers, by the numbers of their messages.
    reasoning: Mapping[int, ReasoningItem] = field(default_factory=dict)


class Conflict(Exception):
    """Another writer was faster. Read and decide again."""


class SlotTaken(Conflict):
    """Another session has the slot that the transition takes, keeps or releases. Decide again without it."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token


class SeqTaken(Conflict):
    """The log is ahead of the register because a step streams. Find the log's end and decide again."""


class Duplicate(Exception):
    """The message with this id was accepted before; `key` is its item's sort key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True, slots=True)
class Listed:
    """A session in the index by last activity (ms)."""

    session_id: str
    title: str
    last_activity: int


class Over(Exception):
    """Nothing was counted, because it would exceed a limit. `item` has the user's counters, None if there are none."""

    def __init__(self, item: StoredItem | None) -> None:
        super().__init__("over a limit")
        self.item = item


class Tally(Protocol):
    """The users' counters: one item per user and day."""

    def count(
        self,
        user: str,
        spending: Spending,
        now: int,
        write_id: str,
        counters: Counters | None = None,
        limits: Mapping[str, int] = ...,
    ) -> None:
        """Add to the user's counters of the minute and the day of `now` (ms), in one call.

        A retry finds its own `write_id` and adds nothing. Removes the stale minutes of `counters`, or without them
        those of the last few minutes. `limits` are bounds of the new values, by name. Raises Over and adds nothing if a
        bound would be exceeded.
        """


class Bulk(Protocol):
    """Many items of a session at once, for copying and deleting it. Not atomic: the caller has the session's lease."""

    def keys(self, pk: str, limit: int) -> list[str]:
        """Sort keys of at most `limit` items of the session, except the register's. Read consistently."""

    def delete(self, pk: str, sort_keys: Iterable[str]) -> None:
        """Delete the items with these sort keys, if they exist."""

    def copy(self, items: Iterable[StoredItem], pk: str) -> None:
        """Write copies of items into the session `pk`, over existing ones."""


class Revocations(Protocol):
    """The time up to which each user's tokens are revoked. Times of tokens are whole seconds."""

    def revoked_at(self, user: str) -> int:
        """The time (seconds) up to which tokens of the user are revoked, 0 for none. Read consistently."""

    def revoke(self, user: str, now: int) -> int:
        """Revoke the tokens issued until `now` (ms), and make the user due for the sweep. Returns the time in seconds.

        A repeat also revokes the tokens issued since.
        """

    def pending(self, user: str) -> tuple[int, tuple[int, str] | None]:
        """The time as in `revoked_at`, and the session (last activity in ms, id) after which the sweep continues."""

    def save_progress(self, user: str, revoked_at: int, seen_to: tuple[int, str] | None = None) -> None:
        """Record that connections are closed up to the session `seen_to`; None: in all sessions, and nothing is due.

        Changes nothing if the user was revoked again meanwhile: the sweep begins again.
        """


class SessionStore(Protocol):
    """Sessions and their users' items."""

    @property
    def tally(self) -> Tally: ...

    @property
    def bulk(self) -> Bulk: ...

    @property
    def revocations(self) -> Revocations: ...

    def read(self, pk: str) -> Register | None:
        """The register, None if there is none. Read consistently."""

    def read_with(self, pk: str, sort_keys: Iterable[str]) -> tuple[Register | None, dict[str, StoredItem | None]]:
        """The register and the items with these sort keys in one round trip; None for what does not exist."""

    def items(self, pk: str, sort_keys: Sequence[str]) -> dict[str, StoredItem]:
        """The existing items, by sort key. Read consistently, with one call per 100 items."""

    def read_call(self, pk: str, call_id: str) -> tuple[Register | None, CallItem | None]:
        """The register and a call of the session in one round trip; None for what does not exist."""

    def read_about(self, pk: str) -> tuple[Register | None, AboutItem | None]:
        """The register and the creator's data in one round trip; None for what does not exist."""

    def read_tools(self, pk: str) -> tuple[Register | None, ToolsItem]:
        """The register (or None) and the clients' own tools in one round trip."""

    def abouts(self, user: str, session_ids: Sequence[str]) -> dict[str, AboutItem]:
        """What is known about these sessions of the user, at most 100, by id. Eventually consistent."""

    def calls(self, pk: str, call_ids: Iterable[str]) -> list[CallItem]:
        """The existing calls, in any order."""

    def message(self, pk: str, message_id: str) -> InputItem | None:
        """The accepted message with this id, None if there is none."""

    def history(self, pk: str, first: int, last: int) -> list[MessageItem]:
        """Messages first … last, in order."""

    def conversation(
        self, pk: str, extent: Extent, limit: int, sort_keys: Iterable[str] = (), *, with_register: bool = False
    ) -> Conversation:
        """What a step reads, in one round trip: the `limit` newest messages, its turn's message, and further items.

        `sort_keys` are those of the further items. `with_register`: also the register.
        """

    def files(self, register: Register) -> list[FileItem]:
        """The session's context files, in the order in which they were added."""

    def events(self, pk: str, first: int, last: int, now: int) -> list[EventItem]:
        """Logged frames first … last that have not expired by `now` (ms), in order."""

    def log_end(self, pk: str, last_known: int) -> int:
        """The seq of the last logged frame, at least `last_known`."""

    def listed(
        self, user: str, limit: int, before: tuple[int, str] | None = None
    ) -> tuple[list[Listed], tuple[int, str] | None]:
        """The user's sessions by latest activity, and where the next page begins (None: there is none).

        Eventually consistent.
        """

    def commit(self, transition: Transition, on_wait: Callable[[], object] | None = None) -> None:
        """Write a transition as one transaction.

        on_wait: called while the answer is awaited, perhaps several times or never. It must not raise.

        Raises Duplicate, SeqTaken, SlotTaken or Conflict; then nothing was written.
        """

    def append(self, pk: str, event: EventItem) -> bool:
        """Append a streamed frame at its seq. Returns False if another writer has that seq.

        Raises Conflict while another writer's transaction for that seq is in progress.
        """

    def posted(self, register: Register, firsts: Sequence[int]) -> None:
        """Report as posted the ranges of frames in the outbox that begin at the seqs `firsts`.

        It removes their attributes and does not change `version`, so it never makes a decision fail.
        """

    def renew(self, register: Register, until: int) -> bool:
        """Extend the lease of the running step in `register` to `until` (ms). Returns False if it is lost.

        It does not change `version`, so it never makes a decision fail. Raises Conflict while another writer's
        transaction is in progress; then nothing was extended.
        """

    def remove(self, register: Register) -> None:
        """Remove the register of a deleted session, unless another process has written it."""

    def unused(
        self, before: int, segment: tuple[int, int], position: StoredItem | None = None
    ) -> tuple[list[str], StoredItem | None]:
        """Partition keys of sessions with no activity since `before` (ms), and where to go on (None: at the end).

        `segment` is (n, of how many): each session is in one of them. Eventually consistent: read again before acting.
        """

    def due(
        self, shard: str, now: int, position: StoredItem | None = None
    ) -> tuple[list[tuple[str, int]], StoredItem | None]:
        """Partition keys of sessions and users that were due by `now` (ms), and since when; the most overdue first.

        Also where to go on (None: at the end). Eventually consistent, so read again before acting.
        """
