"""Our own tasks: a right solution is solved, and nothing done is not."""

import hashlib
import json
from pathlib import Path

import pytest

from evals import agents, proxy, runner, suite
from evals.harbor import tasks_in
from evals.suite import grade
from evals.suite.task import Task, export
from tests.evals.made_task import has_bubblewrap

ALL = (*suite.HELD_IN, *suite.HELD_OUT)
NOWHERE = proxy.Endpoint("http://127.0.0.1:9/v1", "none")


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    folder.mkdir(exist_ok=True)
    return folder


def problems(task: Task, folder: Path, files: dict[str, str], answer: str) -> list[str]:
    [exported] = export([task], folder / "task")
    expected = json.loads((exported / "tests" / "expected.json").read_text("utf-8"))
    return grade.problems(written(folder / "workspace", files), expected, answer)


def test_a_solution_is_solved_and_nothing_done_is_not(tmp_path: Path) -> None:
    for task in ALL:
        if task.values:  # code runs: in a sandbox, below
            continue
        right = task.solved_files
        assert problems(task, tmp_path / task.name / "1", right, task.answer) == [], task.name
        assert problems(task, tmp_path / task.name / "2", task.files, "Done."), task.name
        assert problems(task, tmp_path / task.name / "3", right | {"another.txt": ""}, task.answer), task.name


def test_there_are_five_kinds_in_two_languages_and_a_third_is_held_out() -> None:
    assert len({task.name for task in ALL}) == len(ALL) >= 60
    assert 3 * len(suite.HELD_OUT) >= len(ALL)
    assert {task.kind for task in ALL} >= {"debug", "long", "behaviour", "edit two files", "find a definition"}
    assert sum(task.language == "ru" for task in ALL) >= 12


def test_the_held_out_tasks_are_those_of_the_committed_hashes() -> None:
    folder = Path(grade.__file__).parent
    listed = dict(reversed(line.split()) for line in (folder / "held_out.sha256").read_text("utf-8").splitlines())
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("held_out*.py")}
    assert listed == files


def outcomes(folder: Path, tasks: tuple[Task, ...]) -> dict[str, set[str]]:
    """The names of the solved tasks by agent."""
    export(tasks, folder / "tasks")
    jobs = [
        runner.Job(agent.name, agent, task, 0)
        for agent in (agents.Oracle(), agents.Idle())
        for task in tasks_in(folder / "tasks")
    ]
    runner.run(jobs, NOWHERE, folder / "out", parallel=2, say=lambda _: None)
    runs = runner.read(folder / "out")
    assert [run["error"] for run in runs if run["error"]] == []
    return {
        agent: {run["task"] for run in runs if run["solved"] and run["label"] == agent} for agent in ("oracle", "idle")
    }


@pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")
def test_some_whose_code_is_run_in_the_sandbox(tmp_path: Path) -> None:
    """`test_scripted.py` has ten of the others in every run, with the system between."""
    some = tuple(task for task in ALL if task.values)[:3]
    assert outcomes(tmp_path, some) == {"oracle": {task.name for task in some}, "idle": set()}


@pytest.mark.deep
@pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")
def test_all_of_them_in_the_sandbox(tmp_path: Path) -> None:
    assert outcomes(tmp_path, ALL) == {"oracle": {task.name for task in ALL}, "idle": set()}
