"""A local cloud with the sample application, shared by tests that do not need their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from codelab_local import LocalCloud

APP = Path(__file__).parent / "app"


@pytest.fixture(scope="session")
def cloud() -> Iterator[LocalCloud]:
    """In shuffle mode, because no test may depend on the order of messages."""
    with LocalCloud(APP / "template.yaml", environment={"GATEWAY_SHUFFLE": "7"}) as running:
        yield running
