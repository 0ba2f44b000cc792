"""Adapts a logged frame to a connection, posts it, and says what the answer means."""

import random
import time
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

from codelab.aws.errors import AwsUnreachable
from codelab.delivery.management_api import ManagementApi
from codelab.delivery.payloads import Payloads
from codelab.delivery.settled_calls import for_sender
from codelab.observability import logger
from codelab.protocol import limits
from codelab.protocol.outgoing import ONLY_WITH_EXTENSIONS, LoggedMessage, ToolCall, ToolProgress
from codelab.sessions.items import Audience, EventItem, dumps
from codelab.sessions.register import Register

#: Seconds for which a refused frame is retried while the frames behind it wait.
PATIENCE_S = 4.0
#: The first and the longest pause between two tries in seconds, before jitter.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


def render(event: EventItem, connection_id: str, register: Register, payloads: Payloads) -> dict[str, Any] | None:
    """The logged frame as this connection gets it; None if it does not get it."""
    connection = register.connections[connection_id]
    frame = event.frame
    if event.audience is Audience.EXTENSIONS and not connection.extensions:
        return None
    if event.audience is Audience.EXECUTOR and connection_id != register.executor_of(frame):
        if not connection.extensions:
            return None
        frame = {**frame, "execute": False}
    if "repeatable" in frame and connection_id != register.executor_of(frame):
        frame = {name: value for name, value in frame.items() if name != "repeatable"}
    if not connection.extensions and frame.keys() & ONLY_WITH_EXTENSIONS:
        frame = {name: value for name, value in frame.items() if name not in ONLY_WITH_EXTENSIONS}
    if event.sender == connection_id:
        frame = for_sender(frame)
    frame = for_profile(frame, connection.args_profile)
    if event.payload is not None and not _fits(frame):
        small_fields = {name: value for name, value in frame.items() if name not in LARGE_FIELDS}
        url = payloads.url(register.user, register.session_id, event.payload.digest)
        return {**small_fields, "payload_url": url, "payload_bytes": event.payload.bytes}
    return frame


#: The fields that a payload URL replaces: the large field of each such frame, and its mirror.
LARGE_FIELDS = frozenset({ToolCall.payload_field, ToolProgress.payload_field, LoggedMessage.payload_field, "args"})


def _fits(frame: dict[str, Any]) -> bool:
    return not LARGE_FIELDS.isdisjoint(frame) and len(dumps(frame).encode()) <= limits.INLINE_FRAME_BYTES


def for_profile(frame: dict[str, Any], args_profile: bool) -> dict[str, Any]:
    """Mirror `arguments` in `args` for clients of the Tools Specification."""
    if args_profile and "arguments" in frame:
        return {**frame, "args": frame["arguments"]}
    return frame


class PostResult(Enum):
    """The result of one try to post a frame."""

    DONE = auto()  # delivered, or the connection can never take it (403, 413)
    GONE = auto()  # the connection is closed, or `$connect` has not returned yet
    REFUSED = auto()  # certainly not delivered, and a retry may succeed: throttled, not reached
    UNKNOWN = auto()  # may be delivered or not: a time-out, a failure behind the gateway

    def may_repeat(self, drops_repeats: bool) -> bool:
        """May the frame be retried at once? A client that does not drop repeats by `seq` would show text twice."""
        return self is PostResult.REFUSED or (self is PostResult.UNKNOWN and drops_repeats)


def pauses(patience_s: float) -> Iterator[float]:
    """The pauses (seconds) before each retry of a frame, for `patience_s` seconds in all.

    With jitter, so that writers refused by one throttle do not retry at the same time.
    """
    ends_at = time.monotonic() + patience_s
    pause = _FIRST_PAUSE_S
    while (seconds_left := ends_at - time.monotonic()) > 0:
        yield min(seconds_left, random.uniform(pause / 2, pause))
        pause = min(2 * pause, _LONGEST_PAUSE_S)


class Poster:
    """Posts each frame as a text message. One per process; used by several threads.

    `api` is called for every post, so that the first one makes the client unless the function has made it at init.
    """

    def __init__(self, api: Callable[[], ManagementApi], payloads: Payloads) -> None:
        self._api = api
        self.payloads = payloads

    def post(self, connection_id: str, frame: dict[str, Any]) -> PostResult:
        """Post a frame that may arrive twice (a reply or a replayed frame), and retry it if it is refused."""
        outcome = self.attempt(connection_id, frame)
        for pause in pauses(PATIENCE_S):
            if not outcome.may_repeat(drops_repeats=True):
                break
            time.sleep(pause)
            outcome = self.attempt(connection_id, frame)
        return outcome

    def attempt(self, connection_id: str, frame: dict[str, Any]) -> PostResult:
        """Post a frame once, without a retry."""
        try:
            status = self._api().post(connection_id, dumps(frame).encode())
        except AwsUnreachable as error:
            logger().warning("post failed", extra={"connection": connection_id, "error": repr(error)})
            return PostResult.REFUSED if error.never_arrived else PostResult.UNKNOWN
        if status < 300:
            return PostResult.DONE
        if status == 410:
            return PostResult.GONE
        logger().warning("post refused", extra={"connection": connection_id, "status": status})
        if status == 429:
            return PostResult.REFUSED
        return PostResult.UNKNOWN if status >= 500 else PostResult.DONE

    def close(self, connection_id: str) -> None:
        """Close a connection. Failures are logged; a connection may be closed already."""
        try:
            status = self._api().delete(connection_id)
        except AwsUnreachable as error:
            logger().info("close failed", extra={"connection": connection_id, "error": repr(error)})
        else:
            if status >= 300 and status != 410:
                logger().info("close refused", extra={"connection": connection_id, "status": status})
