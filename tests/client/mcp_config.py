"""MCP servers of a workspace in tests: `.mcp.json`, and settings with which an interpreter runs in a sandbox."""

import contextlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import CLIENTS
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("mcp_server.py")
#: The interpreter without the links of a virtual environment, as a sandbox can show it.
PYTHON = str(Path(sys.executable).resolve())


@contextlib.contextmanager
def served(script: str, *arguments: str) -> Iterator[str]:
    """The address of a server of this folder that serves HTTP. Of its arguments, PORT becomes the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    module = f"tests.client.{script.removesuffix('.py')}"
    line = [sys.executable, "-m", module, *(str(port) if it == "PORT" else it for it in arguments)]

    def is_open() -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) == 0

    process = CLIENTS.popen(line, os.environ, ROOT)
    try:
        until(is_open)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


@pytest.fixture
def sandboxed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings with which the interpreter runs in a sandbox."""
    settings = tmp_path_factory.mktemp("settings")
    write_settings(settings)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings))


def write_settings(folder: Path) -> None:
    """The user's settings in a folder for them."""
    (folder / "codelab").mkdir(parents=True, exist_ok=True)
    (folder / "codelab/config.toml").write_text(f"[sandbox]\nreadable = [{json.dumps(sys.base_prefix)}]\n")


def write_config(workspace: Path, **servers: Any) -> None:
    """The `.mcp.json` of a workspace."""
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def write_server(workspace: Path, **more: Any) -> Path:
    """The server `small` of a workspace, which imports `helper` beside it. Returns its script."""
    tools = workspace / "tools"
    tools.mkdir(parents=True)
    shutil.copy(PROGRAM, tools / "small.py")
    (tools / "helper.py").write_text("")
    (tools / "server.py").write_text("import helper\nimport small\n\nsmall.main()\n")
    write_config(workspace, small={"command": PYTHON, "args": ["tools/server.py"], **more})
    return tools / "server.py"
