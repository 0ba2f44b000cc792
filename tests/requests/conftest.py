"""What the tests of the Request share: schemas, and a server that answers as it is told."""

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

OURS = Path(__file__).parent / "corpus" / "schemas.jsonl"


def _data() -> Path | None:
    folder = os.environ.get("CODELAB_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


@pytest.fixture(scope="session")
def data() -> Path | None:
    """The folder with thousands of real schemas, which are not part of the project; None where it is not at hand."""
    return _data()


@pytest.fixture(scope="session", params=["ours", "real"] if _data() else ["ours"])
def rows(request: pytest.FixtureRequest, data: Path | None) -> list[dict[str, Any]]:
    """Schemas with instances: {"id", "schema", "valid", "invalid"}. Ours use together what real ones do."""
    if request.param == "ours":
        return [json.loads(line) for line in OURS.read_text(encoding="utf-8").splitlines()]
    assert data is not None
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
