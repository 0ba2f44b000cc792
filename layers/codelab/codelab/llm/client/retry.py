"""Which failed calls to repeat, and when."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from codelab.llm.errors import TransportError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter, unless the provider sends `Retry-After`.

    attempts: all calls, including the first. base_s: the first wait. cap_s: the longest wait without `Retry-After`.
    longest_s: the longest wait that a provider may request. All waits are in seconds. jitter: returns a random number
    from 0 to 1.
    """

    attempts: int = 4
    base_s: float = 0.5
    cap_s: float = 30.0
    longest_s: float = 120.0
    jitter: Callable[[], float] = random.random

    def delay(self, error: TransportError, failures: int) -> float | None:
        """The seconds to wait after this many failures, or None to give up."""
        if not error.retryable or failures >= self.attempts:
            return None
        if error.retry_after is not None:
            # A shorter wait is useless; a much longer one is the caller's decision.
            requested_delay = error.retry_after
            return requested_delay + 0.1 * self.base_s * self.jitter() if requested_delay <= self.longest_s else None
        ceiling = min(self.cap_s, self.base_s * 2.0 ** (failures - 1))
        return ceiling * (0.5 + 0.5 * self.jitter())
