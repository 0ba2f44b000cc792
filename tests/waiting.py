"""Waiting for what happens in coroutines, other threads and processes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

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


def run(test: Awaitable[Any]) -> Any:
    """Run a coroutine to its end, for two minutes at most. A test that is a coroutine needs no call of this."""

    async def limited() -> Any:
        async with asyncio.timeout(4 * PATIENCE):
            return await test

    return asyncio.run(limited())
