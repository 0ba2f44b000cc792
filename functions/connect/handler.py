"""$connect: create the session or join it."""

from typing import Any

from codelab.gateway.identity import SUBPROTOCOL, caller_of, offered_subprotocols
from codelab.gateway.services import engine

sessions = engine()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Join, and echo exactly one subprotocol where one was offered, or browsers drop the connection."""
    sessions.join(caller_of(event))
    if SUBPROTOCOL in offered_subprotocols(event):
        return {"statusCode": 200, "headers": {"Sec-WebSocket-Protocol": SUBPROTOCOL}}
    return {"statusCode": 200}
