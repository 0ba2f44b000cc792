"""How a transition changes the slot of its session's turn."""

from codelab.sessions.register import Phase, Register
from codelab.sessions.spending import Slot

#: How long (ms) a slot outlives the time by which its turn must continue or end; the sweep may be this late.
_MARGIN_MS = 3_600_000
#: Time (ms) in which an invoked step is acquired, or invoked again.
_DISPATCH_MS = 600_000


def change(before: Register | None, after: Register, now: int, lost_tokens: frozenset[str]) -> Slot | None:
    """Update the slot of `after`. Returns the write for it, at most one; None if nothing changes.

    An idle session holds no slot. `now` is in milliseconds; `lost_tokens` are those of slots that another session has
    taken.
    """
    held_token = before.slot if before is not None and before.slot not in lost_tokens else ""
    if after.phase is Phase.IDLE or after.slot in lost_tokens:
        after.slot, after.slot_until = "", 0
    if held_token and after.slot != held_token:
        return _slot(after, held_token)
    if not after.slot:
        return None
    due = max([now + _DISPATCH_MS, after.lease_until, *(call.due for call in after.open_step_calls.values())])
    # Compare with the stored time, not with the draft's: a decision may be finished twice.
    if before is not None and after.slot == held_token and before.slot_until >= due:
        return None
    after.slot_until = due + _MARGIN_MS
    return _slot(after, after.slot, after.slot_until, 0 if after.slot == held_token else now)


def _slot(register: Register, token: str, until: int = 0, taken_at: int = 0) -> Slot:
    return Slot(int(token.partition(".")[0]), token, register.session_id, until, taken_at)
