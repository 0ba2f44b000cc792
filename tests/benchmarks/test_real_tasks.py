"""The graders of the real tasks: a right solution passes, an untouched workspace does not."""

import hashlib
import json
from pathlib import Path

import pytest
from codelab_client.policy import Policy

from benchmarks.real_tasks import held_in, held_out
from benchmarks.real_tasks.__main__ import read, report
from benchmarks.real_tasks.system import POLICY, summary
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


def test_the_policy_is_one_that_the_client_accepts(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    policy = Policy.load(tmp_path / "policy.toml")
    assert policy.allows("write_file", {"path": "a.py", "content": "x"})
    assert not policy.allows("run_command", {"command": "rm -rf ."})


def test_a_turn_is_summed_up_by_its_frames() -> None:
    call = {"type": "tool_call", "tool_name": "read_file", "arguments": {"path": "a"}}
    frames = [
        {"type": "assistant_message", "token": "I look."},
        *({**call, "call_id": name} for name in ("1", "2", "2")),
        {"type": "assistant_message", "token": "It is "},
        {"type": "assistant_message", "token": "7."},
        {"type": "turn_end", "reason": "completed", "usage": {"llm_calls": 3, "prompt_tokens": 9}},
    ]
    told = summary(frames)
    assert (told["answer"], told["end"], told["steps"], told["repeated"]) == ("It is 7.", "completed", 3, 1)
    assert told["calls"] == {"read_file": 2}


def test_runs_are_compared_by_task_and_a_line_that_was_cut_is_none(tmp_path: Path) -> None:
    lines = [
        json.dumps({"label": label, "task": str(n), "solved": n < most, "steps": 2, "end": "completed", "repeated": 0})
        for label, most in (("old", 2), ("new", 20))
        for n in range(24)
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join([*lines, '{"label": "new", "task": "24", "sol']))
    assert report(read(file)).split("\n") == [
        "old: 2/24 solved (2% to 26%), 2.0 steps, 0 at the step limit, at most 0 repeated calls",
        "new: 20/24 solved (64% to 93%), 2.0 steps, 0 at the step limit, at most 0 repeated calls",
        "old -> new: +75% (+58% to +92%), 24 pairs",
    ]
