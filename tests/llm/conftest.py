"""Shared by the tests of the Request: a scripted server and a transport to it."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import httpx2
import pytest
from codelab.llm.client.direct import DirectTransport

from tests.fakes.model.wire import ScriptedServer


@pytest.fixture(scope="session", autouse=True)
def certificates() -> Iterator[None]:
    """Read the system's certificates once: every transport would do so, which takes 50 ms."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(httpx2, "create_ssl_context", functools.cache(httpx2.create_ssl_context))
        yield


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[DirectTransport]:
    made = DirectTransport(base_url=server.url, api_key="test")
    yield made
    made.close()
