"""Who is asking, and for which session: the dependencies that every operation of a user has."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Request

from codelab.config import settings
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.turns.connections import Caller

#: As `codelab.gateway.identity.SESSION_ID`, in OpenAPI's words.
SESSION_ID = r"^[A-Za-z0-9_.:-]+$"


async def user(request: Request) -> str:
    """The subject of the request's token, as the authorizer said. Raises ProtocolError UNAUTHORIZED without one."""
    context = request.scope["aws.event"]["requestContext"].get("authorizer", {}).get("lambda", {})
    found: str = context.get("user", "")
    if not found:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, "A valid token is needed: Authorization: Bearer …")
    return found


User = Annotated[str, Depends(user)]

SessionId = Annotated[
    str,
    Path(pattern=SESSION_ID, min_length=1, max_length=128, description="The session, private to its user"),
]


async def remaining_ms(request: Request) -> Callable[[], int]:
    """What the invocation has left."""
    found: Callable[[], int] = request.scope["aws.context"].get_remaining_time_in_millis
    return found


RemainingMs = Annotated[Callable[[], int], Depends(remaining_ms)]


def check_user(subject: str, named: str | None) -> None:
    """A `user_id` in a body must be the token's subject; where everyone is the same user it is only recorded.

    Raises ProtocolError PERMISSION_DENIED.
    """
    if named is not None and named != subject and settings().auth_mode != "none":
        raise ProtocolError(
            ErrorCode.PERMISSION_DENIED, "user_id is not the subject of the token", details={"field": "user_id"}
        )


def caller(subject: str, session_id: str) -> Caller:
    """The sender of a message over HTTP: it has no connection, so it executes nothing and gets no frames."""
    return Caller(user=subject, session_id=session_id, connection_id="")
