"""One task on the system of a checkout: its local cloud and its client, each in its own virtual environment."""

import json
import os
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.real_tasks.task import Task

#: What the tasks need, and what a model may try in their place. Tools that only read ask nobody.
_WRITING = ("write_file", "edit_file", "apply_patch", "create_directory", "delete_file")
_COMMANDS = ("python3 stats.py", "python3 primes.py", "python stats.py", "python primes.py")
POLICY = "".join(f'[[allow]]\ntool = "{tool}"\npath = "**"\n' for tool in _WRITING) + "".join(
    f'[[allow]]\ntool = "run_command"\ncommand = "{command}"\n' for command in _COMMANDS
)
#: Exit codes of `codelab exec` that say nothing about the agent: wrong usage, no server, no token.
_NO_RUN = (2, 3, 4)


@contextmanager
def local_cloud(checkout: Path, settings: dict[str, str]) -> Iterator[str]:
    """The checkout's local cloud on a free port, as its address; it ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(checkout / ".venv/bin/python"), "-m", "codelab_local", "--template", "template.yaml"]
    environment = os.environ | settings | {"HOST": "127.0.0.1", "PORT": str(port)}
    process = subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
    try:
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"the local cloud of {checkout} ended with {process.returncode}")
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"ws://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def run(task: Task, checkout: Path, url: str, limit: float) -> dict[str, Any]:
    """Run the task in a fresh workspace, at most `limit` seconds, and say how it went."""
    with tempfile.TemporaryDirectory() as folder:
        workspace, policy = Path(folder, "shop"), Path(folder, "policy.toml")
        policy.write_text(POLICY, "utf-8")
        for name, text in task.files.items():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_text(text, "utf-8")
        client = [str(checkout / ".venv/bin/codelab"), "exec", "--url", url, "--workspace", str(workspace)]
        environment = os.environ | {"XDG_STATE_HOME": str(Path(folder, "state"))}
        began, timed_out = time.monotonic(), False
        arguments = [*client, "--json", "--policy", str(policy), task.message]
        with subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                timed_out = True
                process.terminate()
                output, _ = process.communicate()
            except BaseException:
                process.terminate()
                raise
        if process.returncode in _NO_RUN:
            raise RuntimeError(f"codelab exec ended with {process.returncode}: {task.name} was not run")
        seconds = round(time.monotonic() - began, 1)
        outcome = summary([json.loads(line) for line in output.decode().splitlines() if line.startswith("{")])
        answer = outcome["answer"]
        solved = not timed_out and outcome["end"] == "completed" and task.solved(files_in(workspace), answer)
        return outcome | {"solved": solved, "seconds": seconds, **({"end": "time limit"} if timed_out else {})}


def files_in(workspace: Path) -> dict[str, str]:
    """The workspace's files by path, besides what running Python leaves."""
    paths = (path for path in workspace.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(workspace).as_posix(): path.read_bytes().decode("utf-8", "replace") for path in paths}


def summary(frames: list[dict[str, Any]]) -> dict[str, Any]:
    """What the frames of a turn say: the answer (all text after the last call), its end, its calls and its tokens."""
    calls: dict[str, tuple[str, str]] = {}
    text: list[str] = []
    end: dict[str, Any] = {}
    for frame in frames:
        match frame.get("type"):
            case "tool_call":
                key = json.dumps(frame.get("arguments"), sort_keys=True)
                calls[frame["call_id"]] = (frame["tool_name"], key)
                text.clear()
            case "assistant_message":
                text.append(frame.get("token") or "")
            case "turn_end":
                end = frame
    usage = end.get("usage", {})
    return {
        "answer": "".join(text),
        "end": end.get("reason", "no end"),
        "steps": usage.get("llm_calls"),
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "calls": dict(Counter(name for name, _ in calls.values())),
        "repeated": len(calls) - len(set(calls.values())),
    }
