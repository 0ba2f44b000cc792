"""The graders of loaded tasks: programs of this folder that are copied into a task's tests."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from evals.suite.task import GRADER

_HERE = Path(__file__).parent
#: The file by which a task's tests need vitest.
VITEST_GRADER = "run_vitest.py"


def pytest_files(tests: Mapping[str, str], *, paths: Sequence[str], wanted: Sequence[str] | None) -> dict[str, str]:
    """The files of `/tests` for tests of pytest.

    tests: files that are put into the workspace before, texts by path. paths: what pytest runs. wanted: the names of
    the tests that must pass; None: all in `paths`, and there must be as many as their files have.
    """
    settings = {"paths": list(paths), "wanted": None if wanted is None else sorted(wanted)}
    return {**_program("run_pytest.py", settings), **_beside("outcomes.py", "told.py"), **_placed(tests)}


def vitest_files(tests: Mapping[str, str], *, paths: Sequence[str]) -> dict[str, str]:
    """As `pytest_files`, for tests of Jest that vitest can run; all in `paths` must pass."""
    beside = _beside("outcomes.py", "told.mjs", "globals.mjs", "vitest.config.mjs")
    return {**_program(VITEST_GRADER, {"paths": list(paths)}), **beside, **_placed(tests)}


def script_files(main: str, tests: str) -> dict[str, str]:
    """The files of `/tests` for one that is a script: it runs behind the text of the workspace's file `main`."""
    return {**_program("run_script.py", {"main": main}), "tests.py": tests}


def _beside(*names: str) -> dict[str, str]:
    return {name: (_HERE / name).read_text("utf-8") for name in names}


def _placed(tests: Mapping[str, str]) -> dict[str, str]:
    return {f"files/{name}": text for name, text in tests.items()}


def _program(name: str, settings: Mapping[str, object]) -> dict[str, str]:
    return {
        "test.sh": f"#!/bin/bash\npython3 -I /tests/{name}\n",
        **_beside(name),
        "grade.py": GRADER.read_text("utf-8"),
        "settings.json": json.dumps(settings, indent=1),
    }
