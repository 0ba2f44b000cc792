"""The SDK's clients, for S3 and Secrets Manager: they are called rarely, and have presigned URLs and S3's addresses."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from codelab.aws.connections import CONNECT_S, READ_S, STALE_S
from codelab.aws.errors import AwsRefused, AwsUnreachable
from codelab.aws.session import session

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient

# The SDK's default read time-out of 60 s outlives the integration.
_CONFIG = Config(
    connect_timeout=CONNECT_S,
    read_timeout=READ_S,
    retries={"mode": "standard", "total_max_attempts": 3},
    tcp_keepalive=True,
    max_pool_connections=16,
    # Every parameter is written by this package and tested; checking each call costs a tenth of it.
    parameter_validation=False,
    # The SDK puts its own together anew at every call.
    user_agent="codelab",
)

# Objects have up to 10 MB. URLs are for the regional endpoint, and ask for no checksum that clients would have to send.
_S3_CONFIG = _CONFIG.merge(
    Config(
        read_timeout=6,
        signature_version="s3v4",
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"},
    )
)

_Client = TypeVar("_Client", bound="BaseClient")

#: Clients may be used by several threads, but the session that makes them may not.
_one_at_a_time = threading.Lock()


@overload
def client(service: Literal["s3"]) -> "S3Client": ...
@overload
def client(service: Literal["secretsmanager"]) -> "SecretsManagerClient": ...
@cache
def client(service: Any) -> Any:
    """The SDK's client of `service`. One that is not made at init may be asked for by many threads."""
    with _one_at_a_time:
        return awake(session().create_client(service, config=_S3_CONFIG if service == "s3" else _CONFIG))


def awake(client: _Client, clock: Callable[[], float] = time.time) -> _Client:
    """Have the client drop its connections before a request if it has not been used for `STALE_S`. Returns it.

    `clock` is the wall clock, in seconds: the monotonic one may stand still while a process is frozen.
    """
    lock, used_at = threading.Lock(), clock()

    def before_send(**_: Any) -> None:
        nonlocal used_at
        with lock:
            now = clock()
            if now - used_at > STALE_S:
                client.close()
            used_at = now

    client.meta.events.register("before-send", before_send)
    return client


@contextmanager
def sdk_errors() -> Iterator[None]:
    """Raise AwsError where the SDK raises its own errors."""
    try:
        yield
    except ClientError as error:
        told, status = error.response["Error"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        code, message = told.get("Code", str(status)), told.get("Message", "")
        raise AwsRefused(error.operation_name, code, message, status=status) from error
    except BotoCoreError as error:
        raise AwsUnreachable(str(error)) from error
