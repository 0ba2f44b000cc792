"""sweep: repairs what is due every minute, and at once a failed `llm_request`; deletes old sessions; revokes tokens."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from codelab.process_start import begin_init

begin_init()

from codelab import turn_log
from codelab.config import settings
from codelab.engine.revoker import Revoker
from codelab.engine.sweeper import Sweeper
from codelab.gateway.identity import USER_ID
from codelab.observability import begin, metrics, record
from codelab.wiring import posting_engine, step_of

engine = posting_engine()
sweeper, revoker = Sweeper(engine), Revoker(engine)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    """Handle EventBridge's schedule, the record of a failed asynchronous invocation, or an operator's revocation.

    A revocation is {"kind": "revoke", "user"} and returns {"revoked_at", "sessions", "connections",
    "complete", "position"}.
    """
    begin(request_id=context.aws_request_id)
    try:
        return handle(event, context)
    finally:
        turn_log.end(context.get_remaining_time_in_millis())


def handle(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    """What `handler` does with the event."""
    if "requestPayload" in event:
        if event["requestPayload"].get("kind") == "step":  # a bare Request belongs to no session
            user, session_id, _ = step_of(event["requestPayload"])
            sweeper.recover(user, session_id, event["requestContext"]["requestId"])
    elif event.get("kind") == "revoke":
        return revoke(event["user"], context)
    else:
        report = sweeper.sweep(context.get_remaining_time_in_millis)
        lag_ms = engine.clock() - int(1000 * datetime.fromisoformat(event["time"]).timestamp())
        record(
            "swept",
            due=report.due_count,
            unused=report.unused_count,
            **metrics(SweepLagMs=lag_ms, OldestDueMs=report.oldest_ms),
        )
    return None


def revoke(user: str, context: Any) -> dict[str, Any]:
    """Revoke the user's tokens. Raises ValueError for an invalid user name."""
    if not USER_ID.fullmatch(user):
        raise ValueError("a user's name must have 1 to 128 characters and no '#'")
    if settings().web_push_key:
        from codelab import push  # only a stack that pushes needs it

        push.subscriptions().remove_all(user)
    revoked_at, progress = revoker.revoke(user, context.get_remaining_time_in_millis)
    return {"revoked_at": revoked_at, **asdict(progress)}
