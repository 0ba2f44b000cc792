"""$connect: create the session or join it; with `last_seq`, have what was missed replayed."""

from typing import Any

from codelab.gateway.identity import SUBPROTOCOL, caller_of, offered_subprotocols, query_of
from codelab.gateway.services import engine, invoke_resume

sessions = engine()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Join, and echo exactly one subprotocol where one was offered, or browsers drop the connection."""
    caller = caller_of(event)
    sessions.join(caller)
    last_seq = query_of(event).get("last_seq", "")
    if last_seq.isdecimal():
        invoke_resume(caller, int(last_seq))
    if SUBPROTOCOL in offered_subprotocols(event):
        return {"statusCode": 200, "headers": {"Sec-WebSocket-Protocol": SUBPROTOCOL}}
    return {"statusCode": 200}
