"""The caller and the session of a request: dependencies of every operation for a user.

The function that answers a request also verifies its token, so a request without one costs one invocation, not two.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Request
from pydantic import StringConstraints

from codelab.config import settings
from codelab.gateway.identity import Identity
from codelab.gateway.tokens import InvalidToken, bearer_of
from codelab.observability import logger
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.turns.caller import Caller

#: The pattern of `codelab.gateway.identity.SESSION_ID` for OpenAPI, without the look-ahead, which pydantic lacks.
SESSION_ID = r"^(\.?[A-Za-z0-9_:-]|\.\.[A-Za-z0-9_.:-])[A-Za-z0-9_.:-]*$"


def verify_tokens(app: FastAPI) -> None:
    """Have the application's operations verify tokens as `$connect` does. At init: it may read the shared secret."""
    app.state.bearer = bearer_of()


async def subject(request: Request) -> Identity:
    """The identity in the request's token. Raises ProtocolError UNAUTHORIZED without a valid one.

    On a host that serves many requests at once, `stream_app` runs this in a thread.
    """
    return identify(request)


def identify(request: Request) -> Identity:
    """See `subject`. The token is in the header or, as for an EventSource, in the query."""
    authenticate: Callable[[dict[str, Any]], Identity] = request.app.state.bearer
    try:
        return authenticate({"headers": dict(request.headers), "queryStringParameters": dict(request.query_params)})
    except InvalidToken as error:
        logger().info("request refused", extra={"reason": str(error)})
        raise ProtocolError(ErrorCode.UNAUTHORIZED, "A valid token is required: Authorization: Bearer …") from None


OfToken = Annotated[Identity, Depends(subject)]


async def user(identity: OfToken) -> str:
    """The caller's name."""
    return identity.user


User = Annotated[str, Depends(user)]

SessionName = Annotated[str, StringConstraints(pattern=SESSION_ID, min_length=1, max_length=128)]
SessionId = Annotated[SessionName, Path(description="The session's id; ids are private to each user")]


async def remaining_ms(request: Request) -> Callable[[], int]:
    """A function that returns how many milliseconds the invocation has left."""
    remaining_time: Callable[[], int] = request.scope["aws.context"].get_remaining_time_in_millis
    return remaining_time


RemainingMs = Annotated[Callable[[], int], Depends(remaining_ms)]


def check_user(subject: str, user_id: str | None) -> None:
    """Raise ProtocolError PERMISSION_DENIED if the `user_id` of a body is not the token's subject.

    Without tokens, where everyone is the same user, it is only stored.
    """
    if user_id is not None and user_id != subject and settings().auth_mode != "none":
        raise ProtocolError(
            ErrorCode.PERMISSION_DENIED, "user_id must be the subject of the token", details={"field": "user_id"}
        )


async def sender(identity: OfToken) -> Callable[[str], Caller]:
    """A function that returns the caller for a session's id.

    Over HTTP, a caller has no connection, so it executes no calls and gets no frames.
    """
    return lambda session_id: Caller(
        user=identity.user,
        session_id=session_id,
        connection_id="",
        issued=identity.issued,
        expires=identity.expires,
        plan=identity.plan,
    )


Sender = Annotated[Callable[[str], Caller], Depends(sender)]
