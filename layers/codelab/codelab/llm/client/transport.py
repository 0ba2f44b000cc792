"""The interface between a Request and a provider, and the bounds of a call.

A transport sends the body of a chat completion and yields the provider's JSON objects: the chunks of a stream, in lists
of those that arrived together, or one object if the answer is not streamed. It raises TransportError and never retries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from codelab.http.cancellation import Cancellation
from codelab.llm.errors import Cancelled, DeadlineExceeded


class Call:
    """The bounds of a call: a cancellation, and a deadline as an absolute time of `clock` in seconds.

    on_wait: called once, in the caller's thread, when all that is left is to wait: the provider has the request, must
    be connected to first, or is slow to take it. It delays a call only by what it takes longer than that. It must not
    raise.
    """

    __slots__ = ("_ends_at", "_on_wait", "cancellation", "clock", "deadline")

    def __init__(
        self,
        cancellation: Cancellation | None = None,
        deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_wait: Callable[[], object] | None = None,
    ) -> None:
        self.cancellation = cancellation or Cancellation()
        self.deadline = deadline
        self.clock = clock
        self._on_wait = on_wait
        self._ends_at: float | None = None

    @property
    def is_answered(self) -> bool:
        """Is the answer complete, and only its usage may still come?"""
        return self._ends_at is not None

    def begin(self) -> None:
        """Start to wait for another answer."""
        self._ends_at = None

    def answered(self, grace_s: float) -> None:
        """The answer is complete: wait `grace_s` seconds for what may follow. A lost connection is then no error."""
        if self._ends_at is None:
            self._ends_at = time.monotonic() + grace_s

    @property
    def has_more_to_do(self) -> bool:
        """Does the caller have something to do beside waiting?"""
        return self._on_wait is not None

    def waits(self) -> None:
        """Tell that the request was sent, or cannot be sent for a while."""
        on_wait, self._on_wait = self._on_wait, None
        if on_wait is not None:
            on_wait()

    def remaining(self) -> float | None:
        """Seconds until the deadline, not below 0; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - self.clock())

    def patience(self, timeout: float) -> float:
        """The seconds that the next read may take: `timeout`, or less. Raises what `check` does."""
        self.check()
        return self.bound(timeout) or 0.0

    def bound(self, timeout: float | None) -> float | None:
        """The shorter of a timeout and the time that remains, in seconds; None without either."""
        grace = None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())
        bounds = [seconds for seconds in (timeout, self.remaining(), grace) if seconds is not None]
        return min(bounds, default=None)

    def check(self) -> None:
        """Raise Cancelled or DeadlineExceeded if the call must not go on."""
        if self.cancellation.cancelled:
            raise Cancelled("the call was cancelled")
        if self.deadline is not None and self.clock() >= self.deadline:
            raise DeadlineExceeded("the deadline has passed")


class Transport(Protocol):
    """What a Request needs from a provider's client."""

    @property
    def base_url(self) -> str:
        """The endpoint's URL. Unsupported features are remembered for each URL."""

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        """POST a chat completion. With `body["stream"]`, yield chunks as they arrive, else one list of one object.

        Call `call.waits()` before waiting for the answer, or for a connection. Closing the iterator closes the
        connection at once. Raises TransportError, Cancelled or DeadlineExceeded.
        """
