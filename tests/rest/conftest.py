"""A plain HTTP client of the whole system, like the seed documents' clients."""

import itertools
from collections.abc import Iterator

import httpx
import pytest
from codelab_local import LocalCloud

from tests.conftest import TEMPLATE
from tests.fakes.model.server import ScriptedModel

_sessions = (f"rest_{n}" for n in itertools.count(1))


def client_of(cloud: LocalCloud) -> httpx.Client:
    return httpx.Client(base_url=f"{cloud.http}/api/v1", timeout=40)


@pytest.fixture
def api(cloud: LocalCloud) -> Iterator[httpx.Client]:
    """The Agent Runtime API of the system with the scripted model."""
    with client_of(cloud) as client:
        yield client


@pytest.fixture
def session(api: httpx.Client) -> str:
    """A new session for this test only."""
    answer = api.post("/sessions", json={"session_id": next(_sessions)})
    assert answer.status_code == 201
    name: str = answer.json()["session_id"]
    return name


@pytest.fixture(scope="session")
def buffered_cloud(model: ScriptedModel) -> Iterator[LocalCloud]:
    """The system without the function URL: the HTTP API serves the stream, and buffers it."""
    with LocalCloud(TEMPLATE, environment=model.environment, parameters={"RestStreaming": "false"}) as running:
        yield running
