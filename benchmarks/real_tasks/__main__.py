"""`python -m benchmarks.real_tasks`: run the tasks, or with --report say what the runs so far show.

    python -m benchmarks.real_tasks --base-url http://127.0.0.1:8080/v1 --model qwen --runs runs.jsonl
        [--only held-in|held-out|NAME] [--code CHECKOUT] [--label LABEL] [--set MAX_REPEATS=0] [--limit SECONDS]
    python -m benchmarks.real_tasks --runs runs.jsonl --report

The checkout needs its own .venv (`make setup`). What the file has already of its commit is skipped, so a run can be
stopped and started again. The server should sample at temperature 0 by default: no two runs differ by chance then.
Runs of held-out tasks have `held_out` in their line.
"""

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.real_tasks import held_in, held_out, system
from benchmarks.real_tasks.statistics import paired_difference, wilson
from benchmarks.real_tasks.task import Task

MAX_STEPS = 12

Run = Mapping[str, Any]


def read(path: Path) -> list[Run]:
    """The runs so far; a last line that was cut is none."""
    lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def report(runs: Sequence[Run]) -> str:
    """By label: solved, its interval, steps; then the difference of each label to the first, by task."""
    by_label: dict[str, dict[str, Run]] = {}
    for run in runs:
        by_label.setdefault(run["label"], {})[run["task"]] = run
    lines = [f"{label}: {_summary(list(tasks.values()))}" for label, tasks in by_label.items()]
    (first, before), *others = by_label.items()
    for label, after in others:
        pairs = [(before[task]["solved"], after[task]["solved"]) for task in before if task in after]
        if pairs:
            mean, low, high = paired_difference(pairs)
            lines.append(f"{first} -> {label}: {mean:+.0%} ({low:+.0%} to {high:+.0%}), {len(pairs)} pairs")
    return "\n".join(lines)


def _summary(runs: Sequence[Run]) -> str:
    solved = sum(run["solved"] for run in runs)
    low, high = wilson(solved, len(runs))
    steps = sum(run["steps"] or 0 for run in runs) / len(runs)
    ended = sum(run["end"] == "max_steps" for run in runs)
    repeated = max(run["repeated"] for run in runs)
    return (
        f"{solved}/{len(runs)} solved ({low:.0%} to {high:.0%}), {steps:.1f} steps, {ended} at the step limit, "
        f"at most {repeated} repeated calls"
    )


def _chosen(only: str) -> list[tuple[Task, bool]]:
    tasks = [(task, False) for task in held_in.TASKS] + [(task, True) for task in held_out.TASKS]
    kinds = {"": (False, True), "held-in": (False,), "held-out": (True,)}
    return [(task, out) for task, out in tasks if (out in kinds[only] if only in kinds else task.name == only)]


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_tasks", description="Small tasks, a real model.")
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--base-url")
    parser.add_argument("--model")
    parser.add_argument("--only", default="")
    parser.add_argument("--code", type=Path, default=Path.cwd())
    parser.add_argument("--label")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a task")
    options = parser.parse_args(arguments)
    if options.report:
        sys.stdout.write(report(read(options.runs)) + "\n")
        return 0
    if not (options.base_url and options.model):
        parser.error("--base-url and --model are needed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the local cloud is stopped on the way
    code = options.code.resolve()
    label = " ".join([options.label or code.name, *sorted(options.set)])
    about = {"label": label, "commit": _commit(code)}
    finished = {run["task"] for run in read(options.runs) if about.items() <= run.items()}
    settings = {"LLM_BASE_URL": options.base_url, "LLM_MODEL": options.model, "LLM_PROVIDER": "llama.cpp"}
    settings |= {"LLM_API_KEY": "none", "MAX_STEPS": str(MAX_STEPS)}
    settings |= dict(setting.split("=", 1) for setting in options.set)
    for task, out in _chosen(options.only):
        if task.name in finished:
            continue
        with system.local_cloud(code, settings) as url:
            outcome = system.run(task, code, url, options.limit)
        line = {**about, "task": task.name, "kind": task.kind, "held_out": out, **outcome}
        with options.runs.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.write(f"{task.name}: {'solved' if outcome['solved'] else 'not solved'}, {outcome['end']}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
