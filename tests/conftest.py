"""The system as `make run` starts it, once with the demonstration model and once with a scripted one."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud

from tests.ide import Ide
from tests.scripted_model import ScriptedModel

TEMPLATE = Path(__file__).parents[1] / "template.yaml"

_sessions = (f"talk_{n}" for n in itertools.count(1))

Open = Callable[..., Ide]


def opener(cloud: LocalCloud) -> Iterator[Open]:
    """A function that opens connections, to a new session unless one is named, and closes them after the test."""
    opened: list[Ide] = []

    def open_ide(session: str | None = None, *, extensions: bool = False, **query: Any) -> Ide:
        if extensions:
            query["extensions"] = 1
        options = query.pop("options", {})
        opened.append(Ide(cloud.url(session or next(_sessions), **query), **options))
        return opened[-1]

    yield open_ide
    for ide in opened:
        ide.socket.close()


@pytest.fixture(scope="session")
def demo_cloud() -> Iterator[LocalCloud]:
    with LocalCloud(TEMPLATE, environment={"DEMO_TOKEN_DELAY_MS": "0"}) as running:
        yield running


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


@pytest.fixture(scope="session")
def cloud(model: ScriptedModel) -> Iterator[LocalCloud]:
    with LocalCloud(TEMPLATE, environment=model.environment) as running:
        yield running


@pytest.fixture
def ide(cloud: LocalCloud) -> Iterator[Open]:
    """Opens connections to the system with the scripted model."""
    yield from opener(cloud)
