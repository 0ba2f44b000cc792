"""$connect: create the session or join it; with `last_seq`, have what was missed replayed."""

import json
from typing import Any

from codelab.gateway.identity import SUBPROTOCOL, caller_of, offered_subprotocols, query_of
from codelab.gateway.services import invoke_resume, posting_engine
from codelab.protocol.errors import ErrorCode, ProtocolError

sessions = posting_engine()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Join, and echo exactly one subprotocol where one was offered, or browsers drop the connection.

    409 while a session with this id is being deleted.
    """
    caller = caller_of(event)
    try:
        sessions.join(caller)
    except ProtocolError as refusal:
        if refusal.code is not ErrorCode.BUSY:
            raise
        return {"statusCode": 409, "body": json.dumps({"message": refusal.message})}
    last_seq = query_of(event).get("last_seq", "")
    if last_seq.isdecimal():
        invoke_resume(caller, int(last_seq))
    if SUBPROTOCOL in offered_subprotocols(event):
        return {"statusCode": 200, "headers": {"Sec-WebSocket-Protocol": SUBPROTOCOL}}
    return {"statusCode": 200}
