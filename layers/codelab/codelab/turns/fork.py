"""Forking a session: a new one with its history up to a point, its context files, settings and declared tools."""

from collections.abc import Callable

from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.sessions.register import LEASE_MARGIN_MS, Register
from codelab.turns import lifecycle
from codelab.turns.lifecycle import Hold
from codelab.turns.shell import Engine

#: Messages that are copied before the time is looked at.
_BATCH = 50
_MARGIN_MS = 6_000


def fork(
    engine: Engine,
    user: str,
    source_id: str,
    fork_id: str,
    up_to: int | None,
    title: str | None,
    remaining_ms: Callable[[], int],
) -> Register:
    """A session `fork_id` with the first `up_to` messages (all, if None) of the session `source_id`.

    One that is there already is returned as it is. Until the copy is complete nobody sees it, and if it is never
    completed the sweep erases it. Raises ProtocolError: SESSION_NOT_FOUND, INVALID_ARGUMENTS, PAYLOAD_TOO_LARGE for a
    history that cannot be copied in the time, BUSY while another makes the same fork.
    """
    source = engine.store.read(keys.partition(user, source_id))
    if source is None or source.erase_at:
        raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "There is no such session")
    last = source.history_n if up_to is None else up_to
    if last > source.history_n:
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            f"The history has {source.history_n} messages",
            details={"field": "up_to"},
        )
    hold = Hold(engine.ids(), engine.clock() + remaining_ms() + LEASE_MARGIN_MS)
    made, is_new = engine.create(user, fork_id, lambda given: lifecycle.begin_fork(user, fork_id, hold, given))
    if not is_new:
        return made
    try:
        _copy(engine, source, made, last, remaining_ms)
        name = source.title if title is None else title
        revealed = engine.decide(
            user, fork_id, lambda draft: lifecycle.reveal(draft, hold, source, last, name), absent_too=True
        )
    except ProtocolError:
        now = engine.clock()
        engine.decide(user, fork_id, lambda draft: lifecycle.give_back(draft, hold, now), absent_too=True)
        raise
    if revealed is None:
        raise ProtocolError(ErrorCode.BUSY, "The fork was not completed in its time; send the request again")
    return revealed.after


def _copy(engine: Engine, source: Register, made: Register, last: int, remaining_ms: Callable[[], int]) -> None:
    """What a new session of the same kind has from its beginning, then the messages."""
    store = engine.store
    store.bulk.copy(store.items(source.pk, _beside_messages(source)).values(), made.pk)
    for first in range(1, last + 1, _BATCH):
        if remaining_ms() < _MARGIN_MS:
            raise ProtocolError(
                ErrorCode.PAYLOAD_TOO_LARGE,
                f"There was time to copy {first - 1} messages of {last}; fork from an earlier one",
                details={"field": "up_to"},
            )
        wanted = [keys.message_key(n) for n in range(first, min(last, first + _BATCH - 1) + 1)]
        messages = store.items(source.pk, wanted)
        if len(messages) != len(wanted):  # it is being deleted meanwhile
            raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "There is no such session")
        store.bulk.copy(messages.values(), made.pk)


def _beside_messages(source: Register) -> list[str]:
    summary = [keys.summary_key(source.summary_n)] if source.summary_n else []
    return [keys.ABOUT, keys.TOOLS, *summary, *map(keys.file_key, source.files)]
