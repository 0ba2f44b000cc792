"""Grades one task: what the workspace and the final answer must be is in `expected.json` beside this file.

It needs nothing but Python. Code of the workspace runs in another process and only gives values, which are compared
here: it cannot say that it is right. The answer is the agent's final text, `/logs/agent/answer.txt`, or for agents
whose runner keeps none, `answer.txt` in the workspace.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_TIMEOUT_S = 20
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_VALUES = r"""
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
told = {}
for expression in json.load(sys.stdin):
    try:
        names = {}
        for name in sys.argv[2:]:
            names[name] = importlib.import_module(name)
        told[expression] = [eval(expression, names)]
    except BaseException as error:
        told[expression] = repr(error)
sys.stdout.write("\n" + json.dumps(told, default=repr) + "\n")
sys.stdout.flush()
"""


def problems(workspace: Path, expected: dict[str, Any], answer: str) -> list[str]:
    """What is wrong; nothing if the task is solved."""
    wanted = {name: [text] for name, text in expected["before"].items()} | expected["expected"]
    found = _files(workspace)
    free = set(expected["free"])
    told = [f"{name} is missing" for name in sorted((wanted.keys() | free) - found.keys())]
    told += [f"{name} is new" for name in sorted(found.keys() - wanted.keys() - free)]
    for name in sorted((wanted.keys() & found.keys()) - free):
        if found[name].rstrip() not in {text.rstrip() for text in wanted[name]}:
            told.append(f"{name} is not as it must be:\n{found[name]}")
    told += [f"the answer lacks {fact}" for fact in expected["facts"] if not re.search(fact, answer, re.IGNORECASE)]
    return told + _wrong_values(workspace, expected["values"])


def _files(workspace: Path) -> dict[str, str]:
    """The text files by path, besides what Python leaves. A link is no file: its target is not what was asked for."""
    found = {}
    for path in workspace.rglob("*"):
        name = path.relative_to(workspace).as_posix()
        if path.is_symlink():
            found[name] = f"a link to {path.readlink()}"
        elif path.is_file() and "__pycache__" not in path.parts:
            found[name] = path.read_bytes().decode("utf-8", "replace")
    return found


def _wrong_values(workspace: Path, values: dict[str, Any]) -> list[str]:
    if not values:
        return []
    modules = sorted({name for text in values for name in re.findall(r"\b([A-Za-z_]\w*)\.", text)})
    names = [name for name in modules if (workspace / f"{name}.py").is_file() or (workspace / name).is_dir()]
    line = [sys.executable, "-I", "-c", _VALUES, str(workspace), *names]
    reap_orphans()
    try:
        done = subprocess.run(
            line, input=json.dumps(list(values)), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        told = json.loads(done.stdout.strip().split("\n")[-1])
        assert isinstance(told, dict)
    except (subprocess.TimeoutExpired, ValueError, AssertionError):
        return ["the workspace's code gives no values"]
    finally:
        end_what_it_started()
    return [f"{text} is {told.get(text)}" for text, value in values.items() if told.get(text) != [value]]


def reap_orphans() -> None:
    """From now on, what a child of this process leaves behind comes to this process."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def end_what_it_started() -> None:
    """What the workspace's code has started must not outlive it and write the reward."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for child in map(int, children):
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def write_reward(*, solved: bool) -> None:
    Path("/logs/verifier/reward.txt").write_text("1\n" if solved else "0\n", "utf-8")


def main() -> None:
    expected = json.loads(Path(__file__).with_name("expected.json").read_text("utf-8"))
    workspace = Path.cwd()
    answers = [Path("/logs/agent/answer.txt"), workspace / "answer.txt"]
    answer = next((path.read_text("utf-8", errors="replace") for path in answers if path.is_file()), "")
    told = problems(workspace, expected, answer)
    sys.stdout.write("\n".join(told) + "\n" if told else "solved\n")
    write_reward(solved=not told)


if __name__ == "__main__":
    main()
