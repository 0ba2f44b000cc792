"""$disconnect: forget the connection. The turn goes on, calls stay open, nothing is decided."""

from typing import Any

from codelab.gateway.identity import caller_of
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.turns import connections, oversize
from codelab.wiring import posting_engine

sessions = posting_engine()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """A session that is gone by now has forgotten its connections already."""
    caller = caller_of(event)
    was_cut_off = event["requestContext"].get("disconnectStatusCode") == oversize.CLOSE_CODE
    leave = oversize.cut_off if was_cut_off else connections.disconnect
    try:
        sessions.apply(caller.user, caller.session_id, lambda draft: leave(draft, caller.connection_id))
    except ProtocolError as error:
        if error.code is not ErrorCode.SESSION_NOT_FOUND:
            raise
    return {"statusCode": 200}
