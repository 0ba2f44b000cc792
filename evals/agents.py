"""The agents that are measured: each gets a fresh copy of a task's files, an endpoint, and a time limit."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from evals import rows, sandbox
from evals.harbor import Task
from evals.image import Image

#: In a sandbox that ends with the task, with no network, everything but protected paths may be changed and run.
POLICY = "".join(
    f'[[allow]]\ntool = "{tool}"\n{arguments}'
    for tool, arguments in (
        *((tool, 'path = "**"\n') for tool in ("write_file", "edit_file", "apply_patch", "create_directory")),
        ("delete_file", 'path = "**"\n'),
        ("move_file", 'from = "**"\nto = "**"\n'),
        ("run_command", "command = { any = true }\ncwd = { any = true }\n"),
    )
)
_CAPABILITIES = "LLM_CAPABILITIES"
#: The profile's strategies in their order, as if the model's row named none.
DEFAULT = "default"
#: Exit codes of `codelab exec` that say nothing about the agent: wrong usage, no server, no token.
_NO_RUN = (2, 3, 4)
_ROOT = Path(__file__).resolve().parent.parent
_LOOPS = Path(__file__).parent / "loops"
_PLAN_FIRST = Path(__file__).parent / "plan_first.py"
#: How a loop ended, by its exit code. A server that refuses, as when the window is full, ends ours with an error too.
_LOOP_ENDS = {0: "completed", 3: "max_steps", 4: "error", None: "time limit"}
#: What `os.listdir("/")` has that a namespace makes by itself.
_OWN = frozenset({"proc", "dev"})

Event = dict[str, Any]


class HarnessError(RuntimeError):
    """The attempt says nothing about the agent. The message says why."""


@dataclass
class Attempt:
    """How an attempt went. end: `completed`, `max_steps`, `time limit`, `error` or another reason of the agent.

    problem: what kind of error the last one was, such as `length` or `invalid_answer`; empty without any.
    events: the trace, objects with a `kind`: user, assistant, thought, call, result, note or end.
    """

    answer: str
    end: str
    events: list[Event] = field(default_factory=list)
    steps: int | None = None
    questions: int = 0
    problem: str = ""


class Agent(Protocol):
    """Something that solves tasks."""

    @property
    def name(self) -> str:
        """Its label in results."""

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> Attempt:
        """Work on the files of `image`, at most the task's time. folder: an empty one of its own, outside of them.

        Raises HarnessError.
        """


@dataclass(frozen=True)
class Codelab:
    """The system of a checkout: its local cloud, and `codelab exec` with a policy that allows what the sandbox holds.

    settings: further settings of the cloud, such as {"MAX_REPEATS": "0"}. url: of a cloud that runs already, which asks
    the model that it was started with. plans: it begins in the mode `plan`, and each plan is accepted. code: a copy of
    what the cloud runs, with these `variants`; None: the checkout's own.
    """

    name: str = "codelab"
    checkout: Path = _ROOT
    provider: str = "openai"
    max_steps: int = 50
    settings: Mapping[str, str] = field(default_factory=dict)
    policy: str = POLICY
    url: str = ""
    plans: bool = False
    code: Path | None = None
    variants: tuple[str, ...] = ()

    def asking(self, model: str, strategy: str) -> "Codelab":
        """The same, with this strategy for the model; the rest of the model's row stays."""
        rows = json.loads(self.settings.get(_CAPABILITIES) or "{}")
        row = {**rows.get(model, {}), "strategy": strategy}
        if strategy == DEFAULT:
            del row["strategy"]
        return replace(self, settings={**self.settings, _CAPABILITIES: json.dumps({**rows, model: row})})

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> Attempt:
        """See Agent."""
        settings = {"LLM_BASE_URL": base_url, "LLM_MODEL": model, "LLM_PROVIDER": self.provider, "LLM_API_KEY": "eval"}
        settings |= {"MAX_STEPS": str(self.max_steps), "STATE_DIR": str(folder / "cloud"), **self.settings}
        policy = folder / "policy.toml"
        policy.write_text(self.policy, "utf-8")
        cloud = (
            nullcontext(self.url)
            if self.url
            else _local_cloud(self.checkout, self.code or self.checkout, settings, folder)
        )
        with cloud as url:
            line = [*self._program(), "--url", url, "--workspace", image.workdir, "--policy", str(policy)]
            environment = _without_key() | {
                "XDG_STATE_HOME": str(folder / "state"),
                "HOME": str(_made(folder / "home")),
            }
            code, output, problems = ended(
                [*_in_place(image), *line], task.instruction, environment, task.agent_timeout_s
            )
        if code in _NO_RUN:
            raise HarnessError(f"codelab exec ended with {code}: {problems[-500:]}")
        frames = [json.loads(row) for row in output.splitlines() if row.startswith("{")]
        attempt = attempt_of(task.instruction, frames)
        if code is None:
            attempt.end = "time limit"
        elif not attempt.end:
            raise HarnessError(f"codelab exec ended with {code} in the middle of a turn: {problems[-500:]}")
        return attempt

    def _program(self) -> list[str]:
        """The beginning of a command that sends the prompt that it reads, and prints events as JSON."""
        programs = self.checkout / ".venv/bin"
        if self.plans:
            return [str(programs / "python"), str(_PLAN_FIRST)]
        return [str(programs / "codelab"), "exec", "-", "--json"]


@dataclass(frozen=True)
class Loop:
    """A plain loop, without anything that we have learnt: see `loops/`. program: `native` or `text`."""

    program: str
    max_steps: int = 50

    @property
    def name(self) -> str:
        """Its label."""
        return f"{self.program}-loop"

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> Attempt:
        """See Agent."""
        mounts = image.mounts
        mounts.readable["/loops"] = _LOOPS
        mounts.writable["/trace"] = _made(folder / "trace")
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else "python3"
        line = [python, f"/loops/{self.program}.py", "--base-url", base_url, "--model", model]
        line += ["--max-steps", str(self.max_steps), "--trace", "/trace/events.jsonl"]
        environment = {**image.environment, "OPENAI_API_KEY": "eval"}
        inside = sandbox.command(line, mounts, image.workdir, environment, network=True)
        code, output, problems = ended(inside, task.instruction, None, task.agent_timeout_s)
        if code not in _LOOP_ENDS:
            raise HarnessError(f"the loop ended with {code}: {problems[-500:]}")
        trace = folder / "trace" / "events.jsonl"
        events = rows.read(trace)
        return Attempt(
            output.strip(), _LOOP_ENDS[code], events, steps=sum(event["kind"] == "assistant" for event in events)
        )


@dataclass(frozen=True)
class Oracle:
    """Runs the task's own solution: what the graders must call solved."""

    name: str = "oracle"

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> Attempt:
        """See Agent."""
        del base_url, model, folder
        if not (task.solution / "solve.sh").is_file():
            raise HarnessError("the task has no solution/solve.sh")
        mounts = image.mounts
        mounts.readable["/solution"] = task.solution
        line = ["/bin/bash", "/solution/solve.sh"]
        done = sandbox.run(line, mounts, image.workdir, image.environment, task.agent_timeout_s)
        if done.code != 0:
            raise HarnessError(f"solve.sh ended with {done.code}: {done.output[-500:]}")
        answer = task.solution / "answer.txt"
        return Attempt(answer.read_text("utf-8") if answer.exists() else "", "completed")


@dataclass(frozen=True)
class Idle:
    """Does nothing and says that it has done everything: what the graders must never call solved."""

    name: str = "idle"

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> Attempt:
        """See Agent."""
        del task, image, base_url, model, folder
        return Attempt("Done. I have made all the changes, and all tests pass.", "completed")


def attempt_of(instruction: str, frames: Sequence[Mapping[str, Any]]) -> Attempt:
    """What the output of `codelab exec --json` says of a turn. The answer is all text after the last call."""
    attempt = Attempt("", "", [{"kind": "user", "text": instruction}])
    texts: dict[str, str] = {}
    calls: set[str] = set()

    def say() -> None:
        text = "".join(texts.values())
        if text:
            attempt.events.append({"kind": "assistant", "text": text})
        texts.clear()

    for frame in frames:
        match frame.get("type"):
            case "assistant_message" if frame.get("aborted"):
                texts.pop(str(frame.get("message_id")), None)
            case "assistant_message":
                message = str(frame.get("message_id"))
                texts[message] = texts.get(message, "") + str(frame.get("token") or "")
            case "message_discarded":
                texts.pop(str(frame.get("message_id")), None)
            case "tool_call" if frame.get("call_id") not in calls:
                say()
                calls.add(str(frame.get("call_id")))
                attempt.questions += bool(frame.get("requires_approval"))
                about = {name: frame.get(name) for name in ("risk", "requires_approval")}
                call = {"id": frame.get("call_id"), "tool": frame.get("tool_name"), **about}
                attempt.events.append({"kind": "call", **call, "arguments": frame.get("arguments") or {}})
            case "client.call_finished":
                problem = frame.get("error")
                shown = problem if problem else frame.get("result")
                event = {"kind": "result", "id": frame.get("call_id"), "ok": not problem}
                text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
                attempt.events.append({**event, "text": text})
            case "error":
                attempt.problem = str((frame.get("details") or {}).get("reason") or frame.get("error_code"))
                attempt.events.append({"kind": "note", "text": f"{frame.get('error_code')}: {frame.get('message')}"})
            case "turn_end":
                attempt.answer = "".join(texts.values())
                say()
                usage = frame.get("usage") or {}
                attempt.end, attempt.steps = str(frame.get("reason")), usage.get("llm_calls")
                attempt.events.append({"kind": "end", "reason": attempt.end})
    return attempt


@contextmanager
def _local_cloud(checkout: Path, code: Path, settings: Mapping[str, str], folder: Path) -> Iterator[str]:
    """The checkout's local cloud for this code, on a free port, as its address; it ends with the block.

    Raises HarnessError.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [str(checkout / ".venv/bin/python"), "-m", "codelab_local", "--template", "template.yaml"]
    environment = _without_key() | dict(settings) | {"HOST": "127.0.0.1", "PORT": str(port)}
    with (folder / "cloud.log").open("wb") as log:
        process = subprocess.Popen(line, cwd=code, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        while True:
            if process.poll() is not None:
                said = (folder / "cloud.log").read_text("utf-8", "replace")[-500:]
                raise HarnessError(f"the local cloud ended with {process.returncode}: {said}")
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"ws://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _in_place(image: Image) -> list[str]:
    """The beginning of a command in which the task's files stand at their own paths beside all of this machine's.

    This keeps nothing apart: the client has a sandbox of its own for what the model runs.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise sandbox.SandboxError("bubblewrap is needed: apt-get install bubblewrap")
    options = [program, "--die-with-parent", "--cap-add", "ALL", "--tmpfs", "/", "--dev-bind", "/dev", "/dev"]
    options += ["--bind", "/proc", "/proc"]
    own = sandbox.of_root(image.root)
    for entry in sorted(Path("/").iterdir()):
        if entry.name in _OWN or str(entry) in own:
            continue
        options += (
            ["--symlink", str(entry.readlink()), str(entry)] if entry.is_symlink() else ["--bind", *[str(entry)] * 2]
        )
    for path, source in own.items():
        options += ["--bind", str(source), path]
    return [*options, "--"]


def ended(
    line: Sequence[str], given: str, environment: Mapping[str, str] | None, limit_s: float
) -> tuple[int | None, str, str]:
    """Run a command to its end. Its exit code (None: it was ended at the limit), its output and its problems."""
    with subprocess.Popen(
        line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        code: int | None
        try:
            output, problems = process.communicate(given.encode(), timeout=limit_s)
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()
            output, problems = process.communicate()
            code = None
        except BaseException:
            process.kill()
            raise
    return code, output.decode("utf-8", "replace"), problems.decode("utf-8", "replace")


def _without_key() -> dict[str, str]:
    """This process's environment without the key of the model's server, which only the proxy has."""
    return {name: value for name, value in os.environ.items() if name != "LLM_API_KEY"}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
