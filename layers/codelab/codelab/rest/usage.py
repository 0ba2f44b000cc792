"""The caller's quotas and their usage."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from codelab.protocol.outgoing import Quota
from codelab.rest.bodies import with_example
from codelab.rest.error_responses import refusals
from codelab.rest.identity import Sender
from codelab.rest.routes import DirectRoute
from codelab.sessions import keys
from codelab.turns import quotas
from codelab.turns.quotas import QuotaNeed
from codelab.wiring import engine

router = APIRouter(tags=["usage"], route_class=DirectRoute)


class Usage(BaseModel):
    """The caller's quotas over all sessions, and what is used of them. Quotas without a limit are absent.

    `plan` is the token's claim `codelab_plan`, or empty.
    """

    model_config = with_example(
        plan="",
        quotas={
            "messages_per_minute": {"used": 3, "limit": 60, "resets_at": 1704794460000},
            "open_turns": {"used": 1, "limit": 20, "resets_at": None},
        },
    )

    plan: str
    quotas: dict[str, Quota] = Field(
        description="`messages_per_minute`, `requests_per_minute`, `tokens_per_day`, `connections_per_minute`, "
        "`stored_bytes_per_day`, `open_turns`"
    )


@router.get("/usage", responses=refusals())
def get_usage(sender: Sender) -> Usage:
    """The caller's usage and limits, and when each window ends."""
    caller, sessions = sender(""), engine()
    now = sessions.clock()
    item_keys = quotas.item_keys(caller.plan, QuotaNeed.OVERVIEW, sessions.settings, now)
    items = sessions.store.items(keys.of_user(caller.user), item_keys)
    return Usage(plan=caller.plan, quotas=quotas.usage_by_quota(sessions.settings, caller.plan, items, now))
