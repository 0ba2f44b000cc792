"""The Agent Runtime API: FastAPI behind an HTTP API, over the same engine as the WebSocket."""

from typing import Any

from codelab.process_start import begin_init, hide_pydantic_1

begin_init()
hide_pydantic_1()

from codelab import turn_log
from codelab.observability import begin
from codelab.rest.app import create_app
from codelab.rest.identity import verify_tokens
from codelab.wiring import engine
from mangum import Mangum

engine()  # at init, so that clients are warm before the first request
app = create_app()
verify_tokens(app)
adapter = Mangum(app, lifespan="off")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    begin(request_id=context.aws_request_id)
    try:
        return adapter(event, context)
    finally:
        turn_log.end(context.get_remaining_time_in_millis())
