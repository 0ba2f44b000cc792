"""What a transition does to the slot of its session's turn."""

from codelab.sessions.register import Phase, Register
from codelab.sessions.spending import Slot

#: How long a slot outlives the time (ms) by which its turn must have gone on or ended: the sweep may be so late.
_MARGIN_MS = 3_600_000
#: Time in which a step that was invoked is acquired, or invoked again.
_DISPATCH_MS = 600_000


def change(before: Register | None, after: Register, now: int, lost: frozenset[str]) -> Slot | None:
    """Bring the slot of `after` up to date. Gives what is to be written of it: at most one slot is concerned.

    An idle session holds none, whatever made it idle. `lost` are tokens of slots that have become another's.
    """
    held = before.slot if before is not None and before.slot not in lost else ""
    if after.phase is Phase.IDLE or after.slot in lost:
        after.slot, after.slot_until = "", 0
    if held and after.slot != held:
        return _slot(after, held)
    if not after.slot:
        return None
    due = max([now + _DISPATCH_MS, after.lease_until, *(call.due for call in after.open_step_calls.values())])
    # From what is stored, not from what this draft has made of it: a decision may be finished twice.
    if before is not None and after.slot == held and before.slot_until >= due:
        return None
    after.slot_until = due + _MARGIN_MS
    return _slot(after, after.slot, after.slot_until, 0 if after.slot == held else now)


def _slot(register: Register, token: str, until: int = 0, taken_at: int = 0) -> Slot:
    return Slot(int(token.partition(".")[0]), token, register.session_id, until, taken_at)
