"""Node with what the documents' snippets import, and connections as the documents write the address."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from codelab_local import LocalCloud

from tests.fakes.ide.seed_ide import SeedIde
from tests.node import node_with
from tests.seeds.snippets import Snippet, Start

NODE_PROJECT = Path(__file__).with_name("node")

OpenAt = Callable[[str], SeedIde]


@pytest.fixture
def open_at(demo_cloud: LocalCloud) -> Iterator[OpenAt]:
    """Connects to a path of the system with the demonstration model, as the documents write the address."""
    with ExitStack() as opened:
        yield lambda path: opened.enter_context(SeedIde(f"ws://localhost:{demo_cloud.info['port']}{path}"))


@pytest.fixture(scope="session")
def node() -> str:
    """The `node` command, with what the snippets import beside it."""
    return node_with(NODE_PROJECT)


@pytest.fixture
def start(node: str, demo_cloud: LocalCloud) -> Iterator[Start]:
    """Starts a snippet in Node against the system with the demonstration model."""
    address = f"localhost:{demo_cloud.info['port']}"
    with ExitStack() as running:
        yield lambda source: running.enter_context(
            Snippet(node, NODE_PROJECT, source.replace("localhost:8000", address))
        )
