"""How sessions begin and end without a connection: created over HTTP, forked, deleted.

A session that is being forked or deleted has `erase_at`: callers see SESSION_NOT_FOUND, and from that time on the sweep
deletes what there is of it, unless it is revealed before. So a fork that dies half-way leaves nothing, and a deletion
that dies is carried on. The process that copies or deletes holds the register's lease for as long as it can be alive.
"""

from dataclasses import dataclass

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions.items import AboutItem
from codelab.sessions.register import Phase, Register
from codelab.sessions.spending import Spending
from codelab.sessions.transition import Transition
from codelab.turns import quotas
from codelab.turns.connections import Caller
from codelab.turns.draft import Circumstances, Draft

#: What a session without anything in it counts as stored.
_SESSION_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Hold:
    """What the one process holds that copies or deletes: a random token, and until when (ms) it can be alive."""

    token: str
    until: int


def create(caller: Caller, about: AboutItem, given: Circumstances, title: str = "") -> Transition:
    """A session without connections. Raises ProtocolError PAYLOAD_TOO_LARGE, RATE_LIMITED."""
    if about.bytes > limits.METADATA_BYTES:
        raise ProtocolError(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"metadata has {about.bytes} bytes, {limits.METADATA_BYTES} are allowed",
            details={"field": "metadata"},
        )
    draft = Draft(before=None, register=_new(caller, given), given=given)
    quotas.spend(draft, caller.plan, Spending(stored_bytes=_SESSION_BYTES + about.bytes))
    draft.register.title = title
    draft.puts.append(about)
    return draft.finish()


def begin_fork(caller: Caller, hold: Hold, given: Circumstances) -> Transition:
    """A session that is not there yet: deleted when its maker has not revealed it in time. Raises RATE_LIMITED."""
    draft = Draft(before=None, register=_new(caller, given), given=given)
    quotas.spend(draft, caller.plan, Spending(stored_bytes=_SESSION_BYTES))
    draft.register.last_activity = 0
    _hold(draft.register, hold)
    return draft.finish()


def reveal(draft: Draft, hold: Hold, source: Register, history_n: int, title: str) -> Transition | None:
    """The copies are complete: the session is there, idle, with the first `history_n` messages of `source`.

    None: it is no longer ours to reveal.
    """
    if draft.register.lease != hold.token:
        return None
    register = _renewed(draft)
    register.agent = source.agent
    register.title = title
    register.last_activity = draft.now
    register.settings = dict(source.settings)
    register.rules = dict(source.rules)
    register.files = dict(source.files)
    register.history_n = history_n
    if source.summary_n <= history_n:
        register.summary_n, register.history_tokens = source.summary_n, source.history_tokens
    return draft.finish()


def begin_deletion(draft: Draft, hold: Hold) -> Transition | None:
    """From here on the session is absent for everyone. None: another is erasing it right now.

    A step's owner may write on until its lease ends, so a last pass must come after that.
    """
    before = draft.register
    if before.erase_at and before.lease_until > draft.now:
        return None
    purge_after = before.purge_after if before.erase_at else before.lease_until if before.phase is Phase.RUNNING else 0
    register = _renewed(draft)
    register.purge_after = purge_after
    _hold(register, hold)
    return draft.finish()


def give_back(draft: Draft, hold: Hold, erase_at: int) -> Transition | None:
    """Leave what remains to be deleted to the sweep, from `erase_at` (ms) on. None: another holds it."""
    register = draft.register
    if not register.erase_at or register.lease != hold.token:
        return None
    register.lease, register.lease_until, register.erase_at = "", 0, erase_at
    return draft.finish()


def _new(caller: Caller, given: Circumstances) -> Register:
    return Register(
        user=caller.user,
        session_id=caller.session_id,
        created_at=given.now,
        last_activity=given.now,
        agent=given.settings.default_agent,
    )


def _renewed(draft: Draft) -> Register:
    """The draft's register as if nothing had happened in the session yet; in no list, for it has no last activity."""
    before = draft.register
    draft.register = Register(
        user=before.user,
        session_id=before.session_id,
        created_at=before.created_at,
        agent=before.agent,
        version=before.version,
        stored_due_at=before.stored_due_at,
    )
    return draft.register


def _hold(register: Register, hold: Hold) -> None:
    register.lease, register.lease_until, register.erase_at = hold.token, hold.until, hold.until
