"""Node with what the documents' snippets import, and connections as the documents write the address."""

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from codelab_local import LocalCloud

from tests.seeds.client import SeedIde
from tests.seeds.snippets import Snippet, Start

NODE_PROJECT = Path(__file__).with_name("node")

OpenAt = Callable[[str], SeedIde]


@pytest.fixture
def open_at(demo_cloud: LocalCloud) -> Iterator[OpenAt]:
    """Connects to a path of the system with the demonstration model, as the documents write the address."""
    opened: list[SeedIde] = []

    def open_ide(path: str) -> SeedIde:
        opened.append(SeedIde(f"ws://localhost:{demo_cloud.info['port']}{path}"))
        return opened[-1]

    yield open_ide
    for one in opened:
        one.socket.close()


@pytest.fixture(scope="session")
def node() -> str:
    """The `node` command, with the locked packages of `node/` installed beside it."""
    command, npm = shutil.which("node"), shutil.which("npm")
    if command is None or npm is None:
        pytest.skip("the documents' JavaScript runs in Node: install Node.js 18 or later with npm")
    lock = NODE_PROJECT / "package-lock.json"
    wanted = json.loads(lock.read_text())["packages"]["node_modules/ws"]["version"]
    installed = NODE_PROJECT / "node_modules" / "ws" / "package.json"
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # another test run may be installing
        if not installed.exists() or json.loads(installed.read_text())["version"] != wanted:
            done = subprocess.run(
                [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                cwd=NODE_PROJECT,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"npm ci in {NODE_PROJECT} failed:\n{done.stdout}{done.stderr}"
    return command


@pytest.fixture
def start(node: str, demo_cloud: LocalCloud) -> Iterator[Start]:
    """Starts a snippet in Node against the system with the demonstration model."""
    running: list[Snippet] = []

    def start_snippet(source: str) -> Snippet:
        address = f"localhost:{demo_cloud.info['port']}"
        running.append(Snippet(node, NODE_PROJECT, source.replace("localhost:8000", address)))
        return running[-1]

    yield start_snippet
    for snippet in running:
        snippet.stop()
