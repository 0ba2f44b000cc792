"""WebSocket events in the shape that API Gateway sends.

From the developer guide ("Input to a Lambda authorizer", "Set up a WebSocket integration request"): a CONNECT event has
headers and the query and no messageId, a MESSAGE event has a body and neither, a DISCONNECT event has the close code;
the authorizer's context is on every one of them, its values turned into strings.
"""

import json
import time
from typing import Any

import jwt

#: What Secrets Manager keeps under `JwtSecret`; 64 bytes, as the template has it generated.
JWT_SECRET = "the secret that signs the tokens of these tests, 64 bytes of it."

_API, _STAGE = "a1b2c3d4e5", "v1"
_DOMAIN = f"{_API}.execute-api.eu-central-1.amazonaws.com"
_CONNECTED_AT = 1_700_000_000_000


def authorizer_context(
    session: str,
    *,
    user: str = "ann",
    extensions: bool = False,
    viewer: bool = False,
    profile: str = "",
    expires: int = 0,
    plan: str = "",
    issued: int = 0,
) -> dict[str, Any]:
    """What events carry of the authorizer's answer."""
    return {
        "principalId": user,
        "integrationLatency": 12,
        "user": user,
        "session_id": session,
        "expires": str(expires),
        "plan": plan,
        "issued": str(issued),
        "extensions": str(extensions).lower(),
        "viewer": str(viewer).lower(),
        "profile": profile,
    }


def connect(connection: str, authorizer: dict[str, Any], *, headers: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        **_handshake(None, headers),
        "requestContext": {**_context(connection, "$connect", "CONNECT"), "authorizer": authorizer},
        "isBase64Encoded": False,
    }


def authorize(*, query: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """What a REQUEST authorizer gets: the handshake, before there is a context."""
    return {
        "type": "REQUEST",
        "methodArn": f"arn:aws:execute-api:eu-central-1:123456789012:{_API}/{_STAGE}/$connect",
        **_handshake(query, headers),
        "requestContext": _context("L0SM9cOFvHcCIhw=", "$connect", "CONNECT"),
    }


def message(connection: str, authorizer: dict[str, Any], route: str, body: str | None) -> dict[str, Any]:
    event = {
        "requestContext": {
            **_context(connection, route, "MESSAGE"),
            "messageId": "Kd7hbfTPFiACFSw=",
            "authorizer": authorizer,
        },
        "isBase64Encoded": False,
    }
    return event if body is None else {**event, "body": body}


def disconnect(connection: str, authorizer: dict[str, Any], *, status: int = 1005, reason: str = "") -> dict[str, Any]:
    headers = {"Host": _DOMAIN, "x-api-key": "", "X-Forwarded-For": "", "x-restapi": ""}
    return {
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "requestContext": {
            **_context(connection, "$disconnect", "DISCONNECT"),
            "disconnectStatusCode": status,
            "disconnectReason": reason,
            "authorizer": authorizer,
        },
        "isBase64Encoded": False,
    }


def http(
    method: str,
    path: str,
    *,
    user: str = "ann",
    plan: str = "",
    body: Any = None,
    query: str = "",
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A request to the HTTP API, payload format 2.0, with the token of a user, if one is named.

    `headers` may carry another one.
    """
    bearer = {"authorization": f"Bearer {token(user, plan)}"} if user else {}
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "ANY /api/v1/{proxy+}",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {"host": _DOMAIN, "content-type": "application/json", **bearer, **(headers or {})},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": _API,
            "domainName": _DOMAIN,
            "domainPrefix": _API,
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.7",
                "userAgent": "test",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "ANY /api/v1/{proxy+}",
            "stage": "$default",
            "time": "14/Nov/2023:22:13:21 +0000",
            "timeEpoch": _CONNECTED_AT,
        },
        "isBase64Encoded": False,
    }
    if body is not None:
        event["body"] = json.dumps(body)
    return event


def token(user: str, plan: str = "") -> str:
    """A valid token of a user."""
    now = int(time.time())
    claims = {"sub": user, "iat": now, "exp": now + 600, **({"codelab_plan": plan} if plan else {})}
    return jwt.encode(claims, JWT_SECRET, "HS256")


def schedule() -> dict[str, Any]:
    """EventBridge's."""
    return {
        "version": "0",
        "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": "123456789012",
        "time": "2026-01-01T12:00:00Z",
        "region": "eu-central-1",
        "resources": ["arn:aws:events:eu-central-1:123456789012:rule/codelab-sweep"],
        "detail": {},
    }


#: Of an invocation, unless a test says otherwise.
REQUEST_ID = "e4b46cbf-b738-4880-8880-a18cdf61200e"


def failed_invocation(payload: dict[str, Any], request_id: str = REQUEST_ID) -> dict[str, Any]:
    """Lambda's record of an asynchronous invocation that failed, as its OnFailure destination gets it."""
    return {
        "version": "1.0",
        "timestamp": "2026-01-01T12:00:00.000Z",
        "requestContext": {
            "requestId": request_id,
            "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:codelab-llm-request:$LATEST",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 1,
        },
        "requestPayload": payload,
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorMessage": "Task timed out after 300.00 seconds"},
    }


def _handshake(query: dict[str, str] | None, headers: dict[str, str] | None) -> dict[str, Any]:
    sent = {
        "Host": _DOMAIN,
        "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits",
        "Sec-WebSocket-Key": "SGVsbG8gV29ybGQhISEhIQ==",
        "Sec-WebSocket-Version": "13",
        "X-Amzn-Trace-Id": "Root=1-65a0b0c0-0123456789abcdef01234567",
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Port": "443",
        "X-Forwarded-Proto": "https",
        **(headers or {}),
    }
    event: dict[str, Any] = {"headers": sent, "multiValueHeaders": {name: [value] for name, value in sent.items()}}
    if query:  # absent without a query
        event["queryStringParameters"] = query
        event["multiValueQueryStringParameters"] = {name: [value] for name, value in query.items()}
    return event


def _context(connection: str, route: str, event_type: str) -> dict[str, Any]:
    return {
        "routeKey": route,
        "eventType": event_type,
        "extendedRequestId": "Kd7hbGi2FiAFg7A=",
        "requestTime": "14/Nov/2023:22:13:21 +0000",
        "messageDirection": "IN",
        "stage": _STAGE,
        "connectedAt": _CONNECTED_AT,
        "requestTimeEpoch": _CONNECTED_AT + 1_000,
        "identity": {"sourceIp": "203.0.113.7"},
        "requestId": "Kd7hbGi2FiAFg7A=",
        "domainName": _DOMAIN,
        "connectionId": connection,
        "apiId": _API,
    }
