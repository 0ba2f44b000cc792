"""`python -m evals`: run agents on tasks, report, or write our own tasks out in Harbor's format.

    python -m evals run --base-url http://127.0.0.1:8080/v1 --model qwen --out results
        [--gguf FILE] [--tasks FOLDER] [--only NAME[,NAME…] | --only smoke] [--agents codelab,native-loop,text-loop]
        [--code CHECKOUT] [--label LABEL] [--set MAX_REPEATS=0] [--strategies default,calls,native,tool,json]
        [--variants default,whole-files,no-catalogue+dozen-tools | --halves]
        [--provider llama.cpp] [--tries 1] [--seed 0]
        [--sampling temperature=0.7] [--parallel 1] [--max-tokens N] [--max-minutes N]
        [--max-dollars N --prices 2,0.5,8]
    python -m evals report results
    python -m evals export FOLDER
    python -m evals load polyglot CHECKOUT FOLDER
    python -m evals load edits FILE.jsonl FOLDER [--lazy]
    python -m evals load swe-bench FILE.jsonl FOLDER --repositories CLONES

The key of the model's server is read from the variable LLM_API_KEY. What the folder has already is not run again, so a
run can be ended and started again with the same words.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from codelab.llm.profiles import STRATEGIES

from evals import agents, harbor, loaders, peers, proxy, report, runner, sandbox, suite, tools, variants
from evals.llama import Llama

_WINDOW, _THREADS = 16_384, 2
#: Where what graders of others need is kept.
_TOOLS = Path(__file__).resolve().parent.parent / ".evals" / "tools"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 2 for wrong usage or a task that cannot be used, 1 if the harness failed in an attempt."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends on the way
    try:
        return int(options.do(options))
    except (harbor.TaskError, sandbox.SandboxError, variants.VariantError, _UsageError) as error:
        sys.stderr.write(f"evals: {error}\n")
        return 2


class _UsageError(Exception):
    """The options are wrong. The message says which."""


def _run(options: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        tasks = _chosen(stack.enter_context(_tasks(options.tasks)), options.only)
        if options.gguf:
            if not options.gguf.is_file():
                raise _UsageError(f"{options.gguf} is no file")
            name = options.model or options.gguf.stem
            base_url = stack.enter_context(Llama(options.gguf, name, _WINDOW, _THREADS)).base_url
            provider = options.provider or "llama.cpp"
        else:
            name, base_url, provider = options.model, options.base_url, options.provider or "openai"
        if not (name and base_url):
            raise _UsageError("which model? --base-url and --model (make eval: BASE_URL=… MODEL=…), or --gguf (GGUF=…)")
        key = os.environ.get("LLM_API_KEY", "")
        endpoint = proxy.Endpoint(base_url, name, key, dict(map(_sampling, options.sampling)))
        copies = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eval-variants-")))
        known = _agents(options, provider, name, copies)
        if options.halves:
            jobs = list(_halves(options, known, tasks, copies))
        else:
            jobs = [
                runner.Job(label, agent, task, attempt)
                for attempt in range(options.tries)
                for task in tasks
                for label, agent in known.items()
            ]
        budget = runner.Budget(options.max_tokens, options.max_minutes, options.max_dollars, options.prices)
        has_vitest = any((task.tests / loaders.VITEST_GRADER).is_file() for task in tasks)
        installed = None if options.tasks is None else tools.made(_TOOLS, with_vitest=has_vitest)
        over = runner.run(
            jobs,
            endpoint,
            options.out,
            seed=options.seed,
            parallel=options.parallel,
            budget=budget,
            installed=installed,
        )
    sys.stdout.write(report.write(options.out) + "\n")
    if over:
        sys.stdout.write(f"Ended by its budget: {over}. The same words go on where it was.\n")
    return int(any(run["error"] for run in runner.read(options.out)))


def _report(options: argparse.Namespace) -> int:
    if not runner.read(options.out):
        raise _UsageError(f"{options.out} has no runs")
    sys.stdout.write(report.write(options.out) + "\n")
    return 0


def _export(options: argparse.Namespace) -> int:
    sys.stdout.write(f"{len(suite.export_all(options.folder))} tasks in {options.folder}\n")
    return 0


def _load(options: argparse.Namespace) -> int:
    if options.form == "polyglot":
        found = loaders.polyglot(options.source, options.folder)
    elif options.form == "edits":
        found = loaders.single_edits(options.source, options.folder, lazy=options.lazy)
    elif options.repositories is None:
        raise _UsageError("swe-bench needs --repositories, a folder with the clones")
    else:
        found = loaders.swe_bench(options.source, options.repositories, options.folder)
    made = 0
    try:
        for each in found:
            if isinstance(each, loaders.LeftOut):
                sys.stdout.write(f"left out: {each.name}: {each.why}\n")
            else:
                made += 1
    except (OSError, ValueError) as error:
        raise _UsageError(str(error)) from None
    sys.stdout.write(f"{made} tasks in {options.folder}: --tasks {options.folder}\n")
    return int(not made)


@contextlib.contextmanager
def _tasks(folder: Path | None) -> Iterator[list[harbor.Task]]:
    """The tasks in a folder; without one, our own."""
    if folder is not None:
        yield list(harbor.tasks_in(folder))
        return
    with tempfile.TemporaryDirectory(prefix="eval-tasks-") as own:
        suite.export_all(Path(own))
        yield list(harbor.tasks_in(Path(own)))


def _chosen(tasks: list[harbor.Task], only: str) -> list[harbor.Task]:
    if not only:
        return tasks
    if only in ("held-in", "held-out"):
        return [task for task in tasks if bool(task.metadata.get("held_out")) == (only == "held-out")]
    names = suite.SMOKE if only == "smoke" else tuple(only.split(","))
    unknown = set(names) - {task.name for task in tasks}
    if unknown:
        raise _UsageError(f"there is no task {', '.join(sorted(unknown))}")
    return [task for task in tasks if task.name in names]


def _agents(options: argparse.Namespace, provider: str, model: str, copies: Path) -> dict[str, agents.Agent]:
    """The agents by label: codelab once for each of the variants and strategies that are compared."""
    for setting in options.set:
        if "=" not in setting:
            raise _UsageError(f"--set {setting}: a name, = and a value")
    settings = dict(setting.split("=", 1) for setting in options.set)
    code = options.code.resolve()
    codelab = agents.Codelab(checkout=code, provider=provider, max_steps=options.max_steps, settings=settings)
    made: dict[str, agents.Agent] = {
        "codelab": codelab,
        "codelab-plan": replace(codelab, plans=True),
        "native-loop": agents.Loop("native", options.max_steps),
        "text-loop": agents.Loop("text", options.max_steps),
        **{name: peers.Peer(name, options.max_steps) for name in peers.PEERS},
        "oracle": agents.Oracle(),
        "idle": agents.Idle(),
    }
    wanted = options.agents.split(",")
    unknown = set(wanted) - made.keys()
    if unknown:
        raise _UsageError(f"there is no agent {', '.join(sorted(unknown))}; there are {', '.join(made)}")
    own = " ".join([options.label or "codelab", *sorted(options.set)])
    labelled: dict[str, agents.Agent] = {}
    for name in wanted:
        agent = made[name]
        if not isinstance(agent, agents.Codelab):
            labelled[name] = agent
            continue
        label = f"{own} plan" if agent.plans else own
        varied = {label: agent}
        if options.variants:
            varied = {f"{label} {each}": _variant(agent, _names(each), copies) for each in options.variants}
        if options.strategies:
            varied = {
                f"{label} {each}": agent.asking(model, each)
                for label, agent in varied.items()
                for each in options.strategies
            }
        labelled |= varied
    return labelled


def _halves(
    options: argparse.Namespace, known: Mapping[str, agents.Agent], tasks: Sequence[harbor.Task], copies: Path
) -> Iterator[runner.Job]:
    """Each task by two halves of the rules, block by block: a block's attempts have their prompts in common."""
    agent, *others = known.values()
    if others or not isinstance(agent, agents.Codelab):
        raise _UsageError("--halves is for codelab alone, asked in one way")
    for block, pair in enumerate(variants.halves(list(variants.rules(agent.checkout)))):
        for label, names in zip(report.HALVES, pair, strict=True):
            half = _variant(agent, names, copies)
            for attempt in range(options.tries):
                # The next attempt at a task is in another block.
                for task in tasks[(block + attempt) % variants.BLOCKS :: variants.BLOCKS]:
                    yield runner.Job(label, half, task, attempt)


def _names(variant: str) -> tuple[str, ...]:
    return () if variant == agents.DEFAULT else tuple(variant.split("+"))


def _variant(agent: agents.Codelab, names: tuple[str, ...], copies: Path) -> agents.Codelab:
    if not names:
        return agent
    code = variants.copy(agent.checkout, names, Path(tempfile.mkdtemp(dir=copies)))
    return replace(agent, code=code, variants=names)


def _strategies(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - {agents.DEFAULT, *STRATEGIES}:
        raise argparse.ArgumentTypeError(f"there is no strategy {', '.join(sorted(unknown))}")
    return names


def _sampling(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        raise _UsageError(f"--sampling {text}: a name, = and a number") from None


def _prices(text: str) -> tuple[float, float, float, float]:
    prompt, cached, answer, *written = map(float, text.split(","))
    (cache_write,) = written or (prompt,)
    return prompt, cached, answer, cache_write


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals", description="Measure the agent.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run agents on tasks")
    run.set_defaults(do=_run)
    run.add_argument("--out", type=Path, required=True, help="the results folder")
    run.add_argument("--base-url", help="an OpenAI-compatible server, with /v1")
    run.add_argument("--model")
    run.add_argument("--gguf", type=Path, help="serve this file by llama.cpp")
    run.add_argument("--tasks", type=Path, help="a folder of tasks in Harbor's format; without it, our own")
    run.add_argument("--only", default="", help="names with commas between, or smoke, held-in or held-out")
    run.add_argument(
        "--agents",
        default="codelab",
        help="codelab, codelab-plan (it plans first), native-loop, text-loop, mini-swe-agent, aider, opencode, oracle, "
        "idle",
    )
    run.add_argument("--code", type=Path, default=Path.cwd(), help="the checkout that is measured; it needs its .venv")
    run.add_argument("--label", help="of codelab's runs")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the local cloud")
    run.add_argument(
        "--strategies",
        type=_strategies,
        metavar="NAME[,NAME…]",
        help="run codelab with each in turn, task by task: calls, native, tool, json, or default, the profile's order",
    )
    varied = run.add_mutually_exclusive_group()
    varied.add_argument(
        "--variants",
        type=lambda text: text.split(","),
        metavar="NAME[,NAME…]",
        help=f"run codelab with each: default, {', '.join(variants.VARIANTS)}, no-RULE, or several with + between",
    )
    varied.add_argument(
        "--halves", action="store_true", help="run each task with two halves of the rules, to measure each rule"
    )
    run.add_argument("--provider", help="LLM_PROVIDER; openai, or llama.cpp with --gguf")
    run.add_argument("--max-steps", type=int, default=50)
    run.add_argument("--tries", type=int, default=1, help="attempts at each task")
    run.add_argument("--seed", type=int, default=0, help="of the first attempts")
    run.add_argument("--sampling", action="append", default=[], metavar="NAME=VALUE", help="such as temperature=0.7")
    run.add_argument("--parallel", type=int, default=1)
    run.add_argument("--max-tokens", type=int, help="of all attempts")
    run.add_argument("--max-minutes", type=float)
    run.add_argument("--max-dollars", type=float, help="with --prices")
    run.add_argument(
        "--prices",
        type=_prices,
        metavar="PROMPT,CACHED,ANSWER[,CACHE_WRITE]",
        help="US$ of a million tokens of each",
    )
    told = commands.add_parser("report", help="make results.json, results.md and index.html of a results folder")
    told.set_defaults(do=_report)
    told.add_argument("out", type=Path)
    export = commands.add_parser("export", help="write our own tasks in Harbor's format")
    export.set_defaults(do=_export)
    export.add_argument("folder", type=Path)
    load = commands.add_parser("load", help="write tasks of others in Harbor's format")
    load.set_defaults(do=_load)
    load.add_argument("form", choices=("polyglot", "edits", "swe-bench"))
    load.add_argument(
        "source", type=Path, help="a checkout of Aider's exercises, or a file with an object in each line"
    )
    load.add_argument("folder", type=Path, help="where the tasks are written")
    load.add_argument("--lazy", action="store_true", help="edits: in the few words of a hurried user")
    load.add_argument("--repositories", type=Path, help="swe-bench: the folder with a clone of each, as owner__name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
