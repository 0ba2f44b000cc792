"""The stage is set once: an emulator, and the functions' processes."""

from collections.abc import Iterator

import pytest

from tests.faults.stage import Stage


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with Stage() as found:
        yield found
