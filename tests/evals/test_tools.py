"""Tasks that we did not write: Harbor's own template, unchanged, whose grader installs what it needs."""

import shutil
import subprocess
from pathlib import Path

import pytest

from evals import grading, image, tools
from evals.harbor import load
from tests.evals.made_task import has_bubblewrap, made

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here"),
]
UV = shutil.which("uv") or str(Path(__file__).parents[2] / ".uv/bin/uv")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tools.made(tmp_path_factory.mktemp("tools") / "tools")
    if found is None:
        pytest.skip("pytest cannot be installed from the registry")
    return found


def _grade(folder: Path, tmp_path: Path, installed: Path) -> grading.Grade:
    task = load(folder)
    for name in ("root", "grading"):
        (tmp_path / name).mkdir()
    original = image.build(task, tmp_path / "root")
    return grading.grade(task, original, original.root, "Done.", tmp_path / "grading", installed)


@pytest.mark.parametrize(("assertion", "reward"), [("True", 1), ("False", 0)])
def test_harbors_template_runs_unchanged(assertion: str, reward: int, tmp_path: Path, installed: Path) -> None:
    line = [
        UV,
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--python-version",
        "3.13",
        "--target",
        str(tmp_path / "package"),
    ]
    if subprocess.run([*line, "harbor==0.25.0"], check=False).returncode != 0:
        pytest.skip("harbor cannot be installed from the registry")
    template, folder = tmp_path / "package/harbor/cli/template-task", tmp_path / "task"
    for name in ("environment", "solution"):
        shutil.copytree(template / name, folder / name)
    shutil.copytree(template / "shared-pytest-tests", folder / "tests")
    shutil.copy(template / "task.toml", folder)
    (folder / "instruction.md").write_text("Do nothing.\n")
    (folder / "tests" / "test_outputs.py").write_text(f"def test_outputs():\n    assert {assertion}\n")
    found = _grade(folder, tmp_path, installed)
    assert found.reward == reward, found.output
    assert "1 passed" in found.output or "1 failed" in found.output


@pytest.mark.parametrize(
    "command",
    [
        "uvx -p 3.13 --with pytest==8.4.1 --with pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json",
        "python3 -m pytest",
        "pytest -q",
    ],
)
def test_the_ways_to_ask_for_pytest(command: str, tmp_path: Path, installed: Path) -> None:
    script = f'source "$HOME/.local/bin/env"\n{command} /tests/test_it.py && echo 1 > /logs/verifier/reward.txt\n'
    made(tmp_path / "task", **{"tests/test.sh": script, "tests/test_it.py": "def test_it():\n    pass\n"})
    found = _grade(tmp_path / "task", tmp_path, installed)
    assert found.reward == 1, found.output


def test_what_is_not_there_is_said(tmp_path: Path, installed: Path) -> None:
    made(tmp_path / "task", **{"tests/test.sh": "uvx ruff check\n"})
    found = _grade(tmp_path / "task", tmp_path, installed)
    assert (found.reward, "ruff cannot be had without a network" in found.output) == (None, True)
