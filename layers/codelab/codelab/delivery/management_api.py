"""API Gateway's `@connections`: one signed request over a kept connection.

A post is the most frequent call that there is, one for each batch of text and each window. The SDK's client resolves an
endpoint, serialises, emits a dozen events and parses for each of them; that is as much CPU again as the request itself.
So only its signer is used here, over the SDK's own HTTP library. Nothing is retried: a repeated post doubles text.

API reference: "API Gateway Management API" (PostToConnection, DeleteConnection).
"""

from urllib.parse import quote, urlsplit

import boto3
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError
from botocore.httpsession import get_cert_path

#: Seconds. They end before API Gateway gives up on the integration (29 s).
_TIMEOUT = urllib3.Timeout(connect=1, read=2)
_POOL_SIZE = 16


class ManagementApi:
    """Posts to and closes connections. One for a process; used by several threads.

    `url` is that of the API with its stage, from configuration, never from an event. Credentials and region are the
    SDK's.
    """

    def __init__(self, url: str) -> None:
        session = boto3.DEFAULT_SESSION or boto3.Session()
        self._region = session.region_name
        self._credentials = session.get_credentials()
        self._url = url.rstrip("/")
        self._path = urlsplit(self._url).path
        pools = urllib3.PoolManager(maxsize=_POOL_SIZE, timeout=_TIMEOUT, ca_certs=get_cert_path(True))
        self._pool = pools.connection_from_url(self._url)

    def post(self, connection_id: str, data: bytes) -> int:
        """Send a text message. Returns the HTTP status: 200, or why it was not taken (410 gone, 413, 429, 403, 5xx).

        Raises urllib3's errors: NewConnectionError or ConnectTimeoutError if the request has not left, another
        HTTPError if it may have arrived.
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
        answer = self._pool.urlopen(
            method, self._path + target, data, dict(request.headers.items()), retries=False, redirect=False
        )
        return answer.status
