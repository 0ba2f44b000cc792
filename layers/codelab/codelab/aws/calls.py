"""Calls of a service with the SDK's retries (its mode "standard") and its reading of errors.

References: the SDK's guide "Retries"; botocore's `retries/standard.py`, `parsers.py`.
"""

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote
from uuid import uuid4

from botocore.retries.quota import RetryQuota

from codelab import trace_id
from codelab.aws.connections import READ_S, Answer, Connections, Request
from codelab.aws.errors import AwsRefused, AwsUnreachable, ConditionFailed
from codelab.aws.session import endpoint, max_attempts

_T = TypeVar("_T")

_RETRIED_STATUS = frozenset({500, 502, 503, 504})
_RETRIED_CODES = frozenset(
    {
        # transient
        "PriorRequestNotComplete",
        "ReplicatedWriteConflictException",
        "RequestTimeout",
        "RequestTimeoutException",
        # throttled
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
#: What a signature with the time of a wrong clock is refused by. It is repeated with AWS's time, without a pause.
_CODES_OF_SKEW = frozenset(
    {
        *("AuthFailure", "InvalidSignatureException", "SignatureDoesNotMatch"),
        *("RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"),
    }
)
#: The longest pause before a retry, in seconds.
_LONGEST_PAUSE_S = 20
#: What a retry takes from the process's quota, after a time-out and after anything else; a call that succeeds without
#: a retry gives one back. So a service that fails everything is soon asked only once a call.
_COST_OF_TIMEOUT, _COST, _GIVEN_BACK = 10, 5, 1


class Service:
    """Calls of one service. Used by several threads.

    attempts: at most, for a call; None for those that the environment allows. read_s: seconds.
    """

    def __init__(self, name: str, *, attempts: int | None = None, read_s: float = READ_S) -> None:
        self._connections = Connections(name, endpoint(name), read_s=read_s)
        self._attempts = attempts or max_attempts()
        self._quota = RetryQuota()

    def call(
        self,
        operation: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        read: Callable[[Answer], _T],
        on_wait: Callable[[], object] | None = None,
    ) -> _T:
        """Call and return what `read` makes of the answer, or raise its error. Raises AwsError.

        A call whose answer was lost is repeated, so it may take effect twice. on_wait: called at each attempt, while
        its answer is awaited; it must not raise.
        """
        return self.prepared(operation, path, headers, body, read, on_wait)()

    def prepared(
        self,
        operation: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        read: Callable[[Answer], _T],
        on_wait: Callable[[], object] | None = None,
    ) -> Callable[[], _T]:
        """The call, signed, which the returned function makes. It is valid for a few minutes."""
        sent = {**headers, **_traced(), "User-Agent": "codelab", "amz-sdk-invocation-id": str(uuid4())}
        first = self._signed(path, sent, body, 1)
        return lambda: self._make(operation, path, sent, body, read, first, on_wait)

    def _signed(self, path: str, headers: Mapping[str, str], body: bytes, attempt: int) -> Request:
        counted = {**headers, "amz-sdk-request": f"attempt={attempt}; max={self._attempts}"}
        return self._connections.signed("POST", path, counted, body)

    def _make(
        self,
        operation: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        read: Callable[[Answer], _T],
        request: Request,
        on_wait: Callable[[], object] | None,
    ) -> _T:
        attempt, taken, signed_anew = 1, 0, False
        while True:
            try:
                answer = self._connections.send(request, on_wait)
                if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
                    refused = refusal(operation, answer)
                    if (
                        not signed_anew
                        and refused.code in _CODES_OF_SKEW
                        and self._connections.corrects_clock(request, answer)
                    ):
                        signed_anew, request = True, self._signed(path, headers, body, attempt)
                        continue
                    raise refused
                found = read(answer)
            except (AwsRefused, AwsUnreachable) as error:
                taken = _cost(error)
                if not taken or attempt == self._attempts or not self._quota.acquire(taken):
                    raise
            else:
                self._quota.release(taken or _GIVEN_BACK)
                return found
            time.sleep(random.random() * min(2 ** (attempt - 1), _LONGEST_PAUSE_S))
            attempt += 1
            request = self._signed(path, headers, body, attempt)


def refusal(operation: str, answer: Answer) -> AwsRefused:
    """The error that an answer tells."""
    try:
        told = json.loads(answer.body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        told = {"message": answer.body.decode(errors="replace")}
    named = answer.headers.get("x-amzn-errortype") or told.get("__type") or told.get("code") or told.get("Code")
    code = str(named or answer.status).partition(":")[0].rpartition("#")[2]
    kind = ConditionFailed if code == "ConditionalCheckFailedException" else AwsRefused
    return kind(
        operation,
        code,
        str(told.get("message") or told.get("Message") or ""),
        status=answer.status,
        item=told.get("Item"),
        reasons=[reason.get("Code", "None") for reason in told.get("CancellationReasons") or ()],
    )


def _cost(error: AwsRefused | AwsUnreachable) -> int:
    """What a retry after this error costs; 0: it is not retried."""
    if isinstance(error, AwsUnreachable):
        return _COST_OF_TIMEOUT if isinstance(error.__cause__, TimeoutError) else _COST
    return _COST if error.status in _RETRIED_STATUS or error.code in _RETRIED_CODES else 0


def _traced() -> dict[str, str]:
    """Lambda's trace, by which AWS also detects functions that invoke each other for ever."""
    trace = trace_id.current()
    if not trace or "AWS_LAMBDA_FUNCTION_NAME" not in os.environ:
        return {}
    return {"X-Amzn-Trace-Id": quote(trace, safe="-=;:+&[]{}\"',")}
