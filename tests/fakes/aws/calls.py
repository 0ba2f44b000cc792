"""Calls of AWS as `codelab.aws` sends them, for those who answer in AWS's place: a test replaces `Connections.send`."""

import json
from collections.abc import Mapping
from typing import Any

from codelab.aws.connections import Answer
from codelab.aws.signing import Request

SEND = "codelab.aws.connections.Connections.send"


def operation_of(request: Request) -> str:
    """The operation's name: `GetItem`, `Invoke`."""
    return request.headers.get("X-Amz-Target", "Invoke").rpartition(".")[2]


def scope_of(headers: Mapping[str, str]) -> list[str]:
    """The key, region and service of a signature; its day may end between two requests."""
    key, _, *service = headers["authorization"].partition(",")[0].split("/")
    return [key, *service]


def call_of(request: Request) -> str:
    """The call's id, which all its attempts have."""
    return request.headers["amz-sdk-invocation-id"]


def is_first(request: Request) -> bool:
    """Whether it is the first attempt of its call."""
    return request.headers["amz-sdk-request"].startswith("attempt=1;")


def is_last(request: Request) -> bool:
    """Whether no attempt of its call can follow it."""
    attempt, most = (part.partition("=")[2] for part in request.headers["amz-sdk-request"].split("; "))
    return attempt == most


def answer(status: int, body: Mapping[str, Any] | None = None) -> Answer:
    return Answer(status, {}, json.dumps(body or {}).encode())


def refusal(status: int, code: str) -> Answer:
    return answer(status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "refused by the test"})
