"""$disconnect: forget the connection. The turn goes on, calls stay open, nothing is decided."""

from typing import Any

from codelab.gateway.identity import caller_of
from codelab.gateway.services import engine
from codelab.turns import connections

sessions = engine()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    caller = caller_of(event)
    sessions.apply(caller.user, caller.session_id, lambda draft: connections.disconnect(draft, caller.connection_id))
    return {"statusCode": 200}
