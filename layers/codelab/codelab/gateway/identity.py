"""The sender of an event: the token of `$connect`, and the authorizer's context in every later event."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codelab.observability import begin
from codelab.sessions.keys import partition
from codelab.turns.caller import Caller

#: `.` and `..` are not valid: in an address they are folders, and `/sessions/..` would be another resource.
SESSION_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.:-]{1,128}")
USER_ID = re.compile(r"[^#\x00-\x1f\ud800-\udfff]{1,128}")

#: The subprotocol that the server speaks and echoes; a token may accompany it.
SUBPROTOCOL = "codelab"
_TOKEN_PREFIX = "token."


@dataclass(frozen=True, slots=True)
class Identity:
    """A valid token's subject, when it was issued and when it expires (seconds since the epoch), and the user's plan.

    Without tokens both times are 0, and nothing expires. The plan determines the user's limits.
    """

    user: str
    issued: int = 0
    expires: int = 0
    plan: str = ""


def token_of(event: Mapping[str, Any]) -> str:
    """The token of a `$connect`: the Authorization header, else the subprotocol, else (last resort) the query."""
    headers = headers_of(event)
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip()
    for protocol in offered_subprotocols(event):
        if protocol.startswith(_TOKEN_PREFIX):
            return protocol.removeprefix(_TOKEN_PREFIX)
    return query_of(event).get("token", "")


def offered_subprotocols(event: Mapping[str, Any]) -> list[str]:
    """The subprotocols that the client of a `$connect` offers."""
    header = headers_of(event).get("sec-websocket-protocol", "")
    return [protocol.strip() for protocol in header.split(",") if protocol.strip()]


def headers_of(event: Mapping[str, Any]) -> dict[str, str]:
    """The headers of an event, by their names in small letters."""
    return {name.lower(): value for name, value in (event.get("headers") or {}).items()}


def query_of(event: Mapping[str, Any]) -> dict[str, str]:
    """The query parameters of an event."""
    return dict(event.get("queryStringParameters") or {})


def context_of(
    user: str, session_id: str, issued_at: int, expires: int, plan: str, query: Mapping[str, str]
) -> dict[str, str | int | bool]:
    """The authorizer's context, which API Gateway attaches to every later event of the connection.

    No value is an empty string, because API Gateway does not document what it does with one.
    """
    return {
        "user": user,
        "session_id": session_id,
        "issued": issued_at,
        "expires": expires,
        **plan_of(plan),
        "extensions": query.get("extensions") == "1",
        "viewer": query.get("viewer") == "1",
        "profile": "args" if query.get("profile") == "args" else "default",
    }


def plan_of(plan: str) -> dict[str, str]:
    """The context's entry for the plan; nothing without a plan."""
    return {"plan": plan} if plan else {}


def caller_of(event: Mapping[str, Any]) -> Caller:
    """The sender of a WebSocket event. API Gateway turns the context's values into strings."""
    request = event["requestContext"]
    context = request["authorizer"]
    return Caller(
        user=context["user"],
        session_id=context["session_id"],
        connection_id=request["connectionId"],
        extensions=_true(context["extensions"]),
        viewer=_true(context["viewer"]),
        args_profile=context["profile"] == "args",
        expires=int(context["expires"]),
        plan=context.get("plan", ""),
        issued=int(context.get("issued", 0)),  # connections opened before this field existed lack it
    )


def name_in_log(caller: Caller, context: Any) -> None:
    """Have every line of the log name the caller's session and connection, and the request of Lambda's `context`."""
    session = partition(caller.user, caller.session_id)
    begin(session=session, connection=caller.connection_id, request_id=context.aws_request_id)


def _true(value: Any) -> bool:
    return str(value).lower() == "true"
