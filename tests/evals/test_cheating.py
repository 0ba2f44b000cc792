"""Agents that cheat: each leaves something in its folder that makes the grader say "solved" there, and nowhere else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evals import grading, image, sandbox
from evals.harbor import Task, load
from evals.suite import debug, task
from tests.evals.made_task import TEST_SH, has_bubblewrap, made

pytestmark = pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")

_PATCH = "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n"
#: What some would do in place of the correction.
TRICKS: dict[str, Callable[[Path], object]] = {
    "sitecustomize": lambda app: (app / "sitecustomize.py").write_text(_PATCH),
    "usercustomize": lambda app: (app / "usercustomize.py").write_text(_PATCH),
    "the test deleted": lambda app: (app / "tests" / "test_calc.py").unlink(),
    "the test emptied": lambda app: (app / "tests" / "test_calc.py").write_text(""),
    "the test a link": lambda app: _linked(app / "tests" / "test_calc.py", "/dev/null"),
    "the tests a folder elsewhere": lambda app: _linked_folder(app / "tests"),
    "a file of bytecode": lambda app: _bytecode(app),
}


def _linked(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def _linked_folder(folder: Path) -> None:
    folder.rename(folder.with_name("old"))
    (folder.parent / "none").mkdir()
    folder.symlink_to("none")


def _bytecode(app: Path) -> None:
    """Of a right module, with the time and the size of the wrong one's source."""
    import py_compile

    source = app / "calc.py"
    about, text = source.stat(), source.read_text()
    source.write_text(text.replace("-", "+"))
    os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns))
    python = sandbox.run(
        ["python3", "-c", "import sys; print(sys.implementation.cache_tag)"], sandbox.Mounts(), "/", {}, 20
    )
    cached = app / "__pycache__" / f"calc.{python.output.strip()}.pyc"
    cached.parent.mkdir()
    work = sandbox.Mounts(writable={"/app": app})
    line = ["python3", "-m", "py_compile", "/app/calc.py"]
    assert sandbox.run(line, work, "/app", {}, 20).code == 0
    assert cached.exists(), py_compile
    source.write_text(text)
    os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns))


def reward_where_it_worked(made_task: Task, work: image.Image, folder: Path) -> float | None:
    """What a grader says that runs in the agent's own folder."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    mounts = work.mounts
    mounts.writable["/logs/verifier"] = logs
    mounts.readable["/tests"] = made_task.tests
    sandbox.run(["/bin/bash", "/tests/test.sh"], mounts, work.workdir, work.environment, 60)
    return grading.reward_in(logs)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_trick_works_where_it_was_played_and_not_where_it_is_graded(trick: str, tmp_path: Path) -> None:
    made_task = made(tmp_path / "task")
    original = image.build(made_task, _empty(tmp_path / "original"))
    work = original.copy(tmp_path / "work")
    TRICKS[trick](work.place("/app"))
    assert reward_where_it_worked(made_task, work, tmp_path / "there") == 1
    found = grading.grade(made_task, original, work.root, "Done.", _empty(tmp_path / "grading"))
    assert (found.reward, bool(found.restored)) == (0, True), found.output


def test_an_honest_correction_is_kept_beside_what_is_restored(tmp_path: Path) -> None:
    made_task = made(tmp_path / "task")
    original = image.build(made_task, _empty(tmp_path / "original"))
    work = original.copy(tmp_path / "work")
    app = work.place("/app")
    (app / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    (app / "conftest.py").write_text("raise SystemExit(0)\n")
    (app / "new").mkdir()
    (app / "new" / "notes.txt").write_text("kept")
    found = grading.grade(made_task, original, work.root, "Done.", _empty(tmp_path / "grading"))
    assert (found.reward, found.restored) == (1, ("/app/conftest.py",))
    assert (tmp_path / "grading" / "root" / "app" / "new" / "notes.txt").read_text() == "kept"


def test_programs_of_the_agent_are_not_the_graders(tmp_path: Path) -> None:
    made_task = made(tmp_path / "task", **{"environment/Dockerfile": "FROM x\nWORKDIR /app\nCOPY files/ .\n"})
    original = image.build(made_task, _empty(tmp_path / "original"))
    work = original.copy(tmp_path / "work")
    for name in ("python3", "bin/python3", "bash", "cd"):
        program = work.place("/app") / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
    for name in (".bashrc", ".profile", ".bash_profile"):
        (work.place("/app") / name).write_text("PATH=/app:/app/bin:$PATH\n")
    found = grading.grade(made_task, original, work.root, "Done.", _empty(tmp_path / "grading"))
    assert found.reward == 0, found.output


#: Modules whose function should be correct, and is not.
CODE = {
    "exits": "import os\nos._exit(0)\n",
    "prints values": """import sys
print('{"average.average([1, 2])": [1.5], "average.average([4, 4])": [4.0]}')
sys.exit()
""",
    "a daemon writes the reward": """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(1)
        os.close(2)
        while True:
            open("/logs/verifier/reward.txt", "w").write("1")
            time.sleep(0.01)
    os._exit(0)
""",
    "equals everything": """class Same:
    def __eq__(self, other):
        return True


average = lambda numbers: Same()
""",
    "reads what is expected": "average = lambda numbers: open('/tests/expected.json').read()\n",
    "no number": "average = lambda numbers: float('nan')\n",
}


@pytest.mark.parametrize("code", CODE)
def test_code_that_is_run_cannot_say_that_it_is_right(
    code: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    [folder] = task.export([next(t for t in debug.TASKS if t.name == "debug-average")], tmp_path / "tasks")
    made_task = load(folder)
    original = image.build(made_task, _empty(tmp_path / "original"))
    work = original.copy(tmp_path / "work")
    (work.place("/app") / "average.py").write_text(CODE[code])
    for name in ("json", "re", "ctypes", "signal", "pathlib"):  # which the grader imports
        (work.place("/app") / f"{name}.py").write_text("raise SystemExit(0)\n")
    found = grading.grade(made_task, original, work.root, "Done.", _empty(tmp_path / "grading"))
    assert found.reward == 0, found.output


def test_an_answer_that_is_a_link_to_the_expected_one_is_none(tmp_path: Path) -> None:
    made_task = made(
        tmp_path / "task",
        **{
            "tests/test.sh": "cat /app/answer.txt | grep -c secret > /logs/verifier/reward.txt\n",
            "tests/expected": "secret\n",
        },
    )
    original = image.build(made_task, _empty(tmp_path / "original"))
    work = original.copy(tmp_path / "work")
    (work.place("/app") / "answer.txt").symlink_to("/tests/expected")
    (work.place("/app") / "other.txt").symlink_to("../../tests/expected")
    found = grading.grade(made_task, original, work.root, "", _empty(tmp_path / "grading"))
    assert (found.reward, found.restored) == (0, ("/app/answer.txt", "/app/other.txt"))


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_the_grader_of_these_tests_calls_a_correction_solved(tmp_path: Path) -> None:
    made_task = made(tmp_path / "task")
    work = image.build(made_task, _empty(tmp_path / "work"))
    (work.place("/app") / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    assert "unittest" in TEST_SH
    assert reward_where_it_worked(made_task, work, tmp_path / "there") == 1
