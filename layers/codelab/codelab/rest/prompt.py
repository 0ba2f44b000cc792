"""What the model would read next, for developers: only on a local server."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import ValidationError

from codelab.config import settings
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import Environment
from codelab.rest import model
from codelab.rest.identity import SessionId, User
from codelab.rest.routes import DirectRoute

router = APIRouter(include_in_schema=False, route_class=DirectRoute)

Message = Annotated[str, Query(min_length=1, max_length=limits.LONG_MESSAGE_CHARS)]
EnvironmentJson = Annotated[str, Query(max_length=3 * limits.ENVIRONMENT_TREE_CHARS)]


@router.get("/sessions/{session_id}/prompt")
def next_request(
    session_id: SessionId, user: User, message: Message = "(your next message)", environment: EnvironmentJson = "{}"
) -> dict[str, Any]:
    """The request that the session's next step would send to the model, and the estimated tokens of its parts.

    If no turn runs, it answers `message`, with which the client tells this `environment`, the JSON of the field of
    `user_message`. A deployed server does not have this: its prompts are its operator's.
    """
    if not settings().codelab_local:
        raise HTTPException(404, "Only a local server tells what it would send to the model")
    try:
        environment_text = Environment.model_validate_json(environment).text
    except ValidationError as error:
        message = f"Invalid environment: {error.errors()[0]['msg']}"
        raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, message, details={"field": "environment"}) from None
    return model.next_request(user, session_id, message, environment_text)
