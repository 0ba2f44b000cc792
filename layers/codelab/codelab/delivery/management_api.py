"""API Gateway's `@connections`: one signed request over a kept connection.

Posts are the most frequent calls, one per batch of text and connection. For each, the SDK's client would resolve an
endpoint, serialise, emit a dozen events and parse, which doubles the CPU time. So this uses only the SDK's signer and
its HTTP library. Nothing is retried, because a repeated post doubles text.

API reference: "API Gateway Management API" (PostToConnection, DeleteConnection).
"""

import threading
import time
from collections.abc import Callable
from http.client import RemoteDisconnected
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError
from botocore.httpsession import get_cert_path
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProtocolError

from codelab.aws import STALE_S

#: Seconds; well below the integration time-out of API Gateway (29 s).
_TIMEOUT = urllib3.Timeout(connect=1, read=2)
_POOL_SIZE = 16


class ManagementApi:
    """Posts to connections and closes them. One per process; used by several threads.

    `url` is the URL of the API's stage, from configuration, never from an event. Credentials and region are the SDK's.
    `clock` returns the wall-clock time in seconds.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        session = boto3.DEFAULT_SESSION or boto3.Session()
        self._region = session.region_name
        self._credentials = session.get_credentials()
        self._url = url.rstrip("/")
        self._path = urlsplit(self._url).path
        self._clock = clock
        self._pools = urllib3.PoolManager(maxsize=_POOL_SIZE, timeout=_TIMEOUT, ca_certs=get_cert_path(True))
        self._pool = self._new_pool()
        self._lock = threading.Lock()
        self._used_at = clock()

    def post(self, connection_id: str, data: bytes) -> int:
        """Send a text message. Returns the HTTP status: 200, or the reason of a refusal (410 gone, 413, 429, 403, 5xx).

        Raises urllib3's HTTPError; `never_arrived` says whether the message may still have been delivered.
        """
        return self._send("POST", connection_id, data)

    def delete(self, connection_id: str) -> int:
        """Close a connection. Returns the HTTP status (204; 410 if it was closed). Raises as `post` does."""
        return self._send("DELETE", connection_id, b"")

    def _send(self, method: str, connection_id: str, data: bytes) -> int:
        if self._credentials is None:
            raise NoCredentialsError
        target = f"/@connections/{quote(connection_id, safe='-._~')}"
        request = AWSRequest(method, self._url + target, {"User-Agent": "codelab"}, data)
        SigV4Auth(self._credentials.get_frozen_credentials(), "execute-api", self._region).add_auth(request)
        answer = self._connections().urlopen(
            method, self._path + target, data, dict(request.headers.items()), retries=False, redirect=False
        )
        return answer.status

    def _connections(self) -> urllib3.HTTPConnectionPool:
        """The kept connections. After this process was frozen they are new ones, because the old ones may be closed."""
        with self._lock:
            now = self._clock()
            if now - self._used_at > STALE_S:
                self._pools.clear()
                self._pool = self._new_pool()
            self._used_at = now
            return self._pool

    def _new_pool(self) -> urllib3.HTTPConnectionPool:
        pool = self._pools.connection_from_url(self._url)
        pool.ConnectionCls = _HTTPS if urlsplit(self._url).scheme == "https" else _HTTP
        return pool


class _UnsentError(OSError):
    """The connection was closed before the whole request was sent."""


class _TellsUnsent:
    """Raises _UnsentError where urllib3 would ignore that the connection closed, and wait for an answer."""

    def send(self, data: Any) -> None:
        try:
            super().send(data)  # type: ignore[misc]
        except ConnectionError as error:
            raise _UnsentError(str(error)) from error


class _HTTP(_TellsUnsent, HTTPConnection):
    pass


class _HTTPS(_TellsUnsent, HTTPSConnection):
    pass


def never_arrived(error: HTTPError) -> bool:
    """Was the failed request certainly not processed? Then it may be sent again.

    That includes a reset: a server that closed the connection while this process was frozen resets it when data arrives
    that nobody will read. A server that ends a connection after reading the request closes it instead.
    """
    if isinstance(error, NewConnectionError | ConnectTimeoutError):
        return True
    # urllib3 says "Connection aborted." if no byte of an answer came, and something else if the answer broke off.
    if not isinstance(error, ProtocolError) or len(error.args) != 2 or error.args[0] != "Connection aborted.":
        return False
    reason = error.args[1]
    if isinstance(reason, RemoteDisconnected):  # closed, although http.client calls it a reset
        return False
    return isinstance(reason, ConnectionResetError | _UnsentError)
