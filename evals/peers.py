"""Agents of others, each installed on demand into an environment of its own below `.evals/peers`.

Each has its documented settings for a local OpenAI-compatible server, and may do everything unasked. It works in the
sandbox of the plain loops: the task's files and the machine's programs, with the machine's network, without its home.
What cannot be installed here is said, never guessed.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals import agents, sandbox
from evals.harbor import Task
from evals.image import Image

#: Where they are installed.
FOLDER = Path(__file__).resolve().parent.parent / ".evals" / "peers"
_INSTALL_S = 1200
_PYTHON = "/usr/bin/python3"  # one that is in the sandbox, too


@dataclass(frozen=True)
class Peer:
    """One of PEERS, at this many steps at most where it can be told that."""

    name: str
    max_steps: int = 50

    def run(self, task: Task, image: Image, base_url: str, model: str, folder: Path) -> agents.Attempt:
        """See agents.Agent. Raises HarnessError if it cannot be installed."""
        kind = PEERS[self.name]
        place = installed(self.name)
        own = folder / "own"
        own.mkdir()
        kind.prepare(own, base_url, model, self.max_steps)
        mounts = image.mounts
        mounts.readable[str(place)] = place
        mounts.writable["/own"] = own
        environment = {
            **image.environment,
            "HOME": "/own",
            "OPENAI_API_KEY": "eval",
            "OPENAI_API_BASE": base_url,
            "TERM": "dumb",
            **kind.environment,
        }
        git = kind.needs_git and not image.place(image.workdir).joinpath(".git").exists()
        if git:
            _commit_all(image)
        line = kind.line(str(place), task.instruction, model, self.max_steps)
        inside = sandbox.command(line, mounts, image.workdir, environment, network=True)
        code, output, problems = agents.ended(inside, "", None, task.agent_timeout_s)
        for path in [path for pattern in kind.own_files for path in image.place(image.workdir).glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if git:
            shutil.rmtree(image.place(image.workdir) / ".git", ignore_errors=True)
        attempt = kind.attempt(own, output)
        attempt.events.insert(0, {"kind": "user", "text": task.instruction})
        if code is None:
            attempt.end = "time limit"
        elif code != 0 and not attempt.end:
            attempt.end = "error"
        attempt.end = attempt.end or "completed"
        attempt.events.append({"kind": "end", "reason": attempt.end, "message": problems[-500:] if code else ""})
        return attempt


@dataclass(frozen=True)
class Kind:
    """How one is installed, told and read.

    packages: of PyPI, or of npm if `npm`. line: the command from where it is installed, the task, the model and the
    steps. prepare: writes its settings into its own folder, `/own`. attempt: what it left there, and printed, as a
    trace. needs_git: it wants the workspace to be a repository, which is made for it and taken away. own_files: what it
    keeps in the workspace for itself, which is no change that it made.
    """

    packages: tuple[str, ...]
    line: Callable[[str, str, str, int], list[str]]
    attempt: Callable[[Path, str], agents.Attempt]
    prepare: Callable[[Path, str, str, int], None] = lambda *_: None
    environment: dict[str, str] = field(default_factory=dict)
    npm: bool = False
    needs_git: bool = False
    own_files: tuple[str, ...] = ()


def installed(name: str) -> Path:
    """The folder where it is installed, at the first time by this. Raises HarnessError with what the installer says."""
    kind, place = PEERS[name], FOLDER / name
    if (place / "whole").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if kind.npm:
        lines = [["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(place), *kind.packages]]
    else:
        lines = [[_PYTHON, "-m", "venv", str(place)], [str(place / "bin/pip"), "install", "--quiet", *kind.packages]]
    for line in lines:
        try:
            process = subprocess.run(line, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
            problem = (
                ""
                if process.returncode == 0
                else (process.stderr or process.stdout).strip()[-300:] or "it says nothing"
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        if problem:
            raise agents.HarnessError(f"{name} cannot be installed here: {problem}")
    (place / "whole").touch()
    return place


def _commit_all(image: Image) -> None:
    work = image.place(image.workdir)
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=eval", "-c", "user.email=", "commit", "-qm", "."]):
        subprocess.run(["git", "-C", str(work), *words], check=True, capture_output=True)


def _mini_line(place: str, task: str, model: str, max_steps: int) -> list[str]:
    settings = ["mini.yaml", f"agent.step_limit={max_steps}", "model.cost_tracking=ignore_errors"]
    words = [word for setting in settings for word in ("-c", setting)]
    line = [f"{place}/bin/mini", "-m", f"openai/{model}", "-t", task, "-y", "-l", "0", "--exit-immediately"]
    return [*line, "-o", "/own/run.json", *words]


def _mini_attempt(own: Path, output: str) -> agents.Attempt:
    """Its answer is what it submits, or the last that it said."""
    del output
    attempt = agents.Attempt("", "")
    run = _json(own / "run.json")
    answer = ""
    for message in run.get("messages") or []:
        text = _text(message.get("content"))
        match message.get("role"):
            case "assistant":
                attempt.steps = (attempt.steps or 0) + 1
                answer = text or answer
                attempt.events.append({"kind": "assistant", "text": text})
                for call in message.get("tool_calls") or []:
                    function = call.get("function") or {}
                    about = {"id": call.get("id"), "tool": function.get("name")}
                    attempt.events.append({"kind": "call", **about, "arguments": _arguments(function.get("arguments"))})
            case "tool":
                key = message.get("tool_call_id")
                attempt.events.append({"kind": "result", "id": key, "ok": True, "text": text})
    info = run.get("info") or {}
    attempt.answer = "\n".join(filter(None, [answer, str(info.get("submission") or "")]))
    attempt.end = {"Submitted": "completed", "LimitsExceeded": "max_steps"}.get(
        str(info.get("exit_status")), str(info.get("exit_status") or "error")
    )
    return attempt


def _aider_line(place: str, task: str, model: str, max_steps: int) -> list[str]:
    del max_steps  # it answers once, and again after an answer that it cannot use
    line = [f"{place}/bin/aider", "--model", f"openai/{model}", "--message", task, "--yes-always", "--no-pretty"]
    line += ["--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--analytics-disable"]
    line += ["--no-gitignore", "--no-auto-commits", "--no-suggest-shell-commands", "--no-stream", "--no-detect-urls"]
    return [
        *line,
        "--chat-history-file",
        "/own/chat.md",
        "--llm-history-file",
        "/own/llm.txt",
        "--input-history-file",
        "/own/input.txt",
    ]


def _aider_attempt(own: Path, output: str) -> agents.Attempt:
    """Its answer is the last thing that the model said."""
    answers = _answers(own / "llm.txt")
    attempt = agents.Attempt(answers[-1] if answers else "", "" if answers else "error", steps=len(answers))
    attempt.events = [{"kind": "assistant", "text": text} for text in answers]
    attempt.events.append({"kind": "note", "text": output[-5000:]})
    return attempt


def _answers(path: Path) -> list[str]:
    """The model's answers in aider's history: the lines that begin with its role, behind a line for each answer."""
    answers: list[list[str]] = []
    inside = False
    for line in path.read_text("utf-8", "replace").split("\n") if path.is_file() else ():
        if line.startswith("LLM RESPONSE "):
            answers.append([])
            inside = True
        elif inside and line.split(" ", 1)[0] == "ASSISTANT":
            answers[-1].append(line.removeprefix("ASSISTANT").removeprefix(" "))
        else:
            inside = False
    return ["\n".join(lines).strip() for lines in answers]


def _opencode_prepare(own: Path, base_url: str, model: str, max_steps: int) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "eval",
        "options": {"baseURL": base_url, "apiKey": "eval"},
        "models": {model: {"name": model, "limit": {"context": 32_768, "output": 8_192}}},
    }
    settings: dict[str, Any] = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {"eval": provider},
        "model": f"eval/{model}",
        "small_model": f"eval/{model}",
        "share": "disabled",
        "autoupdate": False,
        "agent": {"build": {"steps": max_steps}},
    }
    (own / "opencode.json").write_text(json.dumps(settings), "utf-8")


def _opencode_line(place: str, task: str, model: str, max_steps: int) -> list[str]:
    del max_steps
    program = f"{place}/node_modules/.bin/opencode"
    return [program, "run", "--auto", "--format", "json", "--model", f"eval/{model}", task]


def _opencode_attempt(own: Path, output: str) -> agents.Attempt:
    """Its answer is all text after the last call."""
    del own
    attempt, texts = agents.Attempt("", "", steps=0), []
    for row in output.splitlines():
        try:
            event = json.loads(row)
            part = event.get("part") or {}
        except (ValueError, AttributeError):
            continue
        match event.get("type"):
            case "text":
                texts.append(str(part.get("text") or ""))
                attempt.events.append({"kind": "assistant", "text": texts[-1]})
            case "tool_use":
                state = part.get("state") or {}
                ok = state.get("status") == "completed"
                about = {"id": part.get("callID"), "tool": part.get("tool")}
                attempt.events.append({"kind": "call", **about, "arguments": state.get("input") or {}})
                text = str(state.get("output") if ok else state.get("error"))
                attempt.events.append({"kind": "result", "id": part.get("callID"), "ok": ok, "text": text})
                texts.clear()
            case "step_finish":
                attempt.steps = (attempt.steps or 0) + 1
            case "error":
                attempt.end = "error"
                attempt.events.append({"kind": "note", "text": json.dumps(event.get("error"))[:2000]})
    attempt.answer = "\n".join(texts)
    return attempt


def _arguments(field: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(field) if isinstance(field, str) else field
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"text": field}


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


PEERS = {
    "mini-swe-agent": Kind(
        packages=("mini-swe-agent==2.4.6",),
        line=_mini_line,
        attempt=_mini_attempt,
        environment={"MSWEA_CONFIGURED": "true", "MSWEA_GLOBAL_CONFIG_DIR": "/own", "MSWEA_SILENT_STARTUP": "1"},
    ),
    "aider": Kind(
        packages=("aider-chat==0.86.2",),
        line=_aider_line,
        attempt=_aider_attempt,
        needs_git=True,
        own_files=(".aider*",),
    ),
    "opencode": Kind(
        packages=("opencode-ai@1.18.33",),
        line=_opencode_line,
        attempt=_opencode_attempt,
        prepare=_opencode_prepare,
        environment={"OPENCODE_CONFIG": "/own/opencode.json", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        npm=True,
    ),
}
