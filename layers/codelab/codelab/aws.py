"""Clients of AWS, made at init, with time-outs that end before API Gateway gives up on the integration (29 s)."""

import io
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import boto3
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from urllib3 import HTTPResponse

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient

# The SDK's default read time-out of 60 s outlives the integration.
_CONFIG = Config(
    connect_timeout=1,
    read_timeout=2,
    retries={"mode": "standard", "total_max_attempts": 3},
    tcp_keepalive=True,
    max_pool_connections=16,
    # Every parameter is written by this package and tested; checking each call costs a tenth of it.
    parameter_validation=False,
    # The SDK puts its own together anew at every call, which costs another tenth.
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


# A repeat would ask the model twice.
_ONCE = _CONFIG.merge(Config(retries={"total_max_attempts": 1}))

#: Lambda freezes a process between two events. The other end of a kept connection may close or forget it meanwhile, and
#: the next request would be lost or wait for its time-out. Connections idle for so many seconds are not used again.
STALE_S = 20.0

_Client = TypeVar("_Client", bound="BaseClient")

#: Clients may be used by several threads, but the session that makes them may not.
_one_at_a_time = threading.Lock()


@overload
def client(service: Literal["dynamodb"]) -> "DynamoDBClient": ...
@overload
def client(service: Literal["lambda"]) -> "LambdaClient": ...
@overload
def client(service: Literal["s3"]) -> "S3Client": ...
@overload
def client(service: Literal["secretsmanager"]) -> "SecretsManagerClient": ...
@cache
def client(service: Any) -> Any:
    """The client of `service` that this process uses. One that is not made at init may be asked for by many threads."""
    with _one_at_a_time:
        return awake(boto3.client(service, config=_S3_CONFIG if service == "s3" else _CONFIG))


@cache
def waiting_lambda_client(read_timeout: float = 28) -> "LambdaClient":
    """The client that waits for what a function answers, so many seconds."""
    return awake(boto3.client("lambda", config=_ONCE.merge(Config(read_timeout=read_timeout))))


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


def warm(client: Any, operation: str, **parameters: Any) -> None:
    """Make one call that never leaves the process, so that the first real one finds the SDK warm.

    botocore loads its endpoint rules, signer, serializer and parser at the first call (30 ms and more). At init that
    time is cheaper, and a process forked from this one inherits it with no socket open.
    """
    events = client.meta.events
    body = HTTPResponse(io.BytesIO(b"{}"), status=200, preload_content=False)
    answer = AWSResponse("http://warm.invalid", 200, HTTPHeaders(), body)
    events.register_first("before-send", lambda **_: answer, unique_id="warm")
    try:
        getattr(client, operation)(**parameters)
    finally:
        events.unregister("before-send", unique_id="warm")
