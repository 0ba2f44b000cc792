"""One step of a turn: lease, context, one schema-enforced Request, the answer streamed and committed."""

from typing import Any

from codelab.config import secret, settings
from codelab.gateway.services import engine, step_of
from codelab.requests import openai_transport
from codelab.turns.runner import StepRunner

configured = settings()
runner = StepRunner(
    engine(),
    openai_transport(
        base_url=configured.llm_base_url,
        api_key=secret(configured.llm_api_key, configured.llm_api_key_secret_arn),
    ),
    configured,
)


def handler(event: dict[str, Any], context: Any) -> None:
    """`event` is what `invoke_step` sent. Raises only what the OnFailure destination must repair."""
    user, session_id, step = step_of(event)
    runner.run(user, session_id, step, context.get_remaining_time_in_millis)
