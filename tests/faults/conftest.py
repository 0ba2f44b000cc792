"""The stage is set once: an emulator, and the functions' processes."""

from collections.abc import Iterator

import pytest

from tests.faults.stage import Stage
from tests.quotas import USUAL


@pytest.fixture(scope="session")
def limited_stage() -> Iterator[Stage]:
    """With quotas, and one open turn at a time: a slot that is not given back refuses the next message."""
    with Stage(**{**USUAL, "OPEN_TURNS": "1"}) as found:
        yield found


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with Stage() as found:
        yield found
