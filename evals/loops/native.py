"""A plain loop of native calls: six tools, until an answer has no calls."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import ENDED, MAX_STEPS, Options, cut, run

_SYSTEM = """You are a coding agent in the user's workspace, the current folder. Use the tools to look at files, change
them and run commands. Read a file before you change it. Go on until the task is done, then answer without calls. Paths
are relative to the workspace."""


def _tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    described = {key: {"type": "string", "description": text} for key, text in properties.items()}
    parameters = {"type": "object", "properties": described, "required": list(described)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_TOOLS = [
    _tool("read_file", "Read a text file.", path="its path"),
    _tool("write_file", "Write a whole file; it is made, or replaced.", path="its path", content="its text"),
    _tool(
        "edit_file",
        "Replace a text that stands exactly once in a file.",
        path="its path",
        old="the text to replace, exactly",
        new="the text in its place",
    ),
    _tool("list_files", "List all files below a folder.", path="the folder, . for the workspace"),
    _tool("search", "Find lines in all files by a regular expression.", pattern="the expression"),
    _tool("run_command", "Run a command in bash, at most a minute.", command="the command"),
]


class _Refused(Exception):
    """A call cannot be done. The message is for the model."""


def _inside(path: str) -> Path:
    found = Path(path).resolve()
    if not found.is_relative_to(Path.cwd().resolve()):
        raise _Refused(f"{path} is not in the workspace")
    return found


def _files(path: str) -> list[Path]:
    return sorted(each for each in _inside(path).rglob("*") if each.is_file() and ".git" not in each.parts)


def _read_file(path: str) -> str:
    return cut(_inside(path).read_text("utf-8"))


def _write_file(path: str, content: str) -> str:
    _inside(path).parent.mkdir(parents=True, exist_ok=True)
    _inside(path).write_text(content, "utf-8")
    return "written"


def _edit_file(path: str, old: str, new: str) -> str:
    text = _inside(path).read_text("utf-8")
    if text.count(old) != 1:
        raise _Refused(f"the old text stands {text.count(old)} times in {path}, not once")
    _inside(path).write_text(text.replace(old, new), "utf-8")
    return "edited"


def _list_files(path: str) -> str:
    return cut("\n".join(str(each.relative_to(Path.cwd())) for each in _files(path)))


def _search(pattern: str) -> str:
    wanted, found = re.compile(pattern), []
    for path in _files("."):
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if wanted.search(line):
                found.append(f"{path.relative_to(Path.cwd())}:{number}: {line}")
    return cut("\n".join(found) or "no line matches")


def _run_command(command: str) -> str:
    succeeded, output = run(command)
    if not succeeded:
        raise _Refused(output)
    return output


_DO: dict[str, Callable[..., str]] = {
    "read_file": _read_file,
    "write_file": _write_file,
    "edit_file": _edit_file,
    "list_files": _list_files,
    "search": _search,
    "run_command": _run_command,
}


def _done(name: str, text: str) -> tuple[bool, str, Any]:
    """Whether a call succeeded, what the model reads of it, and its arguments."""
    try:
        arguments = json.loads(text or "{}")
    except ValueError as error:
        return False, f"the arguments are no JSON: {error}", text
    try:
        return True, _DO[name](**arguments), arguments
    except KeyError:
        return False, f"there is no tool {name}; there are {', '.join(_DO)}", arguments
    except (_Refused, OSError, TypeError, ValueError, re.error) as error:
        return False, str(error), arguments


def main() -> int:
    """Returns the exit code."""
    options, task = Options(sys.argv[1:]), sys.stdin.read()
    messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]
    options.note("user", text=task)
    for _ in range(options.max_steps):
        answer = options.ask(messages, tools=_TOOLS)
        text, calls = str(answer.get("content") or ""), answer.get("tool_calls") or []
        options.note("assistant", text=text)
        if not calls:
            options.note("end", reason="completed")
            sys.stdout.write(text)
            return ENDED
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for call in calls:
            name = str(call["function"]["name"])
            succeeded, told, arguments = _done(name, call["function"].get("arguments") or "")
            options.note("call", id=call["id"], tool=name, arguments=arguments)
            options.note("result", id=call["id"], ok=succeeded, text=told)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": told})
    options.note("end", reason="max_steps")
    return MAX_STEPS


if __name__ == "__main__":
    sys.exit(main())
