"""How a call of AWS fails. Everything in this package raises only these."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


class AwsError(Exception):
    """A call of AWS failed."""


class AwsRefused(AwsError):
    """AWS answered with an error.

    code: AWS's name of the error, or the HTTP status if the answer has none. status: the HTTP status. item: the item
    that failed the condition, as attribute values, if the call asked for it. reasons: why a transaction was cancelled,
    one code per write ("None" for those that are not the reason).
    """

    def __init__(
        self,
        operation: str,
        code: str,
        message: str = "",
        *,
        status: int = 400,
        item: dict[str, Any] | None = None,
        reasons: Sequence[str] = (),
    ) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.code = code
        self.status = status
        self.item = item or {}
        self.reasons = reasons


class ConditionFailed(AwsRefused):
    """The item did not meet the condition of the write (ConditionalCheckFailedException)."""


class AwsUnreachable(AwsError):
    """No valid answer came.

    never_arrived: the request was certainly not processed. Otherwise it may have been.
    """

    def __init__(self, message: str, *, never_arrived: bool = False) -> None:
        super().__init__(message)
        self.never_arrived = never_arrived


class AwsTimeout(AwsUnreachable):
    """The request was sent, and no answer came in time."""


@contextmanager
def sdk_errors() -> Iterator[None]:
    """Raise AwsError where the SDK raises its own errors."""
    try:
        yield
    except Exception as error:
        from botocore import exceptions  # most processes never call the SDK

        if isinstance(error, exceptions.ClientError):
            raise _refusal(error.operation_name, error.response) from error
        if isinstance(error, exceptions.ReadTimeoutError):
            raise AwsTimeout(str(error)) from error
        if isinstance(error, exceptions.BotoCoreError):
            before_it_was_sent = (
                exceptions.ConnectTimeoutError,
                exceptions.CredentialRetrievalError,
                exceptions.EndpointConnectionError,
                exceptions.NoCredentialsError,
                exceptions.ProxyConnectionError,
            )
            raise AwsUnreachable(str(error), never_arrived=isinstance(error, before_it_was_sent)) from error
        raise


def _refusal(operation: str, response: Mapping[str, Any]) -> AwsRefused:
    """The error of the SDK's `response`."""
    status = response["ResponseMetadata"]["HTTPStatusCode"]
    code = response["Error"].get("Code", str(status))
    kind = ConditionFailed if code == "ConditionalCheckFailedException" else AwsRefused
    return kind(
        operation,
        code,
        response["Error"].get("Message", ""),
        status=status,
        item=response.get("Item"),
        reasons=[reason.get("Code", "None") for reason in response.get("CancellationReasons") or ()],
    )
