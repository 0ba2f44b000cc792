"""What a call can do, by the client's own table: what a frame says about that may be wrong, or a lie."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from codelab_client.execution import DeclaredTool, Risk
from codelab_client.protected import is_protected, may_hold_protected
from codelab_client.tools.arguments import ALIASES, ARGUMENTS

#: Tools whose calls change nothing.
READS = frozenset(
    {
        "read_file",
        "list_files",
        "find_files",
        "search_in_project",
        "read_process",
        "git.diff",
        "git.status",
        "git.log",
        "apply_patch_review",
        "prompt_user",
        "fetch_url",
    }
)
_EXECUTES = frozenset({"run_command", "run_persistent", "kill_process"})
#: Their calls are decided about one by one: no mode covers them.
_ALWAYS = frozenset({"run_command", "run_persistent", "fetch_url"})
#: Arguments that are paths of the workspace, and calls that may take whole folders.
_PATHS = ("path", "from", "to", "cwd", "files")
_TREES = frozenset({"delete_file", "move_file"})
#: As the server reads the address of a page: programs disagree about others.
_URL = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?(?:[/?#].*)?", re.IGNORECASE | re.ASCII)
_PORTS = {"http": 80, "https": 443}


def canonical(tool: str) -> str:
    """The tool's name in the catalogue, if that has the tool."""
    return ALIASES.get(tool, tool)


def risk_of(tool: str, arguments: Mapping[str, Any], own: Sequence[DeclaredTool] = ()) -> Risk:
    """What a call can do at most. own: the client's own tools. An unknown tool can do anything."""
    name = canonical(tool)
    if name not in ARGUMENTS:
        return (
            "read"
            if any(declared_tool.name == tool and declared_tool.read_only for declared_tool in own)
            else "execute"
        )
    if name in READS or (name == "git.branch" and arguments.get("action") == "list"):
        return "read"
    return "execute" if name in _EXECUTES else "write"


def needs_decision(tool: str, arguments: Mapping[str, Any], own: Sequence[DeclaredTool] = ()) -> bool:
    """Whether a human must decide about a call, or have decided about such calls, before it is executed."""
    return canonical(tool) == "fetch_url" or risk_of(tool, arguments, own) != "read"


def always_asks(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether no mode covers a call: it runs a program or lets one run, or tells others something."""
    name = canonical(tool)
    if name in _ALWAYS:
        return True
    if name not in ARGUMENTS or risk_of(name, arguments) == "read":
        return False
    paths = _changed(name, arguments)
    if paths is None or any(map(is_protected, paths)):
        return True
    return name in _TREES and any(map(may_hold_protected, paths))


def paths_of(tool: str, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The paths that a call names, each with its argument, in their normal form; none for the client's own tools."""
    if canonical(tool) not in ARGUMENTS:
        return []
    return [(name, normal_path(path)) for name, path in _named(arguments)]


def normal_arguments(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they are compared: without those that are null, and each path in one spelling."""
    present = {name: value for name, value in arguments.items() if value is not None}
    if canonical(tool) not in ARGUMENTS:
        return present
    return {name: _normal(value) if name in _PATHS else value for name, value in present.items()}


def normal_path(path: str) -> str:
    """A path without empty names and `.`, and without one slash at its beginning, which the server removes."""
    return "/".join(name for name in path.removeprefix("/").split("/") if name not in ("", ".")) or "."


def web_origin(url: object) -> str:
    """Scheme, host and port of an address, in one spelling; empty if the address is not clearly one."""
    match = _URL.fullmatch(url) if isinstance(url, str) else None
    if match is None or not match[2].strip("."):
        return ""
    scheme, host = match[1].lower(), match[2].lower().removesuffix(".")
    is_usual = match[3] is None or int(match[3]) == _PORTS[scheme]
    return f"{scheme}://{host}" + ("" if is_usual else f":{int(match[3])}")


def _named(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    values = [(name, arguments.get(name)) for name in _PATHS]
    pairs = [(name, item) for name, value in values for item in (value if isinstance(value, list) else [value])]
    return [(name, item) for name, item in pairs if isinstance(item, str)]


def _normal(value: Any) -> Any:
    if isinstance(value, list):
        return [normal_path(item) if isinstance(item, str) else item for item in value]
    return normal_path(value) if isinstance(value, str) else value


def _changed(tool: str, arguments: Mapping[str, Any]) -> list[str] | None:
    """The paths that a call of the catalogue changes; None if they are not known."""
    if tool != "apply_patch":
        return [path for _, path in _named(arguments)]
    from codelab_client.tools import patches
    from codelab_client.tools.failure import ToolFailure

    try:
        files = patches.parse(str(arguments.get("diff", "")))
    except ToolFailure:
        return None
    return ["/".join(names) for file in files for names in (file.old, file.new) if names]
