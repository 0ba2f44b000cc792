"""$connect: create the session or join it; with `last_seq`, start a replay."""

import json
import re
from typing import Any

from codelab.process_start import begin_init

begin_init()

from codelab import turn_log
from codelab.gateway.identity import SUBPROTOCOL, caller_of, name_in_log, offered_subprotocols, query_of
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.turns.connections import connect
from codelab.wiring import invoke_resume, posting_engine

engine = posting_engine()

_STATUS = {ErrorCode.UNAUTHORIZED: 401, ErrorCode.BUSY: 409, ErrorCode.RATE_LIMITED: 429}
_SEQ = re.compile(r"[0-9]{1,15}")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle `$connect`. Answers 400, 401, 409 or 429 if it refuses: see `handle`."""
    try:
        return handle(event, context)
    finally:
        turn_log.end(context.get_remaining_time_in_millis())


def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Join, and echo exactly one subprotocol if one was offered, because browsers require it.

    Answers 400 for an invalid `last_seq`, 401 for a revoked token, 409 while a session with this id is being deleted,
    429 for too many new connections.
    """
    last_seq = query_of(event).get("last_seq", "")
    if last_seq and not _SEQ.fullmatch(last_seq):
        return _refusal(400, "last_seq must be a non-negative integer")
    caller = caller_of(event)
    name_in_log(caller, context)
    try:
        engine.handle(connect, None, caller)
    except ProtocolError as refusal:
        if refusal.code not in _STATUS:
            raise
        return _refusal(_STATUS[refusal.code], refusal.message, refusal.details.get("retry_after"))
    if last_seq:
        invoke_resume(caller, int(last_seq))
    if SUBPROTOCOL in offered_subprotocols(event):
        return {"statusCode": 200, "headers": {"Sec-WebSocket-Protocol": SUBPROTOCOL}}
    return {"statusCode": 200}


def _refusal(status: int, message: str, retry_after: int | None = None) -> dict[str, Any]:
    headers = {} if retry_after is None else {"headers": {"Retry-After": str(retry_after)}}
    return {"statusCode": status, **headers, "body": json.dumps({"message": message})}
