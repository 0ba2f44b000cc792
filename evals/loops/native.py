"""A plain loop of native calls: six tools, until an answer has no calls."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import ENDED, MAX_STEPS, Options, cut, run, say

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


def _inside(path: str) -> Path:
    """The place of a file. Raises ValueError, as all tools do; its message is for the model."""
    found = Path(path).resolve()
    if not found.is_relative_to(Path.cwd().resolve()):
        raise ValueError(f"{path} is not in the workspace")
    return found


def _files(path: str) -> list[Path]:
    found = (each for each in _inside(path).rglob("*") if each.is_file() and ".git" not in each.parts)
    return sorted(each for each in found if each.resolve().is_relative_to(Path.cwd().resolve()))


def _read_file(path: str) -> str:
    return cut(_inside(path).read_bytes().decode())


def _write_file(path: str, content: str) -> str:
    _inside(path).parent.mkdir(parents=True, exist_ok=True)
    _inside(path).write_bytes(content.encode())
    return "written"


def _edit_file(path: str, old: str, new: str) -> str:
    text = _inside(path).read_bytes().decode()
    if text.count(old) != 1:
        raise ValueError(f"the old text stands {text.count(old)} times in {path}, not once")
    _inside(path).write_bytes(text.replace(old, new).encode())
    return "edited"


def _list_files(path: str) -> str:
    return cut("\n".join(str(each.relative_to(Path.cwd())) for each in _files(path)) or "no files")


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
        raise ValueError(output)
    return output


_DO: dict[str, Callable[..., str]] = {
    "read_file": _read_file,
    "write_file": _write_file,
    "edit_file": _edit_file,
    "list_files": _list_files,
    "search": _search,
    "run_command": _run_command,
}


def _arguments(given: Any) -> tuple[Any, str]:
    """The arguments of a call, and why they are none. Some servers give no text, but the object."""
    try:
        value = json.loads(given or "{}") if isinstance(given, str | None) else given
    except (ValueError, RecursionError) as error:
        return {"text": given}, f"the arguments are no JSON: {error}"
    return (value, "") if isinstance(value, dict) else ({"value": value}, "the arguments are no object")


def _done(name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    """Whether a call succeeded, and what the model reads of it."""
    if name not in _DO:
        return False, f"there is no tool {name}; there are {', '.join(_DO)}"
    try:
        return True, _DO[name](**arguments)
    except (OSError, TypeError, AttributeError, ValueError, RuntimeError, re.error) as error:
        return False, str(error)


def main() -> int:
    """Returns the exit code."""
    options, task = Options(sys.argv[1:]), sys.stdin.read()
    messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]
    options.note("user", text=task)
    for step in range(options.max_steps):
        answer = options.ask(messages, tools=_TOOLS)
        text, calls = str(answer.get("content") or ""), answer.get("tool_calls") or []
        options.note("assistant", text=text)
        if not calls:
            options.note("end", reason="completed")
            say(text)
            return ENDED
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for number, call in enumerate(calls):
            key = call["id"] = str(call.get("id") or f"{step}-{number}")
            function = call["function"] = call.get("function") or {"name": ""}
            name, given = str(function.get("name")), function.get("arguments")
            arguments, problem = _arguments(given)
            if problem or not given:  # llama.cpp refuses all further requests if it is told of a call without JSON
                function["arguments"] = "{}"
            options.note("call", id=key, tool=name, arguments=arguments)
            succeeded, told = (False, problem) if problem else _done(name, arguments)
            options.note("result", id=key, ok=succeeded, text=told)
            messages.append({"role": "tool", "tool_call_id": key, "content": told})
    options.note("end", reason="max_steps")
    return MAX_STEPS


if __name__ == "__main__":
    sys.exit(main())
