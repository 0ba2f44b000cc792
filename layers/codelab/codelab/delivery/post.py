"""Posting to connections through API Gateway's `@connections`."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
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


class _Post(Enum):
    DONE = auto()
    GONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of posts: `gone` are the connections that are closed; `failed`: a frame may not have reached a client
    that is still there, and should be posted again.
    """

    gone: list[str]
    failed: bool


class Poster:
    """Posts frames: in order to each connection, beside each other to several."""

    def __init__(self, client: "ApiGatewayManagementApiClient") -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="post")

    def post(self, connection_id: str, frame: dict[str, Any]) -> bool:
        """Post one frame that is not logged. False if the connection is gone; other failures are only logged."""
        return self._post(connection_id, frame) is not _Post.GONE

    def _post(self, connection_id: str, frame: dict[str, Any]) -> _Post:
        try:
            self._client.post_to_connection(ConnectionId=connection_id, Data=dumps(frame).encode())
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == 410:
                return _Post.GONE
            logger().warning("post refused", extra={"connection": connection_id, "error": str(error)})
            # What is too large or not allowed now will be so again.
            return _Post.FAILED if status == 429 or status >= 500 else _Post.DONE
        except BotoCoreError as error:
            logger().warning("post failed", extra={"connection": connection_id, "error": str(error)})
            return _Post.FAILED
        return _Post.DONE

    def close(self, connection_id: str) -> None:
        """Close a connection; one that is gone already is as closed as it can be."""
        try:
            self._client.delete_connection(ConnectionId=connection_id)
        except (ClientError, BotoCoreError) as error:
            logger().info("close failed", extra={"connection": connection_id, "error": str(error)})

    def deliver(self, events: Sequence[EventItem], register: Register, targets: Iterable[str]) -> Delivery:
        """Post `events` to those of the `targets` that they are for."""
        targets = list(targets)
        if len(targets) == 1:
            ends = [self._deliver_to(events, targets[0], register)]
        else:
            ends = list(self._pool.map(lambda target: self._deliver_to(events, target, register), targets))
        gone = [target for target, end in zip(targets, ends, strict=True) if end is _Post.GONE]
        return Delivery(gone, failed=_Post.FAILED in ends)

    def _deliver_to(self, events: Sequence[EventItem], connection_id: str, register: Register) -> _Post:
        end = _Post.DONE
        for event in events:
            frame = render(event, connection_id, register)
            posted = _Post.DONE if frame is None else self._post(connection_id, frame)
            if posted is _Post.GONE:
                return posted
            if posted is _Post.FAILED:
                end = posted
        return end
