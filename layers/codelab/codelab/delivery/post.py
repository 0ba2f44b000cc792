"""Posting to connections through API Gateway's `@connections`."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from codelab.observability import logger
from codelab.sessions.items import Audience, EventItem, dumps
from codelab.sessions.register import Register

if TYPE_CHECKING:
    from mypy_boto3_apigatewaymanagementapi import ApiGatewayManagementApiClient


def render(event: EventItem, connection_id: str, register: Register) -> dict[str, Any] | None:
    """The logged frame as this connection of the session gets it, or None if it is not for it."""
    connection = register.connections[connection_id]
    frame = event.frame
    if event.audience is Audience.EXTENSIONS and not connection.extensions:
        return None
    if event.audience is Audience.EXECUTOR and connection_id != register.executor:
        if not connection.extensions:
            return None
        frame = {**frame, "execute": False}
    return for_profile(frame, connection.args_profile)


def for_profile(frame: dict[str, Any], args_profile: bool) -> dict[str, Any]:
    """The `args` profile mirrors `arguments` for clients of the Tools Specification."""
    if args_profile and "arguments" in frame:
        return {**frame, "args": frame["arguments"]}
    return frame


class Poster:
    """Posts frames: in order to each connection, beside each other to several."""

    def __init__(self, client: "ApiGatewayManagementApiClient") -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="post")

    def post(self, connection_id: str, frame: dict[str, Any]) -> bool:
        """Post one frame. False if the connection is gone; other failures are logged, for the frame is in the log."""
        try:
            self._client.post_to_connection(ConnectionId=connection_id, Data=dumps(frame).encode())
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 410:
                return False
            logger().warning("post refused", extra={"connection": connection_id, "error": str(error)})
        except BotoCoreError as error:
            logger().warning("post failed", extra={"connection": connection_id, "error": str(error)})
        return True

    def close(self, connection_id: str) -> None:
        """Close a connection; one that is gone already is as closed as it can be."""
        try:
            self._client.delete_connection(ConnectionId=connection_id)
        except (ClientError, BotoCoreError) as error:
            logger().info("close failed", extra={"connection": connection_id, "error": str(error)})

    def deliver(self, events: Sequence[EventItem], register: Register, targets: Iterable[str]) -> list[str]:
        """Post `events` to those of the `targets` that they are for. Returns the connections that are gone."""
        targets = list(targets)
        if len(targets) == 1:
            alive = [self._deliver_to(events, targets[0], register)]
        else:
            alive = list(self._pool.map(lambda target: self._deliver_to(events, target, register), targets))
        return [target for target, lives in zip(targets, alive, strict=True) if not lives]

    def _deliver_to(self, events: Sequence[EventItem], connection_id: str, register: Register) -> bool:
        for event in events:
            frame = render(event, connection_id, register)
            if frame is not None and not self.post(connection_id, frame):
                return False
        return True
