"""Tasks in Harbor's format: what is read, what is made of a Dockerfile, and what is refused with a word."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evals import image, suite
from evals.harbor import TaskError, load, tasks_in
from evals.suite import held_in, task
from tests.evals.made_task import has_bubblewrap, made

sandboxed = pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")


def test_a_task_is_read(tmp_path: Path) -> None:
    canary = "<!-- BENCHMARK DATA: canary 123 -->\n# another CANARY line\n\nCorrect calc.py.\n"
    found = made(tmp_path / "fix-calc", **{"instruction.md": canary})
    assert (found.name, found.instruction) == ("fix-calc", "Correct calc.py.")
    assert (found.agent_timeout_s, found.verifier_timeout_s) == (600, 60)
    assert found.metadata == {"kind": "debug"}
    assert [each.name for each in tasks_in(tmp_path)] == ["fix-calc"]
    assert [each.name for each in tasks_in(tmp_path / "fix-calc")] == ["fix-calc"]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"task.toml": "[[steps]]\nname = 'one'\n"}, "several steps"),
        ({"task.toml": "[environment]\nos = 'windows'\n"}, "Windows"),
        ({"task.toml": "agent = 3\n"}, r"\[agent\] of task.toml is no table"),
        ({"task.toml": "= 3\n"}, "Invalid"),
        ({"environment/docker-compose.yaml": "services: {}\n"}, "several containers"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_word(files: dict[str, str], why: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=why):
        made(tmp_path / "odd", **files)


@pytest.mark.parametrize("missing", ["task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh"])
def test_what_is_missing_is_named(missing: str, tmp_path: Path) -> None:
    made(tmp_path / "odd")
    (tmp_path / "odd" / missing).unlink()
    with pytest.raises(TaskError, match=missing.rsplit("/", 1)[-1]):
        load(tmp_path / "odd")


def test_a_folder_without_tasks_is_told(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no task\.toml"):
        list(tasks_in(tmp_path))


@sandboxed
def test_what_a_dockerfile_makes(tmp_path: Path) -> None:
    dockerfile = """FROM ubuntu:24.04 AS base
# a comment
ARG NAME=world
ENV GREETING="hello ${NAME}" LEVEL=3
RUN apt-get update && apt-get install -y \\
    curl && rm -rf /var/lib/apt/lists/*
WORKDIR /srv/app
COPY files/calc.py files/tests/test_calc.py src/
COPY --chown=nobody files /data
COPY files/calc.py ./main.py
RUN echo "$GREETING" > greeting.txt && mkdir -p empty
CMD ["bash"]
"""
    found = image.build(made(tmp_path / "task", **{"environment/Dockerfile": dockerfile}), _empty(tmp_path / "root"))
    files = {path.relative_to(found.root).as_posix() for path in found.root.rglob("*") if path.is_file()}
    app = {f"srv/app/{name}" for name in ("src/calc.py", "src/test_calc.py", "main.py", "greeting.txt")}
    assert files == app | {"data/calc.py", "data/tests/test_calc.py"}
    assert found.place("/srv/app/greeting.txt").read_text() == "hello world\n"
    assert (found.workdir, found.environment) == ("/srv/app", {"GREETING": "hello world", "LEVEL": "3"})
    assert any(note.startswith("not installed: apt-get update") for note in found.notes)


@pytest.mark.parametrize(
    ("dockerfile", "why"),
    [
        ("FROM a\nCOPY missing /app\n", "copies missing, which is not in environment/"),
        ("FROM a\nCOPY ../task.toml /app/\n", "copies ../task.toml, which is not in environment/"),
        ("FROM a\nCOPY files /etc/app\n", "files in /etc/app are the machine's own"),
        ("FROM a\nWORKDIR /usr/src/app\n", "files in /usr/src/app are the machine's own"),
        ("FROM a AS one\nFROM b\n", "several stages"),
        ("FROM a\nONBUILD RUN x\n", "ONBUILD in its Dockerfile is not supported"),
        ("FROM a\nRUN <<END\necho\nEND\n", "this line of its Dockerfile is not supported"),
    ],
)
def test_a_dockerfile_that_takes_docker_is_refused_with_a_word(dockerfile: str, why: str, tmp_path: Path) -> None:
    odd = made(tmp_path / "odd", **{"environment/Dockerfile": dockerfile})
    with pytest.raises(TaskError, match=why):
        image.build(odd, _empty(tmp_path / "root"))


@sandboxed
def test_a_command_of_a_dockerfile_that_fails_is_told(tmp_path: Path) -> None:
    odd = made(tmp_path / "odd", **{"environment/Dockerfile": "FROM a\nWORKDIR /app\nRUN echo no && false\n"})
    with pytest.raises(TaskError, match="RUN echo no && false failed without Docker: no"):
        image.build(odd, _empty(tmp_path / "root"))


def test_ours_are_written_out_whole(tmp_path: Path) -> None:
    folders = suite.export_all(tmp_path)
    assert len(folders) == len({folder.name for folder in folders}) >= 60
    found = {each.name: each for each in tasks_in(tmp_path)}
    assert {each.metadata["language"] for each in found.values()} == {"en", "ru"}
    out = [each for each in found.values() if each.metadata["held_out"]]
    assert {each.name for each in out} == {each.name for each in suite.HELD_OUT}
    assert set(suite.SMOKE) <= found.keys()
    assert len(suite.SMOKE) == 10


@pytest.mark.deep
def test_ours_validate_with_harbors_own_package(tmp_path: Path) -> None:
    """In an environment of its own, because it brings some 200 packages."""
    uv = shutil.which("uv") or str(Path(__file__).parents[2] / ".uv/bin/uv")
    suite.export_all(tmp_path / "tasks")
    program = (
        "import sys; from pathlib import Path; from harbor.models.task.task import Task\n"
        "names = [Task(folder).name for folder in sorted(Path(sys.argv[1]).iterdir()) if Task.is_valid_dir(folder)]\n"
        "import json; print(json.dumps(names))"
    )
    line = [
        uv,
        "run",
        "--no-project",
        "--quiet",
        "--python",
        "3.13",
        "--with",
        "harbor==0.25.0",
        "python",
        "-c",
        program,
    ]
    done = subprocess.run([*line, str(tmp_path / "tasks")], capture_output=True, text=True, check=False)
    if "No solution found" in done.stderr or "Failed to fetch" in done.stderr or "No interpreter" in done.stderr:
        pytest.skip("harbor cannot be installed here")
    assert done.returncode == 0, done.stderr
    names = json.loads(done.stdout.splitlines()[-1])
    assert sorted(names) == sorted(f"codelab/{each.name}" for each in (*suite.HELD_IN, *suite.HELD_OUT))


def test_what_is_exported_does_not_depend_on_this_project(tmp_path: Path) -> None:
    """The grader that goes along needs nothing but Python."""
    [folder] = task.export(held_in.TASKS[:1], tmp_path)
    line = [sys.executable, "-I", "-c", "import sys, runpy; runpy.run_path(sys.argv[1])"]
    assert subprocess.run([*line, str(folder / "tests" / "grade.py")], check=False).returncode == 0


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder
