"""Checks the sender of an event before a decision, with the user's items that are read together with the register.

`item_keys` says what to read from the user's partition, `check` whether to accept the event. Events without a sender,
such as the sweep's or a step's, need neither.
"""

from collections.abc import Mapping
from typing import Any

from codelab.config import Settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.turns import quotas
from codelab.turns.caller import Caller
from codelab.turns.quotas import QuotaNeed


def item_keys(caller: Caller, settings: Settings, now: int, need: QuotaNeed = QuotaNeed.NONE) -> list[str]:
    """Sort keys of the user's items that a decision about an event of `caller` depends on.

    `now` is in milliseconds; `need` says which quotas the event needs.
    """
    revocation_keys = [keys.REVOKED] if caller.issued else []
    return [*revocation_keys, *quotas.item_keys(caller.plan, need, settings, now)]


def check(caller: Caller, items: Mapping[str, dict[str, Any] | None]) -> None:
    """Raise ProtocolError UNAUTHORIZED if the caller's token was revoked.

    `items` are the items that were read, by sort key; None for one that does not exist. Called before every decision,
    including repeated ones.
    """
    revocation = items.get(keys.REVOKED)
    if revocation is not None and caller.issued <= revocation["revoked_at"]:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, "The token was revoked; reconnect with a new one")
