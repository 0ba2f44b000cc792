"""Grades what an agent left: in a fresh sandbox, on the original files plus the agent's changes.

An agent that works in the folder that is graded can change the grader's world: what Python imports as it starts, what
pytest reads, the tests themselves. So the changes are carried over to a fresh copy, and these are not among them.
"""

import difflib
import filecmp
import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from evals import sandbox, tools
from evals.harbor import Task
from evals.image import Image

#: Files that programs of the grader read by themselves: never the agent's, be they changed or new.
STARTUP = (
    *("conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "pytest.ini", ".pytest.ini", "pytest.toml"),
    *("tox.ini", ".coveragerc", ".npmrc", ".mocharc*", "jest.config.*", "vitest.config.*", "__pycache__", "*.pyc"),
)
#: Tests that the environment has: as they were, be they changed or deleted.
TESTS = (
    *("test_*.py", "*_test.py", "*.test.js", "*.test.ts", "*.test.mjs", "*.spec.js", "*.spec.ts", "*_test.go"),
    *("tests", "test", "__tests__"),
)
_MOST_BYTES = 5_000_000


@dataclass(frozen=True)
class Grade:
    """reward: from 0 to 1; None if the grader gave none, which is an error of the harness. output: what it printed."""

    reward: float | None
    output: str
    restored: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """A path below the root whose entry differs: after None, it was deleted."""

    path: str
    before: Path | None
    after: Path | None


def changes(before: Path, after: Path) -> list[Change]:
    """What differs between two trees, without folders: files, links and their modes."""
    old, new = dict(_entries(before)), dict(_entries(after))
    return [
        Change(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if path not in old or path not in new or not _same(old[path], new[path])
    ]


def grade(task: Task, original: Image, after: Path, answer: str, folder: Path, installed: Path | None = None) -> Grade:
    """Run the task's tests on `original` with the changes that `after` has.

    answer: the agent's final text, for `/logs/agent/answer.txt`. folder: an empty one, for the fresh copy and the logs.
    installed: the folder of `tools`, for graders that need pytest.
    """
    fresh = original.copy(folder / "root")
    restored = []
    patterns = tuple(map(str, task.metadata.get("restored") or ()))
    for change in changes(original.root, after):
        if _is_restored(change, after, patterns):
            restored.append("/" + change.path)
        else:
            _apply(change, fresh.root)
    logs = folder / "logs"
    (logs / "agent").mkdir(parents=True)
    (logs / "verifier").mkdir()
    (logs / "agent" / "answer.txt").write_text(answer, "utf-8", errors="replace")
    mounts = fresh.mounts
    mounts.writable["/logs/verifier"] = logs / "verifier"
    mounts.readable |= {"/logs/agent": logs / "agent", "/tests": task.tests}
    environment = {**fresh.environment, "PYTHONDONTWRITEBYTECODE": "1", **task.verifier_env}
    if installed is not None:
        tools.add(installed, mounts, environment)
    # Run by name, not as a program: a file from a registry or an archive may have lost its mode.
    done = sandbox.run(["/bin/bash", "/tests/test.sh"], mounts, fresh.workdir, environment, task.verifier_timeout_s)
    return Grade(reward_in(logs / "verifier"), done.output, tuple(restored))


def reward_in(folder: Path) -> float | None:
    """The reward that a grader wrote: `reward.txt` with a number, or `reward.json` with names and numbers."""
    try:
        if (folder / "reward.txt").is_file():
            return float((folder / "reward.txt").read_text("utf-8"))
        found = json.loads((folder / "reward.json").read_text("utf-8"))
        values = [float(value) for value in found.values()]
        return float(found.get("reward", sum(values) / len(values)))
    except (OSError, ValueError, AttributeError, TypeError, ZeroDivisionError):
        return None


def _is_restored(change: Change, root: Path, patterns: Sequence[str]) -> bool:
    parts = PurePosixPath(change.path).parts
    if any(fnmatch(part, pattern) for part in parts for pattern in STARTUP):
        return True
    if any(fnmatch(change.path, pattern) or fnmatch(parts[-1], pattern) for pattern in patterns):
        return True
    if change.after is not None and _leaves(change.after, root):
        return True
    return change.before is not None and any(fnmatch(part, pattern) for part in parts for pattern in TESTS)


def _leaves(path: Path, root: Path) -> bool:
    """Whether it is a link to something outside of the task's files, such as the tests, or no file at all."""
    if path.is_symlink():
        target = path.readlink()
        return target.is_absolute() or not Path(os.path.normpath(path.parent / target)).is_relative_to(root)
    return not stat.S_ISREG(path.lstat().st_mode)


def _apply(change: Change, root: Path) -> None:
    target = root / change.path
    if target.is_symlink() or target.is_file():
        target.unlink()
    if change.after is None:
        return
    for parent in reversed(target.relative_to(root).parents):
        place = root / parent
        if place.is_symlink() or place.is_file():  # a file has become a folder
            place.unlink()
        place.mkdir(exist_ok=True)
    if target.is_dir():  # a folder has become a file
        shutil.rmtree(target)
    shutil.copy2(change.after, target, follow_symlinks=False)


def _entries(root: Path) -> Iterator[tuple[str, Path]]:
    """Everything but folders, by path below the root; links are not followed."""
    for folder, folders, files in os.walk(root):
        for name in [*files, *(name for name in folders if Path(folder, name).is_symlink())]:
            path = Path(folder, name)
            yield path.relative_to(root).as_posix(), path


def _same(one: Path, other: Path) -> bool:
    first, second = one.lstat(), other.lstat()
    if stat.S_IFMT(first.st_mode) != stat.S_IFMT(second.st_mode) or first.st_mode & 0o111 != second.st_mode & 0o111:
        return False
    if one.is_symlink():
        return one.readlink() == other.readlink()
    return not stat.S_ISREG(first.st_mode) or filecmp.cmp(one, other, shallow=False)


def diff_text(found: Sequence[Change]) -> str:
    """The changes as a unified diff, for people. Files that are no text are only named."""
    parts: list[str] = []
    for change in found:
        texts = [_text(path) for path in (change.before, change.after)]
        if None in texts:
            parts.append(f"{change.path}: changed, and no text\n")
            continue
        old, new = (text.splitlines(keepends=True) for text in texts if text is not None)
        names = (
            f"a/{change.path}" if change.before else "/dev/null",
            f"b/{change.path}" if change.after else "/dev/null",
        )
        lines = difflib.unified_diff(old, new, names[0], names[1])
        parts += [line if line.endswith("\n") else line + "\n" for line in lines]
    return "".join(parts)


def _text(path: Path | None) -> str | None:
    if path is None:
        return ""
    if path.is_symlink():
        return f"-> {path.readlink()}"
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        data = path.read_bytes() if path.stat().st_size < _MOST_BYTES else b"\0"
        return None if b"\0" in data else data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
