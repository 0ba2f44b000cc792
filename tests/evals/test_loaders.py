"""Tasks of others: Aider's exercises, SWE-bench's instances, single edits; what is graded, and what is left out."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evals import grading, harbor, image, loaders, sandbox, tools
from evals.__main__ import main
from evals.loaders import LeftOut
from tests.evals.made_task import CALC, has_bubblewrap

sandboxed = pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")
RIGHT = "def add(a, b):\n    return a + b\n"
UNITTEST = """import unittest
from calc import add

class CalcTest(unittest.TestCase):
    def test_small(self):
        self.assertEqual(add(2, 3), 5)

    def test_nothing(self):
        self.assertEqual(add(0, 0), 0)
"""


@pytest.fixture(scope="module")
def pytest_there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `tools.made` makes, without a registry: pytest and what it needs, from this environment.

    Compiled once for the sandbox's Python, which is perhaps another one: a grader may not write what it compiles.
    """
    folder = tmp_path_factory.mktemp("tools")
    (folder / "bin").mkdir()
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, folder / "packages" / name)
    shutil.copy(Path(pytest.__file__).parent.parent / "py.py", folder / "packages")
    if has_bubblewrap():
        packages = [f"/packages/{name}" for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging")]
        mounts = sandbox.Mounts(writable={"/packages": folder / "packages"})
        sandbox.run(["python3", "-m", "compileall", "-q", *packages], mounts, "/", {}, 60)
    return folder


def exercise(checkout: Path, name: str = "calc", **config: Any) -> Path:
    """An exercise in the form of Aider's."""
    source = checkout / "python" / "exercises" / "practice" / name
    files = {
        ".meta/config.json": json.dumps(
            {"files": {"solution": ["calc.py"], "test": ["calc_test.py"], "example": [".meta/example.py"]}} | config
        ),
        ".meta/example.py": RIGHT,
        ".docs/instructions.md": "# Instructions\n\nAdd.\n",
        ".docs/instructions.append.md": "Numbers only.\n",
        "calc.py": CALC,
        "calc_test.py": UNITTEST,
    }
    for path, text in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)
    return source


def graded(folder: Path, tmp_path: Path, installed: Path | None = None, **files: str) -> grading.Grade:
    """The grade of a task in whose workspace an agent left these files."""
    task = harbor.load(folder)
    (tmp_path / "root").mkdir()
    original = image.build(task, tmp_path / "root")
    work = original.copy(tmp_path / "work")
    for name, text in files.items():
        (work.place("/app") / name).write_text(text)
    (tmp_path / "grading").mkdir()
    return grading.grade(task, original, work.root, "Done.", tmp_path / "grading", installed)


def test_an_exercise_is_told_without_its_tests(tmp_path: Path) -> None:
    exercise(tmp_path / "set")
    [made] = loaders.polyglot(tmp_path / "set", tmp_path / "tasks")
    assert isinstance(made, Path)
    task = harbor.load(made)
    assert task.name == "python-calc"
    assert ["Add." in task.instruction, "Numbers only." in task.instruction] == [True, True]
    assert [path.name for path in (made / "environment" / "files").iterdir()] == ["calc.py"]
    assert (made / "solution" / "files" / "calc.py").read_text() == RIGHT


#: What an agent leaves in an exercise, and its reward.
LEFT = {
    "the solution": ({"calc.py": RIGHT}, 1),
    "nothing": ({}, 0),
    "half": ({"calc.py": "def add(a, b):\n    return 0\n"}, 0),
    "an end of the program": ({"calc.py": "import os\nos._exit(0)\n"}, 0),
    "a polite end": ({"calc.py": "raise SystemExit(0)\n"}, 0),
    "a text": ({"calc.py": "print('2 passed')\nimport sys\nsys.exit(0)\n"}, 0),
    "other tests": ({"calc_test.py": "def test_all():\n    pass\n"}, 0),
    "no tests": ({"calc.py": "import sys\nsys.modules['unittest'].TestCase = object\n" + CALC}, 0),
    "a configuration": ({"pytest.ini": "[pytest]\npython_files = none\n"}, 0),
    "a process that goes on": (
        {
            "calc.py": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n"
            "        open('/logs/verifier/reward.txt', 'w').write('1')\n        time.sleep(0.01)\n" + CALC
        },
        0,
    ),
}


#: The other ways to fail cost a sandbox each.
SHORT = ("the solution", "a configuration")


@sandboxed
@pytest.mark.parametrize("left", [it if it in SHORT else pytest.param(it, marks=pytest.mark.deep) for it in LEFT])
def test_an_exercise_is_graded_by_its_own_tests(left: str, tmp_path: Path, pytest_there: Path) -> None:
    exercise(tmp_path / "set")
    [made] = loaders.polyglot(tmp_path / "set", tmp_path / "tasks")
    assert isinstance(made, Path)
    files, reward = LEFT[left]
    found = graded(made, tmp_path, pytest_there, **files)
    assert found.reward == reward, found.output


SPEC = """import { add } from './calc';

describe('add', () => {
  test('small', () => {
    expect(add(2, 3)).toEqual(5);
  });

  xtest('nothing', () => {
    expect(add(0, 0)).toEqual(0);
  });
});
"""
STUB = "export const add = (a, b) => {\n  throw new Error('Write it');\n};\n"
SOLVED = "export const add = (a, b) => a + b;\n"
#: What an agent leaves in an exercise in JavaScript, and its reward.
LEFT_IN_JAVASCRIPT = {
    "the solution": ({"calc.js": SOLVED}, 1),
    "nothing": ({}, 0),
    "half, of which the tests run only one at first": ({"calc.js": "export const add = () => 5;\n"}, 0),
    "an end of the program": ({"calc.js": "process.exit(0);\n" + SOLVED}, 0),
    "a text": ({"calc.js": "console.log('2 passed');\n" + STUB}, 0),
    "other tests": ({"calc.spec.js": "test('all', () => {});\n"}, 0),
    "no tests": ({"calc.js": "globalThis.test = globalThis.xtest = () => {};\n" + STUB}, 0),
    "a kind expectation": (
        {"calc.js": "const kind = { toEqual() {} };\nglobalThis.expect = () => kind;\n" + STUB.replace("throw", "//")},
        0,
    ),
    "a configuration": ({"vitest.config.mjs": "export default { test: { include: [], passWithNoTests: true } };\n"}, 0),
}


@pytest.fixture(scope="module")
def vitest_there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    installed = tools.made(tmp_path_factory.mktemp("tools") / "tools", with_vitest=True)
    if installed is None:
        pytest.skip("vitest cannot be installed from the registry")
    return installed


def javascript_exercise(checkout: Path) -> None:
    source = checkout / "javascript" / "exercises" / "practice" / "calc"
    parts = {"solution": ["calc.js"], "test": ["calc.spec.js"], "example": [".meta/proof.ci.js"]}
    files = {
        ".meta/config.json": json.dumps({"files": parts}),
        ".meta/proof.ci.js": SOLVED,
        ".docs/instructions.md": "# Instructions\n\nAdd.\n",
        "calc.js": STUB,
        "calc.spec.js": SPEC,
    }
    for path, text in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)


@pytest.mark.deep
@sandboxed
@pytest.mark.parametrize("left", LEFT_IN_JAVASCRIPT)
def test_an_exercise_in_javascript_is_graded_by_its_own_tests(left: str, tmp_path: Path, vitest_there: Path) -> None:
    javascript_exercise(tmp_path / "set")
    [made] = loaders.polyglot(tmp_path / "set", tmp_path / "tasks")
    assert isinstance(made, Path)
    assert made.name == "javascript-calc"
    files, reward = LEFT_IN_JAVASCRIPT[left]
    found = graded(made, tmp_path, vitest_there, **files)
    assert found.reward == reward, found.output


def test_an_exercise_without_its_files_is_left_out(tmp_path: Path) -> None:
    exercise(tmp_path / "set")
    (exercise(tmp_path / "set", "lost") / "calc_test.py").unlink()
    exercise(tmp_path / "set", "odd", files={})
    found = {each.name: each for each in loaders.polyglot(tmp_path / "set", tmp_path / "tasks")}
    assert {name for name, each in found.items() if isinstance(each, LeftOut)} == {"python-lost", "python-odd"}


EDIT = {
    "id": 7,
    "name": "add",
    "full_name": "7_Add",
    "before": CALC,
    "after": RIGHT,
    "instruction_lazy": "fix add",
    "instruction_descriptive": "Correct the function `add`, which subtracts.",
}
ASSERTS = "assert add(2, 3) == 5\nassert add(0, 0) == 0\n"


def edits(tmp_path: Path, *lines: Any) -> Path:
    """A file with these lines."""
    (tmp_path / "edits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "edits.jsonl"


@pytest.mark.parametrize(("lazy", "words"), [(False, "which subtracts"), (True, "fix add")])
def test_an_edit_is_told_in_words(lazy: bool, words: str, tmp_path: Path) -> None:
    [made] = loaders.single_edits(edits(tmp_path, EDIT), tmp_path / "tasks", lazy=lazy)
    assert isinstance(made, Path)
    assert made.name == "7_add"
    assert words in harbor.load(made).instruction


@sandboxed
@pytest.mark.parametrize("tests", ["", ASSERTS])
@pytest.mark.parametrize(
    ("text", "reward"), [(RIGHT, 1), (CALC, 0), ("raise SystemExit(0)\n", 0), ("import os\nos._exit(0)\n", 0)]
)
def test_an_edit_is_graded(tests: str, text: str, reward: int, tmp_path: Path) -> None:
    [made] = loaders.single_edits(edits(tmp_path, EDIT | {"tests": tests}), tmp_path / "tasks")
    assert isinstance(made, Path)
    found = graded(made, tmp_path, **{"main.py": text})
    assert found.reward == reward, found.output


@sandboxed
def test_an_edit_with_tests_may_have_another_text(tmp_path: Path) -> None:
    [made] = loaders.single_edits(edits(tmp_path, EDIT | {"tests": ASSERTS}), tmp_path / "tasks")
    assert isinstance(made, Path)
    assert graded(made, tmp_path, **{"main.py": "add = lambda a, b: b + a\n"}).reward == 1


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """A folder with a clone of `us/calc`, in which `add` subtracts."""
    clone = tmp_path / "clones" / "us__calc"
    (clone / "tests").mkdir(parents=True)
    (clone / "calc.py").write_text(CALC)
    (clone / "tests" / "test_calc.py").write_text(
        "from calc import add\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
    )
    for line in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(clone), *line], check=True)
    return clone.parent


def instance(clones: Path, **others: Any) -> dict[str, Any]:
    """An instance in SWE-bench's form."""
    clone = clones / "us__calc"

    def patch(path: str, text: str) -> str:
        before = (clone / path).read_text()
        (clone / path).write_text(text)
        made = subprocess.run(["git", "-C", str(clone), "diff"], check=True, capture_output=True, text=True).stdout
        (clone / path).write_text(before)
        return made

    before = (clone / "tests" / "test_calc.py").read_text()
    tests = before + "\ndef test_add():\n    assert add(2, 3) == 5\n"
    commit = subprocess.run(
        ["git", "-C", str(clone), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout
    return {
        "instance_id": "us__calc-1",
        "repo": "us/calc",
        "base_commit": commit.strip(),
        "problem_statement": "add(2, 3) is -1.",
        "patch": patch("calc.py", RIGHT),
        "test_patch": patch("tests/test_calc.py", tests),
        "FAIL_TO_PASS": '["tests/test_calc.py::test_add"]',
        "PASS_TO_PASS": ["tests/test_calc.py::test_zero"],
        **others,
    }


@sandboxed
@pytest.mark.parametrize(
    ("files", "reward"),
    [
        ({"calc.py": RIGHT}, 1),
        ({}, 0),
        pytest.param({"calc.py": "def add(a, b):\n    return 5\n"}, 0, marks=pytest.mark.deep),
        ({"tests/test_calc.py": "def test_add():\n    pass\n\ndef test_zero():\n    pass\n"}, 0),
    ],
)
def test_an_instance_is_graded(
    files: dict[str, str], reward: int, clones: Path, tmp_path: Path, pytest_there: Path
) -> None:
    [made] = loaders.swe_bench(edits(tmp_path, instance(clones)), clones, tmp_path / "tasks")
    assert isinstance(made, Path), made
    assert harbor.load(made).instruction == "add(2, 3) is -1."
    assert not (made / "environment" / "files" / ".git").exists()
    found = graded(made, tmp_path, pytest_there, **files)
    assert found.reward == reward, found.output


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"repo": "us/other"}, "no clone of us/other"),
        ({"base_commit": "--output=/tmp/x"}, "is no commit"),
        ({"base_commit": "0" * 40}, "not a tree object|not a valid object"),
        ({"patch": "no patch"}, "No valid patches"),
        ({"FAIL_TO_PASS": '["test_add (tests.Calc)"]'}, "no name of pytest's"),
        ({"FAIL_TO_PASS": "3"}, "no list"),
    ],
)
def test_an_instance_that_cannot_be_graded_is_left_out(
    others: dict[str, Any], why: str, clones: Path, tmp_path: Path
) -> None:
    [left] = loaders.swe_bench(edits(tmp_path, instance(clones, **others)), clones, tmp_path / "tasks")
    assert isinstance(left, LeftOut)
    assert left.name == "us__calc-1"
    assert any(word in left.why for word in why.split("|")), left.why


def test_the_command_says_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = edits(tmp_path, EDIT, EDIT | {"full_name": "8_same", "after": CALC})
    assert main(["load", "edits", str(lines), str(tmp_path / "tasks")]) == 0
    assert capsys.readouterr().out.split("\n")[:2] == [
        "left out: 8_same: ValueError('nothing changes')",
        f"1 tasks in {tmp_path / 'tasks'}: --tasks {tmp_path / 'tasks'}",
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["polyglot", "nowhere"], "has no exercises/practice of Python or JavaScript"),
        (["edits", "nowhere.jsonl"], "No such file"),
        (["edits", "bad.jsonl"], "line 2: Expecting property name"),
        (["edits", "list.jsonl"], "line 1 is no object"),
        (["swe-bench", "bad.jsonl"], "needs --repositories"),
    ],
)
def test_what_cannot_be_read_is_told(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.jsonl").write_text(json.dumps(EDIT) + "\n{\n")
    (tmp_path / "list.jsonl").write_text("[]\n")
    assert main(["load", words[0], str(tmp_path / words[1]), str(tmp_path / "tasks")]) == 2
    assert why in capsys.readouterr().err
