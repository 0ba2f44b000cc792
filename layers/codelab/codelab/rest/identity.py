"""The caller and the session of a request: dependencies of every operation for a user."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Request
from pydantic import StringConstraints

from codelab.config import settings
from codelab.gateway.identity import Identity
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.turns.caller import Caller

#: The pattern of `codelab.gateway.identity.SESSION_ID` for OpenAPI, without the look-ahead, which pydantic lacks.
SESSION_ID = r"^(\.?[A-Za-z0-9_:-]|\.\.[A-Za-z0-9_.:-])[A-Za-z0-9_.:-]*$"


async def subject(request: Request) -> Identity:
    """The identity that the authorizer found in the request's token. Raises ProtocolError UNAUTHORIZED without one."""
    context = _context(request)
    if not context.get("user"):
        raise unauthorized()
    return Identity(context["user"], int(context.get("issued", 0)), plan=context.get("plan", ""))


def unauthorized() -> ProtocolError:
    """The error of a request without a valid token."""
    return ProtocolError(ErrorCode.UNAUTHORIZED, "A valid token is required: Authorization: Bearer …")


OfToken = Annotated[Identity, Depends(subject)]


async def user(known: OfToken) -> str:
    """The caller's name."""
    return known.user


def _context(request: Request) -> dict[str, str]:
    """The authorizer's context; empty without one."""
    event = request.scope.get("aws.event") or {}
    authorizer = event.get("requestContext", {}).get("authorizer") or {}
    found: dict[str, str] = authorizer.get("lambda") or {}
    return found


User = Annotated[str, Depends(user)]

SessionName = Annotated[str, StringConstraints(pattern=SESSION_ID, min_length=1, max_length=128)]
SessionId = Annotated[SessionName, Path(description="The session's id; ids are private to each user")]


async def remaining_ms(request: Request) -> Callable[[], int]:
    """A function that returns how many milliseconds the invocation has left."""
    found: Callable[[], int] = request.scope["aws.context"].get_remaining_time_in_millis
    return found


RemainingMs = Annotated[Callable[[], int], Depends(remaining_ms)]


def check_user(subject: str, named: str | None) -> None:
    """Raise ProtocolError PERMISSION_DENIED if the `user_id` of a body is not the token's subject.

    Without tokens, where everyone is the same user, it is only stored.
    """
    if named is not None and named != subject and settings().auth_mode != "none":
        raise ProtocolError(
            ErrorCode.PERMISSION_DENIED, "user_id must be the subject of the token", details={"field": "user_id"}
        )


async def sender(known: OfToken) -> Callable[[str], Caller]:
    """A function that returns the caller for a session's id.

    Over HTTP, a caller has no connection, so it executes no calls and gets no frames.
    """
    return lambda session_id: Caller(
        user=known.user,
        session_id=session_id,
        connection_id="",
        issued=known.issued,
        expires=known.expires,
        plan=known.plan,
    )


Sender = Annotated[Callable[[str], Caller], Depends(sender)]
