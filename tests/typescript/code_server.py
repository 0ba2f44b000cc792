"""A real VS Code, of the oldest version that the extension names, as a server: code-server, from its npm package.

Its own start script is left out, with the native modules that it would build: terminals of shells, which need one, are
the only thing that is missing.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.node import node_with
from tests.typescript import NODE
from tests.waiting import until

PROJECT = Path(__file__).with_name("code_server")
_MODULES = PROJECT / "node_modules"
_VSCODE = _MODULES / "code-server/lib/vscode"
_SETTINGS = {"workbench.startupEditor": "none", "telemetry.telemetryLevel": "off", "files.autoSave": "off"}


def version() -> str:
    """The version of VS Code."""
    return str(json.loads((_VSCODE / "package.json").read_text("utf-8"))["version"])


def install() -> str:
    """Install the server; gives the `node` command."""
    node = node_with(PROJECT, NODE)
    if not (_VSCODE / "node_modules").exists():
        (_VSCODE / "node_modules").symlink_to(_MODULES)
    ripgrep, program = shutil.which("rg"), _MODULES / "@vscode/ripgrep/bin/rg"
    if ripgrep is not None and not program.exists():  # its package would fetch one
        program.parent.mkdir(exist_ok=True)
        program.symlink_to(ripgrep)
    return node


@contextmanager
def code_server(folder: Path, extension: Path, settings: dict[str, object]) -> Iterator[str]:
    """The address of a server with an extension, a `.vsix`. It keeps all of its data in the folder."""
    node, data = install(), folder / "data"
    machine = data / "data/Machine/settings.json"
    machine.parent.mkdir(parents=True)
    machine.write_text(json.dumps({**_SETTINGS, **settings}))
    command = (node, str(_VSCODE / "out/server-main.js"), "--server-data-dir", str(data))
    # A server that only installs may wait for minutes for the gallery, which is out of reach.
    installs = ("--install-extension", str(extension), "--start-server")
    options = ("--host", "127.0.0.1", "--port", "0", "--without-connection-token", "--accept-server-license-terms")
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *installs, *options], stdout=output, stderr=output, env=environment)
    try:
        until(lambda: process.poll() is not None or "Web UI available" in log.read_text("utf-8", "replace"), 120)
        listening = re.search(r"Web UI available at http://localhost:(\d+)", log.read_text("utf-8", "replace"))
        assert listening, log.read_text("utf-8", "replace")
        until(lambda: "was successfully installed" in log.read_text("utf-8", "replace"), 120)
        yield f"http://127.0.0.1:{listening[1]}"
    finally:
        process.terminate()
        process.wait(30)
