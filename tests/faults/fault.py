"""What can go wrong with one call of AWS, and with one event."""

from dataclasses import dataclass
from enum import StrEnum

READ, READ_MANY, TRANSACTION = "GetItem", "BatchGetItem", "TransactWriteItems"
APPEND, UPDATE, QUERY = "PutItem", "UpdateItem", "Query"
INVOKE, POST = "Invoke", "PostToConnection"
FETCH, STORE = "GetObject", "PutObject"


class Kind(StrEnum):
    """Of an event: the last two. Of a call: the others."""

    KILLED_BEFORE = "killed before it"
    KILLED_AFTER = "killed after it took effect"
    ANSWER_LOST = "its answer was lost"
    CONFLICT = "TransactionConflict"
    #: Its first attempt was still in progress when the SDK made the second one.
    DENIED = "took effect and was answered TransactionConflict"
    FAILS = "fails at every attempt"
    TWICE = "delivered twice"
    LATE = "delivered again when all was over"

    @property
    def is_death(self) -> bool:
        return self in (Kind.KILLED_BEFORE, Kind.KILLED_AFTER)


OF_EVENTS = (Kind.TWICE, Kind.LATE)


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault that befalls one event of a conversation, and the `nth` call of `operation` in it.

    Calls are counted by operation: those of several threads have no order among each other that every run repeats.
    """

    event: int
    kind: Kind
    operation: str = ""
    nth: int = 0

    def __str__(self) -> str:
        return f"{self.operation} {self.nth} {self.kind}" if self.operation else str(self.kind)


def kinds_of(operation: str) -> list[Kind]:
    """The faults that a call of `operation` can meet."""
    kinds = [Kind.KILLED_BEFORE, Kind.KILLED_AFTER, Kind.ANSWER_LOST, Kind.FAILS]
    if operation in (TRANSACTION, APPEND, UPDATE):
        kinds.append(Kind.CONFLICT)
    if operation == TRANSACTION:
        kinds.append(Kind.DENIED)
    return kinds
