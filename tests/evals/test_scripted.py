"""Scripted models through the gateway and the client's executor, on our own tasks.

One that knows each solution solves all: so no failure of a real model is the harness's or the loop's. A careless one
fails where it should. A clumsy one makes a mistake first, and what the loop tells it lets it go on: how often?
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud

from evals import agents, proxy, runner, suite
from evals.harbor import tasks_in
from evals.suite.task import Task, export
from tests.evals.made_task import has_bubblewrap
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel

pytestmark = pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap cannot be used here")

Script = Callable[[Task], list[Says]]


def solving(task: Task) -> list[dict[str, Any]]:
    """The calls of a right solution."""
    after = task.solved_files
    return [call("write_file", path=name, content=text) for name, text in after.items() if task.files.get(name) != text]


def oracle(task: Task) -> list[Says]:
    calls = solving(task)
    reads = [call("read_file", path=made["path"]) for made in calls if made["path"] in task.files]
    steps = [Says("I look first.", reads)] * bool(reads) + [Says("I will do it.", calls)] * bool(calls)
    return [*steps, Says(task.answer)]


def careless(task: Task) -> list[Says]:
    """Says what it would do, and does the first half of it."""
    calls = solving(task)
    done = [Says("I will do it.", calls[: len(calls) // 2])] if len(calls) > 1 else []
    return [*done, Says("All is done, and all tests pass.")]


def clumsy(first: Callable[[Task], list[Says]]) -> Script:
    """One that makes a mistake, and then does what is right."""
    return lambda task: [*first(task), *oracle(task)]


def _first_path(task: Task) -> str:
    return next(iter(task.files))


def invalid(first: Callable[[Task], Says]) -> Script:
    """One whose first answer the Request refuses, and who gives a right one when it is told why."""

    def script(task: Task) -> list[Says]:
        begin, *rest = oracle(task)
        return [replace(first(task), repaired=begin), *rest]

    return script


def indented_otherwise(task: Task, path: str) -> dict[str, Any]:
    """The change of one file as an edit whose lines all have two spaces too many; a new file is written."""
    before, after = task.files.get(path, "").splitlines(), task.solved_files[path].splitlines()
    if path not in task.files:
        return call("write_file", path=path, content=task.solved_files[path])
    same = [one == other for one, other in zip(before, after, strict=False)] + [False]
    first = same.index(False)
    after_last = 0
    while before[-1 - after_last] == after[-1 - after_last] and after_last < min(len(before), len(after)) - first - 1:
        after_last += 1

    def block(lines: list[str]) -> str:
        return "\n".join(f"  {line}" if line else line for line in lines[first : len(lines) - after_last])

    return call("edit_file", path=path, edits=[{"old": block(before), "new": block(after)}])


#: What models were seen to do first.
CLUMSY: dict[str, Script] = {
    "a tool that does not exist": invalid(lambda task: Says("", [call("open_file", path=_first_path(task))])),
    "an argument that is missing": invalid(lambda task: Says("", [call("read_file")])),
    "no JSON": invalid(lambda task: Says(raw="I will look at the files first.")),
    "a path that does not exist": clumsy(lambda task: [Says("", [call("read_file", path=f"src/{_first_path(task)}")])]),
    "a path outside": clumsy(lambda task: [Says("", [call("read_file", path="/etc/passwd")])]),
    "an edit of text that is not there": clumsy(
        lambda task: [
            Says("", [call("edit_file", path=_first_path(task), edits=[{"old": "no such text", "new": "x"}])])
        ]
    ),
    "an edit that is indented otherwise": lambda task: [
        *([Says("", [indented_otherwise(task, made["path"]) for made in solving(task)])] if solving(task) else []),
        Says(task.answer),
    ],
    "the same call three times": clumsy(lambda task: [Says("", [call("read_file", path=_first_path(task))])] * 3),
    "announces only": clumsy(lambda task: [Says("First I will look at the files.")]),
}


def planning(task: Task) -> list[Says]:
    """Proposes a plan, and does what is right when it is accepted."""
    return [Says("", [call("propose_plan", steps=["Look", "Do it"])]), *oracle(task)]


def solved(
    cloud: LocalCloud,
    model: ScriptedModel,
    tasks: Iterable[Task],
    script: Script,
    folder: Path,
    label: str,
    *,
    plans: bool = False,
) -> dict[str, dict[str, Any]]:
    """The runs by task."""
    named = []
    for task in tasks:
        marker = model.script(f"{label}-{task.name}".replace(" ", "-"), *script(task))
        named.append(Task(**{**vars(task), "message": f"{task.message} {marker}"}))
    export(named, folder / "tasks")
    agent = agents.Codelab(url=cloud.http.replace("http:", "ws:"), plans=plans)
    jobs = [runner.Job(label, agent, task, 0) for task in tasks_in(folder / "tasks")]
    runner.run(
        jobs, proxy.Endpoint("http://127.0.0.1:9/v1", "scripted"), folder / "out", say=lambda _: None, parallel=2
    )
    runs = {run["task"]: run for run in runner.read(folder / "out")}
    assert [run["error"] for run in runs.values() if run["error"]] == []
    return runs


ALL = (*suite.HELD_IN, *suite.HELD_OUT)
TEN = tuple(task for task in suite.HELD_IN if task.name in suite.SMOKE)


def test_some_are_solved_by_whoever_knows_the_solution(cloud: LocalCloud, model: ScriptedModel, tmp_path: Path) -> None:
    runs = solved(cloud, model, TEN[::3], oracle, tmp_path, "oracle")
    assert len(runs) == 4
    assert {name: run["grader"] for name, run in runs.items() if not run["solved"]} == {}


def test_a_plan_is_accepted_before_anything_is_changed(cloud: LocalCloud, model: ScriptedModel, tmp_path: Path) -> None:
    task = next(task for task in TEN if solving(task))
    (run,) = solved(cloud, model, [task], planning, tmp_path, "plan", plans=True).values()
    assert run["solved"], run["grader"]
    assert next(iter(run["calls"])) == "propose_plan"


@pytest.mark.deep
def test_all_are_solved_by_whoever_knows_the_solution(cloud: LocalCloud, model: ScriptedModel, tmp_path: Path) -> None:
    runs = solved(cloud, model, ALL, oracle, tmp_path, "oracle")
    assert {name: run["grader"] for name, run in runs.items() if not run["solved"]} == {}
    sys.stdout.write(f"\noracle: {len(runs)} of {len(runs)} solved")


@pytest.mark.deep
def test_who_only_says_so_solves_nothing(cloud: LocalCloud, model: ScriptedModel, tmp_path: Path) -> None:
    runs = solved(cloud, model, ALL, careless, tmp_path, "careless")
    assert {name for name, run in runs.items() if run["solved"]} == set()
    sys.stdout.write(f"\ncareless: 0 of {len(runs)} solved")


@pytest.mark.deep
def test_how_much_clumsiness_is_turned_around(cloud: LocalCloud, model: ScriptedModel, tmp_path: Path) -> None:
    told = {}
    for number, (mistake, script) in enumerate(CLUMSY.items()):
        runs = solved(cloud, model, TEN, script, tmp_path / str(number), f"clumsy {number}")
        told[mistake] = sum(run["solved"] for run in runs.values())
    sys.stdout.write(
        "\n" + "\n".join(f"clumsy, {mistake}: {count} of {len(TEN)} solved" for mistake, count in told.items())
    )
    lost = {mistake for mistake, count in told.items() if count < len(TEN)}
    assert lost == {"announces only"}, told
