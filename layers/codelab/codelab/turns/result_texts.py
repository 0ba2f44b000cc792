"""Results of lists, searches, commands and git as texts for the model: the same as their JSON, in fewer tokens.

Only a result of exactly the documented form becomes a text. With a field that is not known here, a name that does not
fit a line, or any other shape, it stays JSON, so nothing is lost and no name can look like another entry.

The form of a result is stored with its call when the call is made (`CallItem.result_form`), because what a model was
told must stay the same for the call's whole life: a provider's cache has it. Whoever changes a text here adds a form,
and keeps the old one.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from codelab.sessions.items import dumps

#: A path that looks like a note, like a line of a file, or like what stands between two of them.
_LIKE_OTHERS = re.compile(r"\[.*\]$|\d+[:-]|--$")
#: A line of a command's output that looks like a note of ours.
_LIKE_NOTES = re.compile(r"^\[(stderr\]\s*$|note: )", re.MULTILINE)

#: The form of the model's new calls. Calls without one are JSON: those of an earlier version, and of clients.
TEXT_FORM = 1

_Result = Mapping[str, Any]
_T = TypeVar("_T")


class _Unknown(Exception):
    """The result does not have the documented form."""


def text_of(tool: str, result: Any) -> str | None:
    """The text of a tool's result; None if it stays JSON. It is never empty."""
    render = _RENDERERS.get(tool)
    if render is None or not isinstance(result, dict):
        return None
    try:
        return render(result)
    except (_Unknown, KeyError):
        return None


def _fields(result: Any, names: Collection[str]) -> _Result:
    if not isinstance(result, dict) or not result.keys() <= set(names):
        raise _Unknown
    return result


def _name(value: Any) -> str:
    """A name or a note that stands in a line of its own."""
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise _Unknown
    return value


def _path(value: Any) -> str:
    """A path that looks like no other line: no note, no match."""
    if _LIKE_OTHERS.match(path := _name(value)):
        raise _Unknown
    return path


def _line(value: Any) -> str:
    """A line of a file."""
    if not isinstance(value, str) or len(f"{value}.".splitlines()) > 1:
        raise _Unknown
    return value


def _exactly(kind: type[_T], value: Any) -> _T:
    """A value of this JSON type: True is no number."""
    if type(value) is not kind:
        raise _Unknown
    return value


def _notes(result: _Result) -> list[str]:
    """What an IDE says of a list that is not complete."""
    notes = ["[there are more]"] if _exactly(bool, result.get("truncated", False)) else []
    return [*notes, f"[note: {_name(result['note'])}]"] if "note" in result else notes


def _list_files(result: _Result) -> str:
    _fields(result, ("files", "truncated", "note"))
    entries = [_entry(entry) for entry in _exactly(list, result["files"])]
    has_sizes = any("\t" in entry for entry in entries)
    notes = ["[behind a name: its size in bytes]"] if has_sizes else []
    return "\n".join([*(entries or ["[no files]"]), *notes, *_notes(result)])


def _entry(entry: Any) -> str:
    _fields(entry, ("name", "type", "size"))
    name, kind = _path(entry["name"]), entry.get("type", "file")
    if kind == "directory" and "size" not in entry:
        return name if name.endswith("/") else f"{name}/"
    if kind != "file" or name.endswith("/"):
        raise _Unknown
    return f"{name}\t{_exactly(int, entry['size'])}" if "size" in entry else name


def _find_files(result: _Result) -> str:
    _fields(result, ("files", "truncated", "note"))
    paths = [_path(path) for path in _exactly(list, result["files"])]
    return "\n".join([*(paths or ["[no files]"]), *_notes(result)])


def _search_in_project(result: _Result) -> str:
    """The matches of each file below its path, as `number:line`, and the lines around them as `number-line`."""
    _fields(result, ("matches", "truncated", "note"))
    lines: list[str] = []
    path = None
    for match in _exactly(list, result["matches"]):
        _fields(match, ("path", "line", "text", "before", "after"))
        if _path(match["path"]) != path:
            path = match["path"]
            lines += ["", path] if lines else [path]
        elif "before" in match or "after" in match:
            lines.append("--")
        number = _exactly(int, match["line"])
        lines_before, lines_after = _exactly(list, match.get("before", [])), _exactly(list, match.get("after", []))
        lines += [
            f"{line_number}-{_line(line)}" for line_number, line in enumerate(lines_before, number - len(lines_before))
        ]
        lines.append(f"{number}:{_line(match['text'])}")
        lines += [f"{line_number}-{_line(line)}" for line_number, line in enumerate(lines_after, number + 1)]
    return "\n".join([*(lines or ["[no matches]"]), *_notes(result)])


def _run_command(result: _Result) -> str:
    """The output, then what is certain: a command can write anything, but not the last lines."""
    _fields(result, ("stdout", "stderr", "exit_code", "signal", "sandbox", "network", "note"))
    parts = [_exactly(str, result.get("stdout", "")).removesuffix("\n")]
    if errors := _exactly(str, result.get("stderr", "")).removesuffix("\n"):
        parts.append(f"[stderr]\n{errors}")
    end = [f"exit code {_exactly(int, result['exit_code'])}"] if result.get("exit_code") is not None else []
    if (signal := result.get("signal")) is not None:
        end.append(f"ended by signal {signal if type(signal) is int else _name(signal)}")
    if not end:
        raise _Unknown
    if "sandbox" in result:
        end.append(f"sandbox {_name(result['sandbox'])}")
    if "network" in result:
        end.append("with network" if _exactly(bool, result["network"]) else "without network")
    if any(map(_LIKE_NOTES.search, (result.get("stdout", ""), errors))):
        raise _Unknown
    if "note" in result:
        parts.append(f"[note: {_name(result['note'])}]")
    return "\n".join([*filter(None, parts), f"[{', '.join(end)}]"])


def _git_status(result: _Result) -> str:
    _fields(result, ("files", "branch", "truncated"))
    branch = [f"[branch {_name(result['branch'])}]"] if result.get("branch") else []
    files = [_changed_file(file) for file in _exactly(list, result["files"])]
    return "\n".join([*branch, *(files or ["[no changes]"]), *_notes(result)])


def _changed_file(file: Any) -> str:
    _fields(file, ("path", "status", "staged"))
    prefix = "staged " if _exactly(bool, file.get("staged", False)) else ""
    return f"{prefix}{_name(file.get('status', 'changed'))}: {_name(file['path'])}"


def _git_log(result: _Result) -> str:
    _fields(result, ("commits",))
    return "\n".join(_commit(commit) for commit in _exactly(list, result["commits"])) or "[no commits]"


def _commit(commit: Any) -> str:
    _fields(commit, ("hash", "author", "date", "message"))
    head = " ".join(_name(commit[name]) for name in ("hash", "date", "author") if name in commit)
    message = [f"    {line}".rstrip() for line in _exactly(str, commit["message"]).rstrip("\n").split("\n")]
    return "\n".join([head, *message] if head else message)


def _git_diff(result: _Result) -> str:
    _fields(result, ("diff",))
    return _exactly(str, result["diff"]) or "[no changes]"


def _delegate(result: _Result) -> str:
    answer = _fields(result, ("answer",))["answer"]
    if isinstance(answer, dict):  # what the call has asked for by `result_schema`
        return dumps(answer)
    return _exactly(str, answer) or "[the subagent has answered nothing]"


_RENDERERS: Mapping[str, Callable[[_Result], str]] = {
    "list_files": _list_files,
    "find_files": _find_files,
    "search_in_project": _search_in_project,
    "run_command": _run_command,
    "git.status": _git_status,
    "git.log": _git_log,
    "git.diff": _git_diff,
    "delegate": _delegate,
}
