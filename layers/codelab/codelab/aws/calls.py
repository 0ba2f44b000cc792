"""Calls of a service with the SDK's retries (its mode "standard") and its reading of errors.

References: the SDK's guide "Retries"; botocore's `retries/standard.py`, `parsers.py`.
"""

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import uuid4
from zlib import crc32

from botocore.retries.quota import RetryQuota

from codelab import trace_id
from codelab.aws.connections import READ_S, Answer, Connections
from codelab.aws.errors import AwsRefused, AwsUnreachable, ConditionFailed
from codelab.aws.session import endpoint, max_attempts
from codelab.aws.signing import Request

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
#: What a retry takes from the process's quota, after a time-out and after anything else; what a call that succeeds
#: without a retry adds to it. So a service that fails everything is soon asked only once a call.
_COST_OF_TIMEOUT, _COST, _REWARD = 10, 5, 1


class _Call(NamedTuple):
    """What all attempts of a call have in common."""

    operation: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Service:
    """Calls of one service. Used by several threads.

    attempts: at most, for a call; None for those that the environment allows. read_s: seconds.
    """

    def __init__(self, name: str, *, attempts: int | None = None, read_s: float = READ_S) -> None:
        self._connections = Connections(name, endpoint(name), read_s=read_s)
        self._signer = self._connections.signer
        self._attempts = attempts or max_attempts()
        self._quota = RetryQuota()

    def prepared(self, operation: str, path: str, headers: Mapping[str, str], body: bytes) -> Callable[[], Answer]:
        """The call, signed, which the returned function makes. It is valid for a few minutes. Both raise AwsError.

        A call whose answer was lost is repeated, so it may take effect twice.
        """
        call = self._call(operation, path, headers, body)
        request = self._signed(call, 1)
        return lambda: self._answer(call, request, _undecoded)

    def _call(self, operation: str, path: str, headers: Mapping[str, str], body: bytes) -> _Call:
        ids = {"User-Agent": "codelab", "amz-sdk-invocation-id": str(uuid4())}
        return _Call(operation, path, {**headers, **_trace_header(), **ids}, body)

    def _signed(self, call: _Call, attempt: int) -> Request:
        headers = {**call.headers, "amz-sdk-request": f"attempt={attempt}; max={self._attempts}"}
        return self._signer.signed("POST", call.path, headers, call.body)

    def _answer(
        self,
        call: _Call,
        request: Request,
        decode: Callable[[Answer], _T],
        on_wait: Callable[[], object] | None = None,
    ) -> _T:
        """Make the call, in as many attempts as it takes; `request` is the first one. Returns the decoded answer."""
        attempt, cost, signed_anew = 1, 0, False
        while True:
            try:
                answer = self._connections.send(request, on_wait)
                if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
                    error = refusal(call.operation, answer)
                    if (
                        not signed_anew
                        and error.code in _CODES_OF_SKEW
                        and self._signer.corrects_clock(request, answer.headers)
                    ):
                        signed_anew, request = True, self._signed(call, attempt)
                        continue
                    raise error
                decoded = decode(answer)
            except (AwsRefused, AwsUnreachable) as failure:
                cost = _cost(failure)
                if not cost or attempt == self._attempts or not self._quota.acquire(cost):
                    raise
            else:
                self._quota.release(cost or _REWARD)
                return decoded
            time.sleep(random.random() * min(2 ** (attempt - 1), _LONGEST_PAUSE_S))
            attempt += 1
            request = self._signed(call, attempt)


class JsonService(Service):
    """A service of AWS's JSON protocols: a header names the operation, and request and answer are JSON objects.

    interface: the prefix of an operation in that header. protocol: the Content-Type of its requests.
    """

    def __init__(self, name: str, interface: str, protocol: str) -> None:
        super().__init__(name)
        self._interface, self._protocol = interface, protocol

    def call(
        self, operation: str, request: Mapping[str, Any], on_wait: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        """Call an operation; see `prepared`. Raises AwsUnreachable also if each answer is damaged.

        on_wait: called at each attempt, while its answer is awaited; it must not raise.
        """
        headers = {"X-Amz-Target": f"{self._interface}.{operation}", "Content-Type": self._protocol}
        call = self._call(operation, "/", headers, json.dumps(request).encode())
        return self._answer(call, self._signed(call, 1), _decoded, on_wait)


def _undecoded(answer: Answer) -> Answer:
    return answer


def _decoded(answer: Answer) -> dict[str, Any]:
    """The answer's JSON. Raises AwsUnreachable if it is damaged: the call is repeated."""
    checksum = answer.headers.get("x-amz-crc32")
    if checksum is not None and int(checksum) != crc32(answer.body):
        raise AwsUnreachable("an answer of AWS does not have its checksum")
    try:
        decoded: dict[str, Any] = json.loads(answer.body.decode())
    except ValueError:
        raise AwsUnreachable("an answer of AWS is not JSON") from None
    return decoded


def refusal(operation: str, answer: Answer) -> AwsRefused:
    """The error in an answer."""
    try:
        fields = json.loads(answer.body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        fields = {"message": answer.body.decode(errors="replace")}
    name = answer.headers.get("x-amzn-errortype") or fields.get("__type") or fields.get("code") or fields.get("Code")
    code = str(name or answer.status).partition(":")[0].rpartition("#")[2]
    kind = ConditionFailed if code == "ConditionalCheckFailedException" else AwsRefused
    return kind(
        operation,
        code,
        str(fields.get("message") or fields.get("Message") or ""),
        status=answer.status,
        item=fields.get("Item"),
        reasons=[reason.get("Code", "None") for reason in fields.get("CancellationReasons") or ()],
    )


def _cost(error: AwsRefused | AwsUnreachable) -> int:
    """What a retry after this error costs; 0: it is not retried."""
    if isinstance(error, AwsUnreachable):
        return _COST_OF_TIMEOUT if isinstance(error.__cause__, TimeoutError) else _COST
    return _COST if error.status in _RETRIED_STATUS or error.code in _RETRIED_CODES else 0


def _trace_header() -> dict[str, str]:
    """Lambda's trace, by which AWS also detects functions that invoke each other for ever."""
    trace = trace_id.current()
    if not trace or "AWS_LAMBDA_FUNCTION_NAME" not in os.environ:
        return {}
    return {"X-Amzn-Trace-Id": quote(trace, safe="-=;:+&[]{}\"',")}
