"""Node.js with the locked packages of a project, for the tests that run JavaScript."""

import fcntl
import json
import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.processes import run


def node_with(project: Path, least: str = "18") -> str:
    """The `node` command, with the locked packages of `project`, installed if needed.

    Skips the test without Node, or without a version of at least `least`.
    """
    command, npm = shutil.which("node"), shutil.which("npm")
    if command is None or npm is None:
        pytest.skip(f"this test runs JavaScript: install Node.js {least} or later with npm")
    if _numbers(_node_version(command)) < _numbers(least):
        pytest.skip(f"this test needs Node.js {least} or later; {command} is {_node_version(command)}")
    lock = project / "package-lock.json"
    locked = json.loads(lock.read_text())["packages"]
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # Another test run may be installing them.
        # Optional packages are those of other platforms.
        needed = {name: found for name, found in locked.items() if "version" in found and not found.get("optional")}
        if any(_version(project / name) != package["version"] for name, package in needed.items()):
            done = run(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=project)
            assert done.returncode == 0, f"npm ci in {project} failed:\n{done.stdout}{done.stderr}"
    return command


@cache
def _node_version(command: str) -> str:
    return run(command, "--version").stdout.strip().removeprefix("v")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.partition("-")[0].split(".")]


def _version(package: Path) -> str | None:
    manifest = package / "package.json"
    return json.loads(manifest.read_text())["version"] if manifest.exists() else None
