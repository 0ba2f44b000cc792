"""API Gateway's `@connections`. Nothing is retried, because a repeated post doubles text.

API reference: "API Gateway Management API" (PostToConnection, DeleteConnection).
"""

import time
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import quote

from codelab.aws.connections import READ_S, Connections
from codelab.aws.errors import AwsRefused, sdk_errors

_HEADERS = {"User-Agent": "codelab"}


class ManagementApi:
    """Posts to connections and closes them. One per process; used by several threads.

    `url` is the URL of the API's stage, from configuration, never from an event. Credentials and region are the SDK's.
    `clock` returns the wall-clock time in seconds.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self._connections = Connections("execute-api", url, clock=clock)

    def post(self, connection_id: str, data: bytes) -> int:
        """Send a text message. Returns the HTTP status: 200, or the reason of a refusal (410 gone, 413, 429, 403, 5xx).

        Raises AwsUnreachable; its `never_arrived` says whether the message may still have been delivered.
        """
        return self._send("POST", connection_id, data)

    def delete(self, connection_id: str) -> int:
        """Close a connection. Returns the HTTP status (204; 410 if it was closed). Raises as `post` does."""
        return self._send("DELETE", connection_id, b"")

    def _send(self, method: str, connection_id: str, data: bytes) -> int:
        path = f"/@connections/{quote(connection_id, safe='-._~')}"
        signer = self._connections.signer
        request = signer.signed(method, path, _HEADERS, data)
        answer = self._connections.send(request)
        if answer.status == HTTPStatus.FORBIDDEN and signer.corrects_clock(request, answer.headers):
            answer = self._connections.send(signer.signed(method, path, _HEADERS, data))
        return answer.status


class Boto3ManagementApi(ManagementApi):
    """The same with boto3's client (`AWS_CLIENT=boto3`)."""

    def __init__(self, url: str) -> None:
        from botocore.config import Config  # the SDK takes longer to import than all else

        from codelab.aws.sdk import client_of

        self._client = client_of("apigatewaymanagementapi", Config(read_timeout=READ_S), attempts=1, url=url)

    def _send(self, method: str, connection_id: str, data: bytes) -> int:
        try:
            with sdk_errors():
                if method == "POST":
                    response = self._client.post_to_connection(ConnectionId=connection_id, Data=data)
                else:
                    response = self._client.delete_connection(ConnectionId=connection_id)
        except AwsRefused as error:
            return error.status
        return int(response["ResponseMetadata"]["HTTPStatusCode"])
