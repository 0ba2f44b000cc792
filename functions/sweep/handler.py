"""sweep: every minute whatever is due; at once the session whose `llm_request` failed."""

from typing import Any

from codelab.gateway.services import posting_engine, step_of
from codelab.turns.sweeper import Sweeper

sweeper = Sweeper(posting_engine())


def handler(event: dict[str, Any], context: Any) -> None:
    """`event` is EventBridge's schedule, or the record of a failed asynchronous invocation."""
    if "requestPayload" in event:
        if event["requestPayload"].get("kind") == "step":  # a bare Request belongs to no session
            user, session_id, _ = step_of(event["requestPayload"])
            sweeper.revive(user, session_id, event["requestContext"]["requestId"])
    else:
        sweeper.sweep(context.get_remaining_time_in_millis)
