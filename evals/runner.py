"""Runs agents on tasks, and keeps each attempt as a line of `runs.jsonl` with its trace beside it.

What the folder has already is skipped, so a run that was ended goes on where it was: an attempt counts once its line
is whole, and one that failed for the harness's reasons is made again. Sampling, tries and budgets are the same for
every agent.
"""

import json
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evals import agents, grading, image, proxy, rows, sandbox
from evals.harbor import Task, TaskError

_MOST_DIFF = 100_000
_MOST_GRADER = 10_000
#: Tools whose failure is a failed edit.
_EDITS = ("edit_file", "apply_patch", "write_file")
#: The problems of an attempt whose last answer did not fit its schema.
_INVALID = ("invalid_json", "invalid_answer")


@dataclass(frozen=True)
class Budget:
    """Where a run ends, whatever is left to do: tokens and US$ of all attempts, and minutes. None: no limit.

    prices: US$ of a million tokens of a prompt, of a prompt's cached part, of an answer, and of what is written to the
    cache.
    """

    tokens: int | None = None
    minutes: float | None = None
    dollars: float | None = None
    prices: tuple[float, float, float, float] | None = None

    def cost(self, spent: Mapping[str, Any]) -> float | None:
        """What an attempt has cost in US$, if the prices are known."""
        if self.prices is None:
            return None
        prompt, cached, answer, written = self.prices
        reads, writes = spent["cached_tokens"], spent["cache_write_tokens"]
        fresh = spent["prompt_tokens"] - reads - writes
        million = fresh * prompt + reads * cached + spent["completion_tokens"] * answer + writes * written
        return round(float(million) / 1e6, 6)

    def spent_by(self, runs: Iterable[Mapping[str, Any]], seconds: float) -> str:
        """Which limit is reached; empty if none is."""
        runs = list(runs)
        if self.minutes is not None and seconds >= 60 * self.minutes:
            return f"{self.minutes:g} minutes"
        if (
            self.tokens is not None
            and sum(run["prompt_tokens"] + run["completion_tokens"] for run in runs) >= self.tokens
        ):
            return f"{self.tokens:,} tokens"
        if self.dollars is not None and sum(run["cost"] or 0 for run in runs) >= self.dollars:
            return f"${self.dollars:g}"
        return ""


@dataclass(frozen=True)
class Job:
    """One attempt to make."""

    label: str
    agent: agents.Agent
    task: Task
    attempt: int


def read(folder: Path) -> list[dict[str, Any]]:
    """The attempts that a results folder has, of each the last line. A line that was cut is none."""
    return list({_key(run): run for run in rows.read(folder / "runs.jsonl")}.values())


def run(
    jobs: Sequence[Job],
    endpoint: proxy.Endpoint,
    folder: Path,
    *,
    seed: int | None = 0,
    parallel: int = 1,
    budget: Budget | None = None,
    installed: Path | None = None,
    say: Callable[[str], None] = print,
) -> str:
    """Make the attempts that `folder` does not have. Returns which limit of the budget ended it; empty if none did.

    seed: of the first attempts; the n-th of a task has one that is n higher. None: no seed is sent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _end_cut_line(folder / "runs.jsonl")
    runs = read(folder)
    have = {_key(run) for run in runs if not run["error"]}
    limits, began, lock = budget or Budget(), time.monotonic(), threading.Lock()
    over = ""

    def one(job: Job) -> None:
        nonlocal over
        with lock:
            over = over or limits.spent_by(runs, time.monotonic() - began)
        if over:
            return
        line = attempt(
            job, endpoint, folder, seed=None if seed is None else seed + job.attempt, budget=limits, installed=installed
        )
        with lock:
            runs.append(line)
            with (folder / "runs.jsonl").open("ab") as file:
                file.write(rows.text([line]))
            say(f"{job.label} {job.task.name} {job.attempt}: {_word(line)} ({line['seconds']:.0f} s)")

    with ThreadPoolExecutor(parallel) as pool:
        waiting = [pool.submit(one, job) for job in jobs if (job.label, job.task.name, job.attempt) not in have]
        try:
            for done in as_completed(waiting):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return over


def attempt(
    job: Job, endpoint: proxy.Endpoint, folder: Path, *, seed: int | None, budget: Budget, installed: Path | None = None
) -> dict[str, Any]:
    """Make one attempt in fresh folders: its line for `runs.jsonl`. Its trace is written before."""
    task = job.task
    sampled = {**endpoint.sampling, **({} if seed is None else {"seed": seed})}
    spent, began = proxy.Spent(), time.monotonic()
    line: dict[str, Any] = {
        "label": job.label,
        "agent": job.agent.name,
        "model": endpoint.model,
        "task": task.name,
        "kind": task.metadata.get("kind", ""),
        "language": task.metadata.get("language", "en"),
        "held_out": bool(task.metadata.get("held_out")),
        "attempt": job.attempt,
        "seed": seed,
        "variants": list(getattr(job.agent, "variants", ())),
    }
    made = agents.Attempt("", "error")
    grade: grading.Grade | None = None
    error, diff, notes = None, "", []
    temporary = Path(tempfile.mkdtemp(prefix="eval-"))
    try:
        original = image.build(task, _made(temporary / "original"))
        notes = original.notes
        work = original.copy(temporary / "work")
        with proxy.serving(replace(endpoint, sampling=sampled), spent, budget.tokens) as url:
            made = job.agent.run(task, work, url, endpoint.model, _made(temporary / "agent"))
        if spent.problem and (made.end == "error" or not spent.answered):
            raise agents.HarnessError(f"the model's server gave no answer: {spent.problem}")
        diff = grading.diff_text(grading.changes(original.root, work.root))
        grade = grading.grade(task, original, work.root, made.answer, _made(temporary / "grading"), installed)
        if grade.reward is None:
            error = f"the task's grader gave no reward: {grade.output[-300:]}"
    except (TaskError, sandbox.SandboxError, agents.HarnessError) as failed:
        error = str(failed)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    trace = f"traces/{job.label}/{task.name}-{job.attempt}.jsonl"
    _made((folder / trace).parent)
    (folder / trace).write_bytes(rows.text(made.events))
    names = ("requests", "prompt_tokens", "cached_tokens", "cache_write_tokens", "completion_tokens")
    counted = {name: getattr(spent, name) for name in names}
    reward = None if grade is None else grade.reward
    repairs = max(0, spent.requests - (made.steps or spent.requests))
    return {
        **line,
        "reward": reward,
        "solved": reward == 1,
        "end": made.end,
        "problem": made.problem,
        "error": error,
        "answer": made.answer,
        "seconds": round(time.monotonic() - began, 1),
        **counted,
        "cost": budget.cost(counted),
        "steps": made.steps,
        **_calls(made.events),
        "questions": made.questions,
        "repairs": repairs,
        "invalid_answers": repairs + (made.problem in _INVALID),
        "restored": list(grade.restored) if grade else [],
        "grader": grade.output[-_MOST_GRADER:] if grade else "",
        "diff": diff[:_MOST_DIFF],
        "notes": notes,
        "trace": trace,
    }


def _key(run: Mapping[str, Any]) -> tuple[str, str, int]:
    return run["label"], run["task"], run["attempt"]


def _calls(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a trace says of its calls."""
    tools: dict[str, str] = {}
    same: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for event in events:
        if event["kind"] == "call":
            tools[str(event.get("id"))] = str(event.get("tool"))
            same[json.dumps([event.get("tool"), event.get("arguments")], sort_keys=True)] += 1
        elif event["kind"] == "result" and not event.get("ok"):
            failed[tools.get(str(event.get("id")), "")] += 1
    return {
        "calls": dict(Counter(tools.values())),
        "repeated": max(same.values(), default=1) - 1,
        "failed_calls": failed.total(),
        "failed_edits": sum(failed[tool] for tool in _EDITS),
    }


def _word(line: Mapping[str, Any]) -> str:
    if line["error"]:
        return f"error of the harness: {line['error'][:200]}"
    return f"{'solved' if line['solved'] else 'not solved'}, {line['end']}"


def _end_cut_line(path: Path) -> None:
    """A line that was being written as the process died must not run into the next one."""
    if path.exists() and (data := path.read_bytes()) and not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
