"""Tasks in Harbor's format: folders with `task.toml`, `instruction.md`, `environment/`, `tests/` and `solution/`.

The format is that of https://www.harborframework.com/docs/tasks. What needs Docker is refused with a word: several
containers, an image without a Dockerfile, tasks of several steps, Windows.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Lines at the beginning of an instruction that mark it as a benchmark's. Agents must not see them.
_CANARY = re.compile(r"(?i)^(<!--.*canary.*-->|#.*canary.*)$")

_TOML = """schema_version = "1.1"

[task]
name = {name}
description = {description}

[metadata]
{metadata}

[verifier]
timeout_sec = {verifier_s:.1f}

[agent]
timeout_sec = {agent_s:.1f}
"""
#: The files stand for themselves: what is graded are they, not the programs around them.
_DOCKERFILE = "FROM python:3.13-slim\nWORKDIR /app\nCOPY files/ /app/\n"
_SOLVE = """#!/bin/bash
set -e
cd /app
cp -rT /solution/files .
"""


class TaskError(ValueError):
    """A task cannot be used here. The message names the task and says why."""


@dataclass(frozen=True)
class Task:
    """A task.

    timeouts in seconds. verifier_env: further environment variables of `tests/test.sh`. metadata: of `task.toml`; of
    ours, `kind`, `language` and `held_out`, and `restored`: globs of further files that graders take as they were.
    """

    name: str
    folder: Path
    instruction: str
    agent_timeout_s: float = 600
    verifier_timeout_s: float = 600
    verifier_env: Mapping[str, str] = field(default_factory=dict)
    environment_env: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dockerfile(self) -> Path:
        """What the environment is made of."""
        return self.folder / "environment" / "Dockerfile"

    @property
    def tests(self) -> Path:
        """The folder of the graders, `/tests` for them."""
        return self.folder / "tests"

    @property
    def solution(self) -> Path:
        """The folder of a right solution, `/solution` for it."""
        return self.folder / "solution"


def tasks_in(folder: Path) -> Iterator[Task]:
    """The task that is in `folder`, or those in the folders in it, by name. Raises TaskError."""
    if (folder / "task.toml").is_file():
        yield load(folder)
        return
    found = sorted(path.parent for path in folder.glob("*/task.toml"))
    if not found:
        raise TaskError(f"{folder} has no task.toml, and no folder with one")
    yield from map(load, found)


def load(folder: Path) -> Task:
    """Read one task. Raises TaskError."""
    name = folder.name
    try:
        config = tomllib.loads((folder / "task.toml").read_text("utf-8"))
        instruction = _without_canary((folder / "instruction.md").read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TaskError(f"{name}: {error}") from None
    environment = _table(name, config, "environment")
    for reason, is_so in (
        ("it has several steps", config.get("steps")),
        ("it needs Windows", environment.get("os", "linux") != "linux"),
        ("it needs several containers", (folder / "environment" / "docker-compose.yaml").exists()),
        ("its environment has no Dockerfile", not (folder / "environment" / "Dockerfile").is_file()),
        ("it has no tests/test.sh", not (folder / "tests" / "test.sh").is_file()),
    ):
        if is_so:
            raise TaskError(f"{name} cannot be run without Docker: {reason}")
    agent, verifier = _table(name, config, "agent"), _table(name, config, "verifier")
    return Task(
        name=name,
        folder=folder.resolve(),
        instruction=instruction.strip(),
        agent_timeout_s=float(agent.get("timeout_sec") or 600),
        verifier_timeout_s=float(verifier.get("timeout_sec") or 600),
        verifier_env=_strings(verifier.get("env")),
        environment_env=_strings(environment.get("env")),
        metadata=_table(name, config, "metadata"),
    )


def folder_name(wanted: str, number: int) -> str:
    """A folder's name for a task that calls itself `wanted`, the `number`-th of its set."""
    return re.sub(r"[^a-z0-9._-]+", "-", wanted.lower()).strip("-.")[:60] or f"task-{number}"


def write(
    folder: Path,
    name: str,
    instruction: str,
    *,
    metadata: Mapping[str, str | bool],
    files: Mapping[str, str],
    tests: Mapping[str, str],
    solution: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    agent_timeout_s: float = 600,
    verifier_timeout_s: float = 60,
) -> Path:
    """Write a task whose workspace is `/app`. Returns `folder`.

    name: `set/task`. metadata: `kind` and others, see Task. files: the workspace before, texts by path. solution: those
    that are others afterwards. tests: what is in `/tests`, with `test.sh`. environment: variables that hold there.
    """
    about = _TOML.format(
        name=json.dumps(name),
        description=json.dumps(metadata["kind"]),
        metadata="\n".join(f"{key} = {json.dumps(value)}" for key, value in metadata.items()),
        verifier_s=verifier_timeout_s,
        agent_s=agent_timeout_s,
    )
    variables = "".join(f"ENV {key}={json.dumps(value)}\n" for key, value in (environment or {}).items())
    _write(folder, {"task.toml": about, "instruction.md": instruction.strip() + "\n"})
    _write(folder / "environment", {"Dockerfile": _DOCKERFILE + variables})
    _write(folder / "environment" / "files", files)
    _write(folder / "tests", tests)
    _write(folder / "solution", {"solve.sh": _SOLVE})
    _write(folder / "solution" / "files", solution)
    return folder


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def _table(name: str, config: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = config.get(key, {})
    if not isinstance(value, dict):
        raise TaskError(f"{name}: [{key}] of task.toml is no table")
    return value


def _strings(value: Any) -> dict[str, str]:
    return {str(key): str(each) for key, each in value.items()} if isinstance(value, dict) else {}


def _without_canary(text: str) -> str:
    lines = text.split("\n")
    while lines and _CANARY.match(lines[0].strip()):
        del lines[0]
    return "\n".join(lines)
