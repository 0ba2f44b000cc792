"""Aider's exercises, a checkout of https://github.com/Aider-AI/polyglot-benchmark: those in Python and JavaScript.

The agent gets the exercise's stub and its text, not its tests.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from evals import harbor
from evals.loaders.graders import pytest_files, vitest_files
from evals.loaders.left_out import LeftOut

_TEXTS = ("introduction.md", "instructions.md", "instructions.append.md")
_RULES = """Write your solution into {files}. Tests that you do not see will import it: keep the names that are there.
Use nothing but the language's own library.
"""


def polyglot(checkout: Path, folder: Path) -> Iterator[Path | LeftOut]:
    """Write each exercise below `folder`: its folder there, or why it is left out. Raises harbor.TaskError."""
    exercises = [
        (language, config.parent.parent)
        for language in _LANGUAGES
        for config in sorted((checkout / language / "exercises" / "practice").glob("*/.meta/config.json"))
    ]
    if not exercises:
        raise harbor.TaskError(f"{checkout} has no exercises/practice of {' or '.join(_LANGUAGES.values())}")
    for language, source in exercises:
        name = f"{language}-{source.name}"
        try:
            yield _exercise(language, source, folder / name)
        except (OSError, ValueError, KeyError, UnicodeDecodeError) as error:
            yield LeftOut(name, repr(error))


def _exercise(language: str, source: Path, folder: Path) -> Path:
    parts = json.loads((source / ".meta" / "config.json").read_text("utf-8"))["files"]
    stubs, tests, examples = ({name: _text(source / name) for name in parts[part]} for part in _PARTS)
    if len(stubs) != len(examples):
        raise ValueError("the example has other files than the solution")
    texts = [_text(source / ".docs" / name) for name in _TEXTS if (source / ".docs" / name).is_file()]
    if language == "python":
        grader = pytest_files(tests, paths=[name for name in tests if name.endswith("_test.py")], wanted=None)
    else:
        grader = vitest_files(tests, paths=[name for name in tests if name.endswith(".spec.js")])
    return harbor.write(
        folder,
        f"polyglot/{folder.name}",
        "\n".join([*texts, _RULES.format(files=", ".join(stubs))]),
        metadata={"kind": f"polyglot, {_LANGUAGES[language]}", "language": "en"},
        files={**stubs, **_data(source)},
        tests=grader,
        solution=dict(zip(stubs, examples.values(), strict=True)),
    )


def _data(source: Path) -> dict[str, str]:
    """The files in folders that are not hidden, by path: what the code and its tests read."""
    paths = [path for folder in source.glob("[!.]*/") if folder.is_dir() for path in folder.rglob("*")]
    return {path.relative_to(source).as_posix(): _text(path) for path in sorted(paths) if path.is_file()}


#: The folders of a checkout, and the languages' names.
_LANGUAGES = {"python": "Python", "javascript": "JavaScript"}
_PARTS = ("solution", "test", "example")


def _text(path: Path) -> str:
    return path.read_text("utf-8")
