"""The SDK's clients: of S3, which is called rarely and whose URLs it signs; of all else with `AWS_CLIENT=boto3`."""

import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from botocore.config import Config

from codelab.aws.connections import CONNECT_S, STALE_S
from codelab.aws.session import max_attempts, session

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from mypy_boto3_s3 import S3Client

_CONFIG = Config(
    connect_timeout=CONNECT_S,
    tcp_keepalive=True,
    max_pool_connections=16,
    # Every parameter is written by this package and tested; checking each call costs a tenth of it.
    parameter_validation=False,
    # The SDK puts its own together anew at every call.
    user_agent="codelab",
)
_CONFIG_OF_S3 = Config(
    # Objects have up to 10 MB; the SDK's default of 60 s outlives the integration.
    read_timeout=6,
    # URLs are for the regional endpoint, and ask for no checksum that clients would have to send.
    signature_version="s3v4",
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
    s3={"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"},
)

_Client = TypeVar("_Client", bound="BaseClient")

#: Clients may be used by several threads, but the session that makes them may not.
_one_at_a_time = threading.Lock()


@cache
def s3_client() -> "S3Client":
    """S3. It is not made at init, so many threads may ask for it."""
    return cast("S3Client", client_of("s3", _CONFIG_OF_S3))


def client_of(service: str, config: Config, attempts: int | None = None, *, url: str | None = None) -> Any:
    """The SDK's client of a service, with what all clients here have in common."""
    retries = Config(retries={"mode": "standard", "total_max_attempts": attempts or max_attempts()})
    with _one_at_a_time:
        merged_config = _CONFIG.merge(config).merge(retries)
        client: Any = session().create_client(service, endpoint_url=url, config=merged_config)
        return awake(client)


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
