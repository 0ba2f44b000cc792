"""Node.js with the locked packages of a project, for the tests that run JavaScript."""

import fcntl
import json
import shutil
from pathlib import Path

import pytest

from tests.processes import run


def node_with(project: Path) -> str:
    """The `node` command, with the locked packages of `project`, installed if needed. Skips the test without Node."""
    command, npm = shutil.which("node"), shutil.which("npm")
    if command is None or npm is None:
        pytest.skip("this test runs JavaScript: install Node.js 18 or later with npm")
    lock = project / "package-lock.json"
    locked = json.loads(lock.read_text())["packages"]
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # Another test run may be installing them.
        if any(_version(project / name) != package["version"] for name, package in locked.items() if name):
            done = run(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=project)
            assert done.returncode == 0, f"npm ci in {project} failed:\n{done.stdout}{done.stderr}"
    return command


def _version(package: Path) -> str | None:
    manifest = package / "package.json"
    return json.loads(manifest.read_text())["version"] if manifest.exists() else None
