"""$disconnect: remove the connection. The turn continues and calls stay open."""

from typing import Any

from codelab.process_start import begin_init

begin_init()

from codelab import turn_log
from codelab.gateway.identity import caller_of, name_in_log
from codelab.turns import connections, oversize
from codelab.wiring import posting_engine

engine = posting_engine()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    caller = caller_of(event)
    name_in_log(caller, context)
    was_cut_off = event["requestContext"].get("disconnectStatusCode") == oversize.CLOSE_CODE
    try:
        engine.disconnect(caller, oversize.cut_off if was_cut_off else connections.disconnect)
    finally:
        turn_log.end(context.get_remaining_time_in_millis())
    return {"statusCode": 200}
