"""The graders of the real tasks: a right solution passes, an untouched workspace does not."""

import hashlib
from pathlib import Path

import pytest

from benchmarks.real_tasks import held_in, held_out
from benchmarks.real_tasks.task import Task

ALL = held_in.TASKS + held_out.TASKS
FOLDER = Path(held_out.__file__).parent


def _solution(task: Task) -> dict[str, str]:
    return task.files | {name: texts[0] for name, texts in task.expected.items()}


def test_there_are_36_tasks_and_a_third_is_held_out() -> None:
    assert len({task.name for task in ALL}) == len(ALL) == 36
    assert len(held_out.TASKS) == 12


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_a_solution_passes_and_nothing_done_does_not(task: Task) -> None:
    assert task.solved(_solution(task), task.answer)
    assert not task.solved(task.files, "")
    assert not task.solved(task.files, "Done.")
    assert not task.solved(_solution(task) | {"another.txt": ""}, task.answer)


def test_the_held_out_tasks_are_those_of_the_committed_hash() -> None:
    digest = hashlib.sha256((FOLDER / "held_out.py").read_bytes()).hexdigest()
    assert (FOLDER / "held_out.sha256").read_text(encoding="utf-8").split()[0] == digest
