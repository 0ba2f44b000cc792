"""The authorizer of the WebSocket API: identifies the user of a connection."""

import secrets
from typing import Any

from codelab.process_start import begin_init

begin_init()

from codelab.gateway.edge import edge_check
from codelab.gateway.identity import SESSION_ID, context_of, query_of
from codelab.gateway.tokens import InvalidToken, bearer_of
from codelab.observability import begin, logger

bearer = bearer_of()
comes_through_edge = edge_check()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    connection = event.get("requestContext", {}).get("connectionId", "")
    begin(connection=connection, request_id=context.aws_request_id)
    return authorize(event)


def authorize(event: dict[str, Any]) -> dict[str, Any]:
    """Allow with the caller's context; raise Unauthorized (401) for a bad token.

    Deny (403) an invalid session id, and whoever goes around the edge.
    """
    if not comes_through_edge(event):
        logger().info("connection refused", extra={"reason": "it did not come through the edge"})
        return {"principalId": "nobody", "policyDocument": _policy("Deny", event)}
    try:
        identity = bearer(event)
    except InvalidToken as error:
        logger().info("connection refused", extra={"reason": str(error)})
        raise Exception("Unauthorized") from None  # API Gateway answers 401 to exactly this text
    query = query_of(event)
    session_id = query.get("session_id") or "session_" + secrets.token_hex(12)
    effect = "Allow" if SESSION_ID.fullmatch(session_id) else "Deny"
    return {
        "principalId": identity.user,
        "policyDocument": _policy(effect, event),
        "context": context_of(identity.user, session_id, identity.issued, identity.expires, identity.plan, query),
    }


def _policy(effect: str, event: dict[str, Any]) -> dict[str, Any]:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": event["methodArn"]}
    return {"Version": "2012-10-17", "Statement": [statement]}
