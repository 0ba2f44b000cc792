"""API Gateway's `@connections`: one signed request over a kept connection.

A post is the most frequent call that there is, one for each batch of text and each window. The SDK's client resolves an
endpoint, serialises, emits a dozen events and parses for each of them; that is as much CPU again as the request itself.
So only its signer is used here, over the SDK's own HTTP library. Nothing is retried: a repeated post doubles text.

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

#: Seconds. They end before API Gateway gives up on the integration (29 s).
_TIMEOUT = urllib3.Timeout(connect=1, read=2)
_POOL_SIZE = 16


class ManagementApi:
    """Posts to and closes connections. One for a process; used by several threads.

    `url` is that of the API with its stage, from configuration, never from an event. Credentials and region are the
    SDK's. `clock` gives seconds of the wall clock.
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
        """Send a text message. Returns the HTTP status: 200, or why it was not taken (410 gone, 413, 429, 403, 5xx).

        Raises urllib3's HTTPError; `never_arrived` tells whether the message may have been taken all the same.
        """
        return self._send("POST", connection_id, data)

    def delete(self, connection_id: str) -> int:
        """Close a connection. Returns the HTTP status (204; 410 if it is closed), and raises as `post`."""
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
        """The kept connections; none of them if this process has slept, for the other ends may be gone."""
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
    """The connection was gone before the whole request had been sent."""


class _TellsUnsent:
    """urllib3 goes on to read an answer when the connection is gone while it sends, and then sees only its end."""

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
    """Has the request that failed surely not been taken? Then it may be sent again.

    A reset says so, too: the other end resets a connection on which it has data that nobody will read, as one does that
    had closed it while this process slept. One that ends a connection after reading the request closes it instead.
    """
    if isinstance(error, NewConnectionError | ConnectTimeoutError):
        return True
    # urllib3 says "Connection aborted." where no byte of an answer has come, something else where one broke off.
    if not isinstance(error, ProtocolError) or len(error.args) != 2 or error.args[0] != "Connection aborted.":
        return False
    reason = error.args[1]
    if isinstance(reason, RemoteDisconnected):  # closed; http.client calls that a reset
        return False
    return isinstance(reason, ConnectionResetError | _UnsentError)
