"""Shared by the tests of the Request: a scripted server and a transport to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from codelab.llm.client.openai_sdk import OpenAITransport, openai_transport

from tests.llm.server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[OpenAITransport]:
    made = openai_transport(base_url=server.url, api_key="test", warm=False)
    yield made
    made.close()
