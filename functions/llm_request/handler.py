"""The model is called here and nowhere else: one step of a turn, or one bare Request for whoever may invoke this."""

import time
from typing import Any

from codelab.config import secret, settings
from codelab.gateway.services import posting_engine, step_of
from codelab.requests import bedrock_transport, openai_transport, run_bare
from codelab.turns.runner import StepRunner

#: Time that an answer needs to leave the function, in seconds.
_MARGIN_S = 2.0

configured = settings()
defaults = {"model": configured.llm_model, "provider": configured.llm_provider}
if configured.llm_provider == "bedrock":
    transport = bedrock_transport(base_url=configured.llm_base_url or None)
else:
    transport = openai_transport(
        base_url=configured.llm_base_url or "https://api.openai.com/v1",
        api_key=secret(configured.llm_api_key, configured.llm_api_key_secret_arn),
    )
runner = StepRunner(posting_engine(), transport, configured)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    """A step is what `invoke_step` sent; it raises only what the OnFailure destination must repair.

    A Request is {"kind": "request", "context", "schema", "config"?, "timeout_s"?} and gives {"solution", "usage",
    "strategy", …}; its errors are raised, so that the caller sees their type and message as the function's error.
    """
    if event.get("kind") == "request":
        left = context.get_remaining_time_in_millis() / 1000 - _MARGIN_S
        deadline = time.monotonic() + min(left, event.pop("timeout_s", left))
        return run_bare(event, transport, defaults=defaults, deadline=deadline)
    user, session_id, step = step_of(event)
    runner.run(user, session_id, step, context.get_remaining_time_in_millis, context.aws_request_id)
    return None
