"""Waiting for what happens in other threads and processes."""

import time
from collections.abc import Callable
from typing import TypeVar

#: How long a test waits for one thing before it fails, in seconds.
PATIENCE = 30.0

T = TypeVar("T")


def until(condition: Callable[[], T], patience: float = PATIENCE) -> T:
    """Wait until `condition()` is true, and return its value. Raises AssertionError after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still {found!r} after {patience:.0f} s"
        time.sleep(0.01)
    return found
