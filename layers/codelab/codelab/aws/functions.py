"""Lambda's Invoke ("Lambda API Reference")."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from codelab.aws.calls import Service
from codelab.aws.connections import READ_S, Answer


class Returned(NamedTuple):
    """What a function returned; if it failed, the error (`errorType`, `errorMessage`)."""

    value: Any
    failed: bool


class Functions:
    """Invokes functions by name or ARN. Raises AwsError: AwsRefused with Lambda's code, AwsTimeout, AwsUnreachable.

    attempts: at most, for an invoke; None for those that the environment allows. read_s: seconds that a function may
    take.
    """

    def __init__(self, *, attempts: int | None = None, read_s: float = READ_S) -> None:
        self._service = Service("lambda", attempts=attempts, read_s=read_s)

    def start(self, function: str, event: dict[str, Any]) -> None:
        """Invoke a function asynchronously."""
        self.prepared_start(function, event)()

    def prepared_start(self, function: str, event: dict[str, Any]) -> Callable[[], object]:
        """Prepare an asynchronous invoke, which the returned function makes."""
        return self._invoke(function, "Event", event)

    def ask(self, function: str, event: dict[str, Any]) -> Returned:
        """Invoke a function and wait for what it returns."""
        answer = self._invoke(function, "RequestResponse", event)()
        return Returned(json.loads(answer.body), "x-amz-function-error" in answer.headers)

    def _invoke(self, function: str, kind: str, event: dict[str, Any]) -> Callable[[], Answer]:
        path = f"/2015-03-31/functions/{quote(function, safe='-._~')}/invocations"
        return self._service.prepared("Invoke", path, {"X-Amz-Invocation-Type": kind}, json.dumps(event).encode())
