"""Waiting for what happens in other threads and processes."""

import time
from collections.abc import Callable

from tests.ide import PATIENCE


def until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until `condition()` holds. Raises AssertionError if it does not in `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"it has not come true in {patience:.0f} s"
        time.sleep(0.01)
