"""When a failed call is worth repeating, and how long to wait."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from codelab.llm.errors import TransportError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter; `Retry-After` wins.

    attempts: calls in all, the first included. cap_s: the longest wait of our own; longest_s: the longest that a
    provider may ask for. jitter: a random number from 0 to 1.
    """

    attempts: int = 4
    base_s: float = 0.5
    cap_s: float = 30.0
    longest_s: float = 120.0
    jitter: Callable[[], float] = random.random

    def delay(self, error: TransportError, failures: int) -> float | None:
        """Seconds to wait after the `failures`-th failure, or None to give up."""
        if not error.retryable or failures >= self.attempts:
            return None
        if error.retry_after is not None:
            # Waiting less only earns another refusal; waiting much longer is the caller's decision.
            wanted = error.retry_after
            return wanted + 0.1 * self.base_s * self.jitter() if wanted <= self.longest_s else None
        ceiling = min(self.cap_s, self.base_s * 2.0 ** (failures - 1))
        return ceiling * (0.5 + 0.5 * self.jitter())
