"""Aider's exercises, a checkout of https://github.com/Aider-AI/polyglot-benchmark: those in Python.

The agent gets the exercise's stub and its text, not its tests.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from evals import harbor
from evals.loaders.graders import pytest_files
from evals.loaders.left_out import LeftOut

_TEXTS = ("introduction.md", "instructions.md", "instructions.append.md")
_RULES = """Write your solution into {files}. Tests that you do not see will import it: keep the names that are there.
Use nothing but the language's own library.
"""


def polyglot(checkout: Path, folder: Path) -> Iterator[Path | LeftOut]:
    """Write each exercise below `folder`: its folder there, or why it is left out. Raises harbor.TaskError."""
    exercises = sorted((checkout / "python" / "exercises" / "practice").glob("*/.meta/config.json"))
    if not exercises:
        raise harbor.TaskError(f"{checkout} has no python/exercises/practice")
    for config in exercises:
        source = config.parent.parent
        try:
            yield _exercise(source, folder / f"python-{source.name}")
        except (OSError, ValueError, KeyError, UnicodeDecodeError) as error:
            yield LeftOut(source.name, repr(error))


def _exercise(source: Path, folder: Path) -> Path:
    parts = json.loads((source / ".meta" / "config.json").read_text("utf-8"))["files"]
    stubs, tests, examples = ({name: _text(source / name) for name in parts[part]} for part in _PARTS)
    if len(stubs) != len(examples):
        raise ValueError("the example has other files than the solution")
    texts = [_text(source / ".docs" / name) for name in _TEXTS if (source / ".docs" / name).is_file()]
    runs = [name for name in tests if name.endswith("_test.py")]
    return harbor.write(
        folder,
        f"polyglot/{folder.name}",
        "\n".join([*texts, _RULES.format(files=", ".join(stubs))]),
        metadata={"kind": "polyglot, Python", "language": "en"},
        files=stubs,
        tests=pytest_files(tests, paths=runs, wanted=None),
        solution=dict(zip(stubs, examples.values(), strict=True)),
    )


_PARTS = ("solution", "test", "example")


def _text(path: Path) -> str:
    return path.read_text("utf-8")
