"""What the tests of the client's tools share: one call at a time, and a file system that must not change."""

import asyncio
import hashlib
import itertools
import os
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from codelab_client.execution import Stream, ToolCall, ToolOutcome
from codelab_client.tools.executor import Executor

_ids = itertools.count()

GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
}


class Output:
    """Collects the pieces of a command's output."""

    def __init__(self, then: Callable[[str], object] = lambda text: None) -> None:
        self.pieces: list[tuple[str, str]] = []
        self._then = then

    async def __call__(self, stream: Stream, text: str) -> None:
        self.pieces.append((stream, text))
        self._then(text)

    def of(self, stream: str) -> str:
        return "".join(text for name, text in self.pieces if name == stream)


class Answers:
    """A Dialogue that gives one answer, if it may be given, and one to a review. `questions` are those that it had."""

    def __init__(self, answer: str | None = None, chunks: Sequence[int] | None = None) -> None:
        self.answer, self.chunks, self.questions = answer, chunks, list[str]()

    async def choose(self, message: str, actions: Sequence[str]) -> str | None:
        self.questions.append(message)
        return next((action for action in actions if action == self.answer), None)

    async def review(self, message: str, diff: str, chunks: int) -> Sequence[int] | None:
        return self.chunks


async def call(executor: Executor, tool: str, output: Output | None = None, **arguments: Any) -> ToolOutcome:
    """Execute one call."""
    return await executor.execute(ToolCall(f"call_{next(_ids)}", tool, arguments), output or Output())


def execute(executor: Executor, tool: str, **arguments: Any) -> ToolOutcome:
    """Execute one call in an event loop of its own."""
    return asyncio.run(call(executor, tool, **arguments))


def result(executor: Executor, tool: str, **arguments: Any) -> Any:
    """The result of a call that must succeed."""
    outcome = execute(executor, tool, **arguments)
    assert outcome.error is None, outcome.error
    return outcome.result


def error_code(executor: Executor, tool: str, **arguments: Any) -> str:
    """The error code of a call that must fail."""
    outcome = execute(executor, tool, **arguments)
    assert outcome.error is not None, outcome.result
    return outcome.error.code


def stand_still(*files: Path) -> bool:
    """Whether nobody writes these files: a process that was killed may still have been about to."""
    before = [file.read_bytes() for file in files]
    time.sleep(0.2)
    return [file.read_bytes() for file in files] == before


def git(folder: Path, *arguments: str) -> str:
    """Run git as the user would, without anybody's settings."""
    ran = subprocess.run(["git", *arguments], cwd=folder, env=GIT_ENVIRONMENT, capture_output=True, check=True)
    return ran.stdout.decode()


def repository(folder: Path, **files: str) -> Path:
    """A new repository on the branch main with one commit of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    with (folder / ".git/config").open("a") as config:
        config.write("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    for name, content in files.items():
        (folder / name).write_text(content)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "first")
    return folder


def snapshot(folder: Path, without: Path | None = None) -> dict[str, tuple[Any, ...]]:
    """Everything below a folder: kinds, modes, times of change, contents and targets of links."""
    found: dict[str, tuple[Any, ...]] = {}
    for parent, directories, files in os.walk(folder):
        if without is not None and Path(parent) == without:
            directories.clear()
            continue
        for name in (*directories, *files):
            path = Path(parent) / name
            status = path.lstat()
            said: Any = None
            if stat.S_ISLNK(status.st_mode):
                said = path.readlink()
            elif stat.S_ISREG(status.st_mode):
                said = hashlib.sha256(path.read_bytes()).hexdigest()
            changed = status.st_mtime_ns if path != without else 0
            found[str(path)] = (status.st_mode, changed, said)
    return found
