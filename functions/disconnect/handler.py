"""$disconnect: remove the connection. The turn continues and calls stay open."""

from typing import Any

from codelab.gateway.identity import caller_of
from codelab.turns import connections, oversize
from codelab.wiring import posting_engine

engine = posting_engine()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    was_cut_off = event["requestContext"].get("disconnectStatusCode") == oversize.CLOSE_CODE
    engine.disconnect(caller_of(event), oversize.cut_off if was_cut_off else connections.disconnect)
    return {"statusCode": 200}
