"""A small task in Harbor's format, written for a test, and agents that are one function."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evals import sandbox
from evals.agents import Attempt
from evals.harbor import Task, load
from evals.image import Image

DOCKERFILE = "FROM python:3.13-slim\nWORKDIR /app\nCOPY files/ .\nENV PYTHONPATH=/app\n"
CALC = "def add(a, b):\n    return a - b\n"
TEST_CALC = """import unittest

from calc import add


class Add(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""
TEST_SH = """#!/bin/bash
cd /app
if python3 -m unittest discover -s tests; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def made(folder: Path, **files: str) -> Task:
    """The task in `folder`: `calc.py` has a mistake that its test shows. files: others in place of its own, by path."""
    own = {
        "task.toml": '[metadata]\nkind = "debug"\n[verifier]\ntimeout_sec = 60\n',
        "instruction.md": "Correct calc.py.\n",
        "environment/Dockerfile": DOCKERFILE,
        "environment/files/calc.py": CALC,
        "environment/files/tests/test_calc.py": TEST_CALC,
        "tests/test.sh": TEST_SH,
        "solution/solve.sh": "sed -i 's/a - b/a + b/' calc.py\n",
    }
    for name, text in (own | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return load(folder)


@dataclass(frozen=True)
class Does:
    """An agent that does this in the folder with the task's files, and then says `answer`."""

    do: Callable[[Path], object]
    answer: str = "Done."
    name: str = "does"

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> Attempt:
        """See Agent."""
        del task, base_url, model, folder
        self.do(image.place(image.workdir))
        return Attempt(self.answer, "completed")


def has_bubblewrap() -> bool:
    """Whether a sandbox can be made here."""
    try:
        return sandbox.run(["/bin/true"], sandbox.Mounts(), "/", {}, 20).code == 0
    except sandbox.SandboxError:
        return False
