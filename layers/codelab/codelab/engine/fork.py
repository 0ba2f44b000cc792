"""Forks a session: a new one with its history up to a point, its context files, settings and session rules."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from codelab.engine.engine import Engine
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.sessions.items import MessageItem
from codelab.sessions.register import LEASE_MARGIN_MS, Register
from codelab.sessions.spending import Spending
from codelab.turns import compaction, lifecycle
from codelab.turns.caller import Caller
from codelab.turns.lifecycle import SessionLease

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
    last_n = source.history_n if up_to is None else up_to
    if last_n > source.history_n:
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            f"The history has only {source.history_n} messages",
            details={"field": "up_to"},
        )
    lease = SessionLease(engine.ids(), engine.clock() + remaining_ms() + LEASE_MARGIN_MS)
    result = engine.handle(lifecycle.begin_fork, lease, caller)
    new_session = result.register
    if result.transition is None:
        return new_session
    try:
        tokens = _copy(engine, caller, source, new_session, last_n, remaining_ms)
        name = source.title if title is None else title
        transition = engine.decide(
            user,
            fork_id,
            lambda draft: lifecycle.reveal(draft, lease, source, last_n, name, tokens),
            include_hidden=True,
        )
    except ProtocolError:
        now = engine.clock()
        engine.decide(user, fork_id, lambda draft: lifecycle.release(draft, lease, now), include_hidden=True)
        raise
    if transition is None:
        raise ProtocolError(ErrorCode.BUSY, "The fork timed out; send the request again")
    return transition.after


def _copy(
    engine: Engine,
    caller: Caller,
    source: Register,
    new_session: Register,
    last_n: int,
    remaining_ms: Callable[[], int],
) -> int:
    """Copy rules, files, summary and metadata, then the messages. Returns the tokens of those without a summary.

    Their approximate bytes are counted before they are written, so an unfinished copy counts as well.
    """
    store = engine.store
    other_items = store.items(source.pk, _other_keys(source, last_n)).values()
    engine.reserve(caller, Spending(stored_bytes=_bytes(other_items)))
    store.bulk.copy(other_items, new_session.pk)
    summary_n, cut_n = lifecycle.kept_compaction(source, last_n)
    tokens = 0
    for first_n in range(1, last_n + 1, _BATCH):
        if remaining_ms() < _MARGIN_MS:
            raise ProtocolError(
                ErrorCode.PAYLOAD_TOO_LARGE,
                f"Timed out after copying {first_n - 1} of {last_n} messages; fork from an earlier one",
                details={"field": "up_to"},
            )
        message_keys = [keys.message_key(n) for n in range(first_n, min(last_n, first_n + _BATCH - 1) + 1)]
        messages = store.items(source.pk, message_keys)
        if len(messages) != len(message_keys):  # the source is being deleted
            raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "No such session")
        engine.reserve(caller, Spending(stored_bytes=_bytes(messages.values())))
        store.bulk.copy(messages.values(), new_session.pk)
        for message in map(MessageItem.of, messages.values()):
            tokens += compaction.sent_tokens(message, cut_n) if message.n > summary_n else 0
    return tokens


def _bytes(items: Iterable[Mapping[str, Any]]) -> int:
    return sum(len(str(value).encode()) for item in items for value in item.values())


def _other_keys(source: Register, last_n: int) -> list[str]:
    # A summary of more than the copied messages would be in the way of the fork's own.
    summary_n, _ = lifecycle.kept_compaction(source, last_n)
    summary = [keys.summary_key(summary_n)] if summary_n else []
    return [keys.ABOUT, keys.RULES, *summary, *map(keys.file_key, source.files)]
