"""Answers as the query's `auth` says: deny, unauthorized, raise, nothing, object, large; otherwise allows."""

from typing import Any

from sample import record


def handler(event: dict[str, Any], _context: Any) -> Any:
    query = event.get("queryStringParameters") or {}
    wish = query.get("auth", "allow")
    record("authorize", event["requestContext"]["connectionId"], event)
    if wish == "unauthorized":
        raise Exception("Unauthorized")
    if wish == "raise":
        raise ValueError("the authorizer is broken")
    if wish == "nothing":
        return None
    if wish == "large":
        query["session_id"] = "x" * 9000
    context = {"user": "someone", "session": query.get("session_id", ""), "number": 7, "flag": True}
    statement = {
        "Action": "execute-api:Invoke",
        "Effect": "Deny" if wish == "deny" else "Allow",
        "Resource": event["methodArn"],
    }
    return {
        "principalId": "someone",
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": {"nested": {}} if wish == "object" else context,
    }
