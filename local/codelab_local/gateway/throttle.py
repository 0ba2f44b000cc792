"""The throttle of a stage, as API Gateway's: a token bucket for the stage, and one for each route with its own limit.

Developer guide, "Protect your WebSocket APIs" and "Throttle requests to your HTTP APIs": a request takes a token;
`rate` tokens a second come back, up to `burst`. A route's own limit replaces the stage's. AWS calls its limits targets
that it may overrun; here they are exact. The account's limit, 10,000 a second, is not modelled.
"""

import time
from collections.abc import Callable, Mapping

from codelab_local.template.limits import Limit

#: What API Gateway says when it throttles: in a frame, or in the body of a response with the status 429.
TOO_MANY_REQUESTS = "Too Many Requests"


class Bucket:
    """A token bucket, full at first. clock: seconds, monotonic."""

    def __init__(self, limit: Limit, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._tokens, self._counted_at = limit.burst, clock()

    def take(self) -> bool:
        """Take a token, if there is one."""
        now = self._clock()
        self._tokens = min(self._limit.burst, self._tokens + (now - self._counted_at) * self._limit.rate)
        self._counted_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Throttle:
    """The buckets of one stage. Without a limit, everything passes."""

    def __init__(
        self, default: Limit | None, routes: Mapping[str, Limit], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._default = Bucket(default, clock) if default is not None else None
        self._routes = {key: Bucket(limit, clock) for key, limit in routes.items()}

    def admits(self, route_key: str) -> bool:
        """Whether a request to this route may pass now. It counts if it may."""
        bucket = self._routes.get(route_key, self._default)
        return bucket is None or bucket.take()
