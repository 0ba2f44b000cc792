"""What the tests of the Request share: the folder of data, and a server that answers as it is told."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codelab.requests import openai_transport
from codelab.requests.openai_sdk import OpenAITransport

from tests.requests.server import ScriptedServer


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with the real schemas, which are not part of the project."""
    folder = os.environ.get("CODELAB_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CODELAB_DATA does not name the folder with the schemas (jsb_tools_like.jsonl.gz)")
    return Path(folder)


@pytest.fixture(scope="session")
def rows(data: Path) -> list[dict[str, Any]]:
    with gzip.open(data / "jsb_tools_like.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[OpenAITransport]:
    made = openai_transport(base_url=server.url, api_key="test", warm=False)
    yield made
    made.close()
