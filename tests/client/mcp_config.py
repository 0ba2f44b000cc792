"""MCP servers of a workspace in tests: `.mcp.json`, and settings with which an interpreter runs in a sandbox."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("mcp_server.py")
#: The interpreter without the links of a virtual environment, as a sandbox can show it.
PYTHON = str(Path(sys.executable).resolve())


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
