"""Secrets that may be rotated while a process lives."""

import threading
import time
from collections.abc import Callable


class Secret:
    """A secret that may be rotated while the process lives. Call it for its value; it is read when it is made.

    read_value: gives the current value. keep_s: how long a value is used before it is read again (None: until it is
    refused). renew_every_s: the least time between two readings that a refusal causes, so that wrong tokens cannot
    cause a reading each time. clock: seconds; not `time.monotonic`, which may stand still while Lambda freezes a
    process.
    """

    def __init__(
        self,
        read_value: Callable[[], str],
        *,
        keep_s: float | None = None,
        renew_every_s: float = 60,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read_value = read_value
        self._keep_s = keep_s
        self._renew_every_s = renew_every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._value = read_value()
        self._read_at = clock()
        self._renewed_at: float | None = None

    def __call__(self) -> str:
        with self._lock:
            if self._keep_s is not None and self._clock() - self._read_at > self._keep_s:
                self._read_again()
            return self._value

    def renew(self, refused_value: str) -> bool:
        """After `refused_value` was not accepted: whether there is another value now. Does not raise."""
        with self._lock:
            now = self._clock()
            if self._value == refused_value and (
                self._renewed_at is None or now - self._renewed_at >= self._renew_every_s
            ):
                self._renewed_at = now
                self._read_again()
            return self._value != refused_value

    def _read_again(self) -> None:
        self._read_at = self._clock()
        try:
            self._value = self._read_value()
        except Exception:
            from codelab.observability import logger

            # The old value may still be right; a caller for whom it is wrong is refused.
            logger().exception("a secret cannot be read again")


def secret(value: str, arn: str, *, keep_s: float | None = None) -> Secret:
    """`value` if it is set, else the secret in Secrets Manager, else empty. Make it at init, because it may read."""
    if value or not arn:
        return Secret(lambda: value)
    from codelab import aws

    return Secret(lambda: aws.secrets_client().get(arn), keep_s=keep_s)
