"""What is known of a user beside their sessions: read in the round trip of the register, checked before a decision.

Whose event it is says what is read of the user's own partition (`wanted`), and what was read says whether the event is
taken at all (`check`). An event of nobody, as the sweep's or a step's, reads and checks nothing.
"""

from collections.abc import Mapping
from typing import Any

from codelab.config import Settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.turns import quotas
from codelab.turns.caller import Caller
from codelab.turns.quotas import Asks


def wanted(caller: Caller, settings: Settings, now: int, asks: Asks = Asks.NOTHING) -> list[str]:
    """Sort keys of the items of the user's partition that a decision about an event of `caller` depends on.

    `codelab.sessions.keys.home` knows which keys are in that partition. `now` is in milliseconds; `asks` says what the
    event asks of the user's quotas.
    """
    revoked = [keys.REVOKED] if caller.issued else []
    return [*revoked, *quotas.wanted(caller.plan, asks, settings, now)]


def check(caller: Caller, items: Mapping[str, dict[str, Any] | None]) -> None:
    """Raise ProtocolError where the event is not to be taken, whatever it asks for.

    `items` are those that were read, by sort key: what `wanted` names and what the decision needs; None for one that
    does not exist. Asked before every decision, also when one is made again.
    """
    revoked = items.get(keys.REVOKED)
    if revoked is not None and caller.issued <= revoked["revoked_at"]:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, "The token was revoked; reconnect with a new one")
