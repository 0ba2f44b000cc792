"""Which dangerous calls run without a user: a file that the user writes.

# Every key besides `tool` names an argument. Paths are globs; anything else must be exactly equal.
[[allow]]
tool = "write_file"
path = "docs/**/*.md"

[[allow]]
tool = "run_command"
command = "make test"

An entry speaks only of the arguments that it names. So an argument that says where or how a call acts and is not named
must be absent or mean the workspace; content need not be named. A tool that is not in the table below, such as one of
an MCP server, has no content: each of its arguments is named or absent. No entry allows a change of a protected path,
nor a plan: a person accepts it.
"""

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codelab_client.protected import is_protected, may_hold_protected
from codelab_client.session.events import PLAN
from codelab_client.tools import patches
from codelab_client.tools.arguments import ALIASES, ARGUMENTS, checked
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.globs import matches
from codelab_client.tools.paths import components
from codelab_client.tools.risks import READS

#: By tool, the arguments that say where or how a call acts. `path` of apply_patch is every file of its diff.
ACTING: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("read_file", "write_file", "edit_file", "create_directory", "delete_file"), ("path",)),
    **dict.fromkeys(("list_files", "find_files", "search_in_project"), ("path",)),
    **dict.fromkeys(("git.diff", "git.status", "git.log", "apply_patch"), ("path",)),
    "move_file": ("from", "to"),
    "run_command": ("command", "cwd"),
    "run_persistent": ("command", "process_id", "cwd"),
    "read_process": ("process_id",),
    "kill_process": ("process_id",),
    "git.branch": ("action", "name"),
    "git.commit": ("files",),
    "apply_patch_review": (),
    "prompt_user": (),
    "fetch_url": ("url",),
}
#: By tool, what it works on, and how much of a result it gives: these need not be named.
PAYLOAD: Mapping[str, tuple[str, ...]] = {
    "read_file": ("offset", "limit"),
    "write_file": ("content",),
    "edit_file": ("edits",),
    "list_files": ("recursive", "pattern"),
    "find_files": ("glob", "max_results"),
    "search_in_project": ("query", "case_sensitive", "regex", "glob", "context", "max_results"),
    "git.diff": ("staged",),
    "git.log": ("limit",),
    "git.commit": ("message",),
    "apply_patch": ("diff",),
    "apply_patch_review": ("diff", "message"),
    "prompt_user": ("message", "actions"),
}
_PATHS = ("path", "from", "to", "cwd", "files")
#: Paths that mean the workspace if they are absent.
_PLACES = ("cwd", "path")
#: Tools whose paths may be folders, with everything in them.
_TREES = ("delete_file", "move_file")
#: What an entry says of an argument that may be anything.
_ANYTHING = {"any": True}


class PolicyError(Exception):
    """The policy file cannot be read. The text says why."""


@dataclass(frozen=True)
class Policy:
    """Allows the calls that match one of its entries. Each entry: a tool's name and arguments that must match."""

    allowed: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def load(cls, path: Path) -> "Policy":
        """Read a policy file. Raises PolicyError."""
        try:
            content = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise PolicyError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        entries = content.pop("allow", [])
        if content:
            raise PolicyError(f"{path}: unknown key {next(iter(content))!r}; a policy has [[allow]] entries")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise PolicyError(f"{path}: `allow` must be a list of tables: [[allow]]")
        for entry in entries:
            if problem := problem_of(entry):
                raise PolicyError(f"{path}: {problem}")
        return cls(tuple(entries))

    def allows(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call may run without a user."""
        tool = ALIASES.get(tool, tool)
        if tool == PLAN:
            return False
        try:
            call_arguments = _checked(tool, arguments)
            return not _changes_protected(tool, call_arguments) and any(
                ALIASES.get(entry["tool"], entry["tool"]) == tool and _allows(entry, tool, call_arguments)
                for entry in self.allowed
            )
        except ToolFailure:  # no call that this client would execute
            return False


def problem_of(entry: Mapping[str, Any]) -> str:
    """Why an entry can match no call, or not as it reads; empty if it can."""
    tool = entry.get("tool")
    if not isinstance(tool, str):
        return "every [[allow]] needs a tool"
    tool = ALIASES.get(tool, tool)
    if tool == PLAN:
        return f"{PLAN} cannot be allowed: a human's decision alone accepts a plan"
    if suggestion := _meant(tool):
        return f"there is no tool {tool!r}; did you mean {suggestion!r}?"
    definitions = ARGUMENTS.get(tool, {})
    for name in entry if definitions else ():
        if name != "tool" and name not in (arguments := sorted({*definitions, *ACTING.get(tool, ())})):
            return f"{tool} has no argument {name!r}; it has {', '.join(arguments)}"
    for name in ACTING.get(tool, ()):
        if name not in entry and (name not in definitions or definitions[name].required):
            wildcard = '"**"' if name in _PATHS else "{ any = true }"
            return f"{tool} needs `{name}`, or no call matches; `{name} = {wildcard}` allows everything"
    for name, pattern in entry.items():
        globs = pattern if isinstance(pattern, list) else [pattern]
        if name in _PATHS and any(isinstance(glob, str) and _has_partial_star(glob) for glob in globs):
            return f"{tool}: in `{name}`, `**` must stand alone between slashes, as in docs/**/*.md"
        try:
            json.dumps(pattern, allow_nan=False)
        except (TypeError, ValueError):
            return f"{tool}: `{name}` is no value that an argument can have"
    return ""


def _meant(tool: str) -> str:
    """The tool of the catalogue that was mistyped; empty if none was. A name with a dot may be an MCP server's."""
    if tool in ARGUMENTS or "." in tool:
        return ""
    return next(iter(difflib.get_close_matches(tool, [*ARGUMENTS, *ALIASES], 1, 0.8)), "")


def _has_partial_star(glob: str) -> bool:
    return any("**" in part and part != "**" for part in glob.split("/"))


def _allows(entry: Mapping[str, Any], tool: str, call_arguments: Mapping[str, Any]) -> bool:
    """Whether an entry for this tool matches all that a call's arguments say."""
    free = PAYLOAD.get(tool, ())
    unnamed_arguments = (name for name in call_arguments if name not in entry and name not in free)
    return all(_is_default(tool, name, call_arguments[name]) for name in unnamed_arguments) and all(
        _matches(name, pattern, call_arguments) for name, pattern in entry.items() if name != "tool"
    )


def _is_default(tool: str, name: str, value: Any) -> bool:
    """Whether an argument says the same as if it were absent: the workspace itself."""
    return tool in ACTING and name in _PLACES and isinstance(value, str) and components(value) == ()


def _matches(name: str, pattern: Any, call_arguments: Mapping[str, Any]) -> bool:
    if pattern == _ANYTHING:
        return True
    value = call_arguments.get(name, "." if name in _PLACES else None)
    if name not in _PATHS or not isinstance(pattern, str | list):
        return _is_same_json(value, pattern)
    globs = pattern if isinstance(pattern, list) else [pattern]
    paths = value if isinstance(value, list) else [value]
    return bool(paths) and all(
        isinstance(path, str) and any(isinstance(glob, str) and _is_in(glob, path) for glob in globs) for path in paths
    )


def _is_in(glob: str, path: str) -> bool:
    r"""`*` and `?` match within one name, `**` any number of folders; from the workspace's top. Raises ToolFailure."""
    pattern = f"/{glob}/*" if glob.endswith("/**") else f"/{glob}"
    return matches(pattern.replace("[", "[[]"), components(path))


def _is_same_json(value: Any, pattern: Any) -> bool:
    """Equality of JSON, in which 1, 1.0 and true are three values."""
    return json.dumps(value, sort_keys=True) == json.dumps(pattern, sort_keys=True)


def _checked(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those that are null, and the files of a diff. Raises ToolFailure."""
    if tool not in ARGUMENTS:
        return {name: value for name, value in arguments.items() if value is not None}
    call_arguments = checked(tool, arguments)
    if tool == "apply_patch":
        files = patches.parse(call_arguments["diff"])
        call_arguments["path"] = [
            "/".join(names) for file in files for names in (file.old, file.new) if names is not None
        ]
    for path in _paths(call_arguments):
        components(path)
    return call_arguments


def _changes_protected(tool: str, call_arguments: Mapping[str, Any]) -> bool:
    """Whether a call may change a file whose content other programs execute."""
    if tool in READS:
        return False
    paths = _paths(call_arguments)
    return any(map(is_protected, paths)) or (tool in _TREES and any(map(may_hold_protected, paths)))


def _paths(call_arguments: Mapping[str, Any]) -> list[str]:
    values = [call_arguments[name] for name in _PATHS if name in call_arguments]
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [path for path in items if isinstance(path, str)]
