"""The users' quotas: checked before an event is accepted, and counted after it.

Counters are read with the register and added to after the commit, so concurrent events may exceed a limit by their own
usage. Open turns may not exceed theirs: a turn only begins with one of the user's slots. Requests that read no register
are counted before they run, in one conditional write (`bounds`).
"""

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from codelab.config import Limits, Settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import Quota
from codelab.sessions import keys
from codelab.sessions.register import Phase
from codelab.sessions.spending import Counters, Slot, Spending, period_end
from codelab.turns.draft import Draft

#: The limit of each amount, and the words for it.
_LIMITS = {
    "messages": ("messages_per_minute", "messages per minute"),
    "requests": ("requests_per_minute", "model Requests per minute"),
    "connections": ("connections_per_minute", "new connections per minute"),
    "tokens": ("tokens_per_day", "tokens per day"),
    "stored_bytes": ("stored_bytes_per_day", "stored bytes per day"),
}
#: Requests over HTTP in progress share the limit of open turns.
_BOUNDED = {**_LIMITS, "asking": ("open_turns", "concurrent Requests over HTTP")}
#: Slots that are read before a turn begins; all of them are read if none of these is free.
_SAMPLE = 3
#: Seconds after which to retry if no slot is free or too many Requests are in progress.
_SLOT_RETRY_S = 5

Choose = Callable[[range, int], Sequence[int]]


class QuotaNeed(Enum):
    """Which quotas an event needs, and so what is read with the register."""

    NONE = auto()
    COUNTERS = auto()  # the counters
    TURN = auto()  # a turn may begin: some slots as well
    OVERVIEW = auto()  # the counters and all slots


def item_keys(plan: str, need: QuotaNeed, settings: Settings, now: int, choose: Choose = random.sample) -> list[str]:
    """Sort keys of the user's items for `need` at `now` (ms). `choose` takes a random sample of a range."""
    if need is QuotaNeed.NONE:
        return []
    limits = settings.limits[plan]
    sort_keys = [keys.usage_key(now)] if limits.are_counted else []
    slots: Sequence[int] = range(limits.open_turns)
    if need is QuotaNeed.TURN:
        slots = choose(range(limits.open_turns), min(_SAMPLE, limits.open_turns))
    return sort_keys + ([keys.slot_key(k) for k in slots] if need is not QuotaNeed.COUNTERS else [])


def accept_request(draft: Draft, plan: str) -> None:
    """Check and count a frame for which the model is asked outside of a turn. Raises ProtocolError RATE_LIMITED."""
    limits = draft.settings.limits[plan]
    if limits.are_counted:
        _check(draft, limits, Spending(requests=1, tokens=1))
    _spend(draft, limits, Spending(messages=1))


def accept_message(draft: Draft, plan: str) -> None:
    """Check and count a message that is about to be accepted; if it begins a turn, take a slot.

    Raises ProtocolError RATE_LIMITED.
    """
    limits = draft.settings.limits[plan]
    if limits.are_counted:
        _check(draft, limits, Spending(requests=1, tokens=1))
    if draft.register.phase is Phase.IDLE and limits.open_turns:
        _take_slot(draft, limits.open_turns)
    _spend(draft, limits, Spending(messages=1))
    draft.register.user_plan = plan


def spend(draft: Draft, plan: str, spending: Spending) -> None:
    """Check this usage, and count it after the commit. Raises ProtocolError RATE_LIMITED."""
    _spend(draft, draft.settings.limits[plan], spending)


def _spend(draft: Draft, limits: Limits, spending: Spending) -> None:
    if limits.are_counted:
        draft.counters = _check(draft, limits, spending)
        draft.spending += limited_amounts(limits, spending)


def limited_amounts(limits: Limits, spending: Spending) -> Spending:
    """The amounts that have a limit; only they are counted."""
    amounts = spending.amounts()
    return Spending(**{name: amounts[name] if getattr(limits, _BOUNDED[name][0]) else 0 for name in amounts})


def bounds(limits: Limits, spending: Spending) -> dict[str, int]:
    """The limits of the amounts in `spending`, by name."""
    bounds = {name: getattr(limits, _BOUNDED[name][0]) for name, amount in spending.amounts().items() if amount}
    return {name: bound for name, bound in bounds.items() if bound}


def check(limits: Limits, item: Mapping[str, Any] | None, spending: Spending, now: int) -> Counters:
    """The counters in the user's item. Raises ProtocolError RATE_LIMITED if `spending` would exceed a limit."""
    counters = Counters.of(item, now)
    used_amounts = counters.usage.amounts()
    for name, amount in spending.amounts().items():
        limit = getattr(limits, _BOUNDED[name][0])
        if amount and limit and used_amounts[name] + amount > limit:
            raise over_quota(name, limit, now)
    return counters


def over_quota(name: str, limit: int, now: int) -> ProtocolError:
    """The error for exceeding the limit of the amount `name`, with `retry_after` in seconds."""
    limit_name, words = _BOUNDED[name]
    retry_after = _SLOT_RETRY_S if name == "asking" else -(-(period_end(name, now) - now) // 1000)
    return _refusal(f"Over the quota of {limit} {words}", limit_name, limit, retry_after)


def out_of_budget(
    settings: Settings, plan: str, item: Mapping[str, Any] | None, uncounted_tokens: int, now: int
) -> ProtocolError | None:
    """The error that ends the turn if the user's tokens of the day are used up, else None.

    `uncounted_tokens` are those that are not in the counters' `item` yet.
    """
    limits = settings.limits[plan]
    if not limits.tokens_per_day:
        return None
    try:
        check(limits, item, Spending(tokens=uncounted_tokens + 1), now)
    except ProtocolError as refusal:
        refusal.details["reason"] = "budget"
        return refusal
    return None


def usage_by_quota(
    settings: Settings, plan: str, items: Mapping[str, dict[str, Any] | None], now: int
) -> dict[str, Quota]:
    """The limits that are set, with the usage. `items` are those of `QuotaNeed.OVERVIEW`; `now` is in milliseconds."""
    limits = settings.limits[plan]
    used_amounts = Counters.of(items.get(keys.usage_key(now)), now).usage.amounts()
    quotas = {
        limit_name: Quota(used=used_amounts[name], limit=getattr(limits, limit_name), resets_at=period_end(name, now))
        for name, (limit_name, _) in _LIMITS.items()
        if getattr(limits, limit_name)
    }
    if limits.open_turns:
        slots = [items.get(keys.slot_key(k)) for k in range(limits.open_turns)]
        taken_count = sum(not Slot.is_free(slot, now) for slot in slots)
        quotas["open_turns"] = Quota(used=taken_count, limit=limits.open_turns)
    return quotas


def _check(draft: Draft, limits: Limits, spending: Spending) -> Counters:
    return check(limits, draft.item(keys.usage_key(draft.now)), spending, draft.now)


def _take_slot(draft: Draft, slot_count: int) -> None:
    """Take one of `slot_count` slots for the turn that begins.

    Chooses a random free slot, so that concurrent turns rarely choose the same one. Raises ProtocolError RATE_LIMITED.
    """
    slot_keys = {keys.slot_key(k): k for k in range(slot_count)}
    items = draft.inputs.items
    free_slots = [k for key, k in slot_keys.items() if key in items and Slot.is_free(items[key], draft.now)]
    if not free_slots:
        draft.need(slot_keys)
        raise _refusal(
            f"Over the quota of {slot_count} open turns; finish or cancel one first",
            "open_turns",
            slot_count,
            _SLOT_RETRY_S,
        )
    token = draft.inputs.new_id()
    draft.register.slot = f"{free_slots[zlib.crc32(token.encode()) % len(free_slots)]}.{token}"


def _refusal(message: str, quota_name: str, limit: int, retry_after: int) -> ProtocolError:
    details = {"quota": quota_name, "limit": limit, "retry_after": retry_after}
    return ProtocolError(ErrorCode.RATE_LIMITED, message, details=details)
