"""`--strategies`: the same agent once with each way to ask the model, task by task, and what the report says of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals import agents, report, runner
from tests.evals.command import run
from tests.evals.test_report import line


def rows_of(job: runner.Job) -> Any:
    assert isinstance(job.agent, agents.Codelab)
    return json.loads(job.agent.settings["LLM_CAPABILITIES"])


def test_each_task_is_made_with_each_strategy_before_the_next(jobs: list[runner.Job], tmp_path: Path) -> None:
    run(tmp_path, "--strategies", "default,calls", "--label", "new", "--agents", "codelab,idle")
    made = [(job.task.name, job.label) for job in jobs]
    tasks = list(dict.fromkeys(task for task, _ in made))
    assert len(tasks) == 2
    assert made == [(task, label) for task in tasks for label in ("new default", "new calls", "idle")]


def test_only_the_strategy_of_the_models_row_changes(jobs: list[runner.Job], tmp_path: Path) -> None:
    given = {"m": {"window": 9000, "strategy": "json"}, "other": {"images": True}}
    run(tmp_path, "--strategies", "default,calls", "--set", f"LLM_CAPABILITIES={json.dumps(given)}")
    default, calls, *_ = map(rows_of, jobs)
    assert default == {"m": {"window": 9000}, "other": {"images": True}}
    assert calls == {"m": {"window": 9000, "strategy": "calls"}, "other": {"images": True}}


def test_a_strategy_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path, "--strategies", "calls,xml")
    assert "there is no strategy xml" in capsys.readouterr().err


def test_the_report_says_which_calls_and_which_answers_fitted() -> None:
    runs = [
        line("native", "a", True, calls={"edit_file": 2, "read_file": 1}, repairs=1, invalid_answers=1),
        line("native", "b", False, calls={}, end="error", problem="length", invalid_answers=0),
        line("json", "a", False, calls={}, end="error", problem="invalid_answer", repairs=2, invalid_answers=3),
        line("json", "b", False, calls={}, end="completed", problem="transport", invalid_answers=0),
    ]
    told = [
        tuple(cell.strip() for cell in row.split("|")[1:-1])
        for row in report.markdown(report.summary(runs)).splitlines()
    ]
    assert ("calls", "3", "0") in told
    assert ("invalid answers", "1", "3") in told
    assert ("repairs", "1", "2") in told
    assert ("error: length", "1", "0") in told
    assert ("error: invalid_answer", "0", "1") in told
    assert not any("error: transport" in row for row in told), "the turn went on behind it"


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ({"error_code": "LLM_ERROR", "details": {"reason": "invalid_answer"}}, "invalid_answer"),
        ({"error_code": "CONTEXT_TOO_LARGE", "details": None}, "CONTEXT_TOO_LARGE"),
    ],
)
def test_what_ended_an_attempt_is_kept(frame: dict[str, Any], problem: str) -> None:
    attempt = agents.attempt_of(
        "Do it.", [{"type": "error", "message": "x", **frame}, {"type": "turn_end", "reason": "error"}]
    )
    assert (attempt.end, attempt.problem) == ("error", problem)
