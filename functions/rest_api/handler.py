"""The Agent Runtime API: FastAPI behind an HTTP API, over the same engine as the WebSocket."""

from typing import Any

from codelab.process_start import begin_init, hide_pydantic_1

begin_init()
hide_pydantic_1()

from codelab import turn_log
from codelab.gateway.edge import edge_check
from codelab.observability import begin, logger
from codelab.protocol.errors import ErrorCode
from codelab.rest.app import create_app
from codelab.rest.error_responses import answer
from codelab.rest.identity import verify_tokens
from codelab.wiring import engine
from mangum import Mangum

engine()  # at init, so that clients are warm before the first request
app = create_app()
verify_tokens(app)
comes_through_edge = edge_check()
adapter = Mangum(app, lifespan="off")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    begin(request_id=context.aws_request_id)
    if not comes_through_edge(event):
        return _refusal()
    try:
        return adapter(event, context)
    finally:
        turn_log.end(context.get_remaining_time_in_millis())


def _refusal() -> dict[str, Any]:
    logger().info("request refused", extra={"reason": "it did not come through the edge"})
    message = "This address is closed; ask the operator for the system's own"
    body = bytes(answer(403, ErrorCode.PERMISSION_DENIED.value, message).body).decode()
    return {"statusCode": 403, "headers": {"content-type": "application/json"}, "body": body}
