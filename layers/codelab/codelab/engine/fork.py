"""Forks a session: a new one with its history up to a point, its context files, settings and session rules."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from codelab.engine.engine import Engine
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.sessions.register import LEASE_MARGIN_MS, Register
from codelab.sessions.spending import Spending
from codelab.turns import lifecycle
from codelab.turns.caller import Caller
from codelab.turns.lifecycle import Lease

#: Messages that are copied between two checks of the remaining time.
_BATCH = 50
#: Time (ms) reserved for ending an unfinished fork.
_MARGIN_MS = 6_000


def fork(
    engine: Engine,
    caller: Caller,
    source_id: str,
    up_to: int | None,
    title: str | None,
    remaining_ms: Callable[[], int],
) -> Register:
    """Create the caller's session with the first `up_to` messages (None: all) of `source_id`. Returns its register.

    An existing session is returned unchanged. The new session is hidden until the copy is complete; the sweep deletes
    it if the copy is never completed. Raises ProtocolError: SESSION_NOT_FOUND, INVALID_ARGUMENTS, PAYLOAD_TOO_LARGE for
    a history that cannot be copied in time, RATE_LIMITED, BUSY while another request makes the same fork.
    """
    user, fork_id = caller.user, caller.session_id
    source = engine.store.read(keys.partition(user, source_id))
    if source is None or source.erase_at:
        raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "No such session")
    last = source.history_n if up_to is None else up_to
    if last > source.history_n:
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            f"The history has only {source.history_n} messages",
            details={"field": "up_to"},
        )
    lease = Lease(engine.ids(), engine.clock() + remaining_ms() + LEASE_MARGIN_MS)
    begun = engine.handle(lifecycle.begin_fork, lease, caller)
    made = begun.register
    if begun.transition is None:
        return made
    try:
        _copy(engine, caller, source, made, last, remaining_ms)
        name = source.title if title is None else title
        revealed = engine.decide(
            user, fork_id, lambda draft: lifecycle.reveal(draft, lease, source, last, name), include_hidden=True
        )
    except ProtocolError:
        now = engine.clock()
        engine.decide(user, fork_id, lambda draft: lifecycle.release(draft, lease, now), include_hidden=True)
        raise
    if revealed is None:
        raise ProtocolError(ErrorCode.BUSY, "The fork timed out; send the request again")
    return revealed.after


def _copy(
    engine: Engine, caller: Caller, source: Register, made: Register, last: int, remaining_ms: Callable[[], int]
) -> None:
    """Copy rules, files, summary and metadata, then the messages.

    Their approximate bytes are counted before they are written, so an unfinished copy counts as well.
    """
    store = engine.store
    beside = store.items(source.pk, _beside_messages(source, last)).values()
    engine.reserve(caller, Spending(stored_bytes=_bytes(beside)))
    store.bulk.copy(beside, made.pk)
    for first in range(1, last + 1, _BATCH):
        if remaining_ms() < _MARGIN_MS:
            raise ProtocolError(
                ErrorCode.PAYLOAD_TOO_LARGE,
                f"Timed out after copying {first - 1} of {last} messages; fork from an earlier one",
                details={"field": "up_to"},
            )
        wanted = [keys.message_key(n) for n in range(first, min(last, first + _BATCH - 1) + 1)]
        messages = store.items(source.pk, wanted)
        if len(messages) != len(wanted):  # the source is being deleted
            raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "No such session")
        engine.reserve(caller, Spending(stored_bytes=_bytes(messages.values())))
        store.bulk.copy(messages.values(), made.pk)


def _bytes(items: Iterable[Mapping[str, Any]]) -> int:
    return sum(len(str(value).encode()) for item in items for value in item.values())


def _beside_messages(source: Register, last: int) -> list[str]:
    # A summary of more than the copied messages would be in the way of the fork's own.
    summary = [keys.summary_key(source.summary_n)] if 0 < source.summary_n <= last else []
    return [keys.ABOUT, keys.RULES, *summary, *map(keys.file_key, source.files)]
