"""Creates, forks and deletes sessions without a connection.

A session that is being forked or deleted is hidden: it has `erase_at`, callers see SESSION_NOT_FOUND, and the sweep
deletes it from that time on unless it is revealed before. So a fork that crashes leaves nothing, and a deletion that
crashes is continued. A session that nobody has used for too long is only hidden; the sweep does the rest. The process
that copies or deletes holds the register's lease for as long as it can run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.sessions.items import AboutItem
from codelab.sessions.register import Register
from codelab.sessions.spending import Spending
from codelab.sessions.transition import Transition
from codelab.turns import quotas
from codelab.turns.caller import Caller
from codelab.turns.decision import decision
from codelab.turns.draft import Draft
from codelab.turns.quotas import QuotaNeed

#: Stored bytes that an empty session counts for.
_SESSION_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class SessionLease:
    """The lease of the process that copies or deletes: a random token, and until when (ms) the process can run."""

    token: str
    ends_at: int


@dataclass(frozen=True, slots=True)
class CreateSession:
    """The data that the creator supplies."""

    user_id: str
    metadata: dict[str, Any]
    title: str = ""


@decision(CreateSession, quota=QuotaNeed.COUNTERS, creates=True)
def create(draft: Draft, caller: Caller, event: CreateSession) -> Transition | None:
    """Create a session without connections; None if it exists. Raises ProtocolError PAYLOAD_TOO_LARGE, RATE_LIMITED."""
    if draft.before is not None:
        return None
    about = check_metadata(AboutItem(event.user_id, event.metadata))
    quotas.spend(draft, caller.plan, Spending(stored_bytes=_SESSION_BYTES + about.bytes))
    draft.register.title = event.title
    draft.puts.append(about)
    return draft.finish()


def check_metadata(about: AboutItem) -> AboutItem:
    """Raise ProtocolError PAYLOAD_TOO_LARGE if there is too much metadata."""
    if about.bytes > limits.METADATA_BYTES:
        raise ProtocolError(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"metadata has {about.bytes} bytes; at most {limits.METADATA_BYTES} are allowed",
            details={"field": "metadata"},
        )
    return about


def describe(draft: Draft, caller: Caller, metadata: Mapping[str, Any]) -> None:
    """Change the session's metadata by name; null removes a value. Needs the ABOUT item.

    Raises ProtocolError PAYLOAD_TOO_LARGE, RATE_LIMITED.
    """
    item = draft.item(keys.ABOUT)
    old_about = AboutItem.of(item) if item else AboutItem(caller.user, {})
    new_metadata = {name: value for name, value in {**old_about.metadata, **metadata}.items() if value is not None}
    if new_metadata != old_about.metadata:
        about = check_metadata(AboutItem(old_about.user_id, new_metadata))
        quotas.spend(draft, caller.plan, Spending(stored_bytes=about.bytes))
        draft.puts.append(about)


@decision(SessionLease, quota=QuotaNeed.COUNTERS, creates=True)
def begin_fork(draft: Draft, caller: Caller, lease: SessionLease) -> Transition | None:
    """Create a hidden session, which is deleted if it is not revealed in time; None if it exists.

    Raises ProtocolError RATE_LIMITED.
    """
    if draft.before is not None:
        return None
    quotas.spend(draft, caller.plan, Spending(stored_bytes=_SESSION_BYTES))
    draft.register.last_activity = 0
    _take_lease(draft.register, lease)
    return draft.finish()


def kept_compaction(source: Register, history_n: int) -> tuple[int, int]:
    """The messages that the summary of `source` stands for in a fork of `history_n`, and up to where results are cut.

    A summary of more messages is not kept: the fork gets its own.
    """
    return (source.summary_n, min(source.cut_n, history_n)) if source.summary_n <= history_n else (0, 0)


def reveal(
    draft: Draft, lease: SessionLease, source: Register, history_n: int, title: str, history_tokens: int
) -> Transition | None:
    """Reveal the complete fork: an idle session with the first `history_n` messages of `source`.

    `history_tokens` are those of its messages without a summary. None: the lease is lost.
    """
    if draft.register.lease != lease.token:
        return None
    register = _empty_register(draft)
    register.agent = source.agent
    register.title = title
    register.last_activity = draft.now
    register.settings = dict(source.settings)
    register.rule_versions = dict(source.rule_versions)
    register.files = dict(source.files)
    register.history_n, register.history_tokens = history_n, history_tokens
    register.summary_n, register.cut_n = kept_compaction(source, history_n)
    if register.summary_n == source.summary_n:
        register.summary_failed_tokens = min(source.summary_failed_tokens, history_tokens)
    return draft.finish()


def begin_deletion(draft: Draft, lease: SessionLease) -> Transition | None:
    """Hide the session in order to delete it. None: another process is deleting it.

    A step's owner may write as long as its process lives, so the last pass comes after that.
    """
    old_register = draft.register
    if old_register.erase_at and old_register.lease_until > draft.now:
        return None
    hide_children(draft, old_register.delegations)
    purge_after = old_register.purge_after if old_register.erase_at else _last_write_at(old_register)
    register = _empty_register(draft)
    register.purge_after = purge_after
    _take_lease(register, lease)
    return draft.finish()


def hide_unused(draft: Draft, before: int) -> Transition | None:
    """Hide a session without activity since `before` (ms), so that the sweep deletes it.

    None: somebody has used it since, has it open, or waits for something in it; or it is hidden already.
    """
    old_register = draft.register
    if old_register.last_activity >= before or old_register.connections or old_register.due_at() is not None:
        return None
    hide(draft)
    return draft.finish()


def hide(draft: Draft) -> None:
    """Hide the session at once. The sweep deletes it, and once more when no process can write to it any more."""
    old_register = draft.register
    register = _empty_register(draft)
    register.purge_after = _last_write_at(old_register)
    register.erase_at = draft.now


def hide_children(draft: Draft, call_ids: Iterable[str]) -> None:
    """Hide the children that work on these calls of the session."""
    for call_id in call_ids:
        child = draft.relative(keys.child_session(draft.register.session_id, call_id))
        if child is not None:
            hide(child)


def release(draft: Draft, lease: SessionLease, erase_at: int) -> Transition | None:
    """Leave the rest of the deletion to the sweep, from `erase_at` (ms) on. None: another process holds the lease."""
    register = draft.register
    if not register.erase_at or register.lease != lease.token:
        return None
    register.lease, register.lease_until, register.erase_at = "", 0, erase_at
    return draft.finish()


def _last_write_at(register: Register) -> int:
    """After this time (ms) no process that has or had the session's lease can write to it."""
    return max(register.lease_until, register.alive_until, register.stray_until)


def _empty_register(draft: Draft) -> Register:
    """Reset the draft's register to an empty session, which no list contains because it has no last activity."""
    old_register = draft.register
    draft.register = Register(
        user=old_register.user,
        session_id=old_register.session_id,
        created_at=old_register.created_at,
        agent=old_register.agent,
        version=old_register.version,
        stored_due_at=old_register.stored_due_at,
        pk=old_register.pk,
    )
    return draft.register


def _take_lease(register: Register, lease: SessionLease) -> None:
    register.lease, register.lease_until, register.erase_at = lease.token, lease.ends_at, lease.ends_at
