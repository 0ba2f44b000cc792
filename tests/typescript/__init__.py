"""Tests of the TypeScript client: those in clients/typescript/tests, run against the local cloud."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "clients/typescript"
#: The version that vitest and Vite need; the client itself needs 20.
NODE = "20.19"


@contextmanager
def sole_builder() -> Iterator[None]:
    """Wait until no other test builds the package, which begins by removing `dist`, or reads what was built."""
    with (PACKAGE / "package.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
