"""One schema-enforced Request to the model, answered while the caller waits."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from codelab.protocol.errors import ErrorCode
from codelab.rest import model
from codelab.rest.bodies import Body, JsonRoute, with_example
from codelab.rest.error_responses import refusals
from codelab.rest.identity import RemainingMs, Sender
from codelab.sessions.spending import Spending
from codelab.turns import quotas
from codelab.wiring import engine

router = APIRouter(tags=["requests"], route_class=JsonRoute)

#: Milliseconds reserved to pass the answer on to the caller.
_MARGIN_MS = 3_000


class NewRequest(Body):
    """The messages to the model, and the JSON Schema for its answer.

    `context` is a list of messages {role, content}; content is text, an OpenAI content list, or a structured object
    {type, …}. Context and schema together have at most `MAX_CONTEXT_TOKENS`. `config` overrides the model (one that the
    server offers) and its options, within limits.
    """

    model_config = with_example(
        context=[{"role": "user", "content": "Name a fruit"}],
        schema={
            "type": "object",
            "properties": {"fruit": {"type": "string"}},
            "required": ["fruit"],
            "additionalProperties": False,
        },
    )

    context: list[Any]
    answer_schema: dict[str, Any] = Field(alias="schema")
    config: dict[str, Any] | None = None


class Solution(BaseModel):
    """The answer, valid for the schema. `strategy` says how the model was asked, `attempts` how often.

    With `config.n` above 1, `solutions` has all answers.
    """

    model_config = with_example(
        solution={"fruit": "apple"},
        usage={"prompt_tokens": 120, "completion_tokens": 6},
        strategy="native",
        attempts=1,
        finish_reason="stop",
        solutions=None,
    )

    solution: Any
    usage: dict[str, Any]
    strategy: str
    attempts: int
    finish_reason: str | None
    solutions: list[Any] | None = None


@router.post(
    "/requests",
    responses=refusals(
        ErrorCode.LLM_ERROR, ErrorCode.RATE_LIMITED, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.CONTEXT_TOO_LARGE
    ),
)
def make_request(new_request: NewRequest, sender: Sender, remaining_ms: RemainingMs) -> Solution:
    """Send one Request to the model, outside of any session. Takes up to about 25 seconds. Not idempotent."""
    sessions, caller = engine(), sender("")
    reserved_at = sessions.reserve(caller, Spending(requests=1, asking=1), room=Spending(tokens=1))
    request: dict[str, Any] = {"context": new_request.context, "schema": new_request.answer_schema}
    request["caller"] = {"user": caller.user, "plan": caller.plan, "at": reserved_at}
    if new_request.config is not None:
        request["config"] = new_request.config
    try:
        return Solution.model_validate(model.ask(request, (remaining_ms() - _MARGIN_MS) / 1000))
    except model.NotBegun:  # otherwise llm_request counts the end, even if the caller has given up
        limits = sessions.settings.limits[caller.plan]
        sessions.count(caller.user, quotas.limited_amounts(limits, Spending(asking=-1)), at=reserved_at)
        raise
