"""Calls a Lambda authorizer and interprets its answer as API Gateway does.

Developer guide: "Output from a Lambda authorizer".
"""

import fnmatch
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from codelab_local.functions.pool import Result
from codelab_local.gateway.events import Caller
from codelab_local.http.protocol import loads
from codelab_local.template.deployment import Authorizer

MAX_CONTEXT = 8 * 1024


class Refused(Exception):
    """The connection is refused, with this HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def authorize(
    authorizer: Authorizer, event: dict[str, Any], caller: Caller, invoke: Callable[[str, bytes], Awaitable[Result]]
) -> dict[str, Any]:
    """Return the context for the connection's events; raises :class:`Refused` (401, 403 or 500)."""
    if not all(_present(source, caller) for source in authorizer.identity_source):
        raise Refused(401, "Unauthorized")  # API Gateway does not call the function in this case.
    result = await invoke(authorizer.function, json.dumps(event).encode())
    answer = loads(result.payload)
    if result.error is not None:
        # API Gateway answers 401 only for an exception with exactly this message.
        is_unauthorized = isinstance(answer, dict) and answer.get("errorMessage") == "Unauthorized"
        raise Refused(401, "Unauthorized") if is_unauthorized else Refused(500, "Internal server error")
    if not isinstance(answer, dict) or not isinstance(answer.get("policyDocument"), dict):
        raise Refused(500, "Internal server error")
    if not allows(answer["policyDocument"], event["methodArn"]):
        raise Refused(403, "User is not authorized to access this resource")
    return _context(answer)


def _context(answer: dict[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = {"principalId": answer.get("principalId", "")}
    for name, value in (answer.get("context") or {}).items():
        if value is None or isinstance(value, dict | list):
            raise Refused(500, "Internal server error")  # Only strings, numbers and booleans are allowed.
        # Functions get every value as a string.
        context[name] = str(value).lower() if isinstance(value, bool) else str(value)
    if len(json.dumps(context)) > MAX_CONTEXT:
        raise Refused(500, "Internal server error")
    return context


def allows(policy: dict[str, Any], arn: str) -> bool:
    """Does the policy allow the request with this ARN? A Deny wins."""
    allowed = False
    for statement in _as_list(policy.get("Statement")):
        if not isinstance(statement, dict):
            continue
        actions = _as_list(statement.get("Action"))
        resources = _as_list(statement.get("Resource"))
        if not any(_matches("execute-api:invoke", str(action).lower()) for action in actions):
            continue
        if any(_matches(arn, str(resource)) for resource in resources):
            if statement.get("Effect") == "Deny":
                return False
            allowed = allowed or statement.get("Effect") == "Allow"
    return allowed


def _matches(value: str, pattern: str) -> bool:
    # IAM only knows `*` and `?`, so escape fnmatch's brackets.
    return re.match(fnmatch.translate(pattern.replace("[", "[[]")), value) is not None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _present(source: str, caller: Caller) -> bool:
    _, _, place, name = [*source.split(".", 3), "", ""][:4]
    if place == "header":
        return any(header.lower() == name.lower() and values[-1] for header, values in caller.headers.items())
    if place == "querystring":
        return bool(caller.query.get(name, [""])[-1])
    return True
