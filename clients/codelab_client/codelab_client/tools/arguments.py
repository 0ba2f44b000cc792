"""The arguments that each tool takes, as docs/tools.md and docs/schemas/tools.json have them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codelab_client.tools.failure import ToolFailure


@dataclass(frozen=True)
class Argument:
    """One argument. kind: string, boolean, integer or strings (an array). least, most: of its length or value."""

    kind: str
    required: bool = True
    least: int = 0
    most: int | None = None
    choices: tuple[str, ...] = ()


_PATH = Argument("string")
_OTHER_PATH = Argument("string", required=False)
_FLAG = Argument("boolean", required=False)
_TEXT = Argument("string", least=1)
_PROCESS = Argument("string", least=1, most=128)

ARGUMENTS: Mapping[str, Mapping[str, Argument]] = {
    "read_file": {"path": _PATH},
    "write_file": {"path": _PATH, "content": Argument("string")},
    "list_files": {"path": _PATH, "recursive": _FLAG, "pattern": Argument("string", required=False)},
    "search_in_project": {"query": _TEXT, "path": _OTHER_PATH, "case_sensitive": _FLAG},
    "create_directory": {"path": _PATH},
    "delete_file": {"path": _PATH},
    "move_file": {"from": _PATH, "to": _PATH},
    "run_command": {"command": _TEXT, "cwd": _OTHER_PATH},
    "run_persistent": {"command": _TEXT, "process_id": _PROCESS, "cwd": _OTHER_PATH},
    "kill_process": {"process_id": _PROCESS},
    "git.diff": {"path": _PATH, "staged": _FLAG},
    "git.status": {"path": _OTHER_PATH},
    "git.log": {"limit": Argument("integer", required=False, least=1, most=1000), "path": _OTHER_PATH},
    "git.branch": {
        "action": Argument("string", choices=("list", "create", "switch", "delete")),
        "name": Argument("string", required=False, least=1, most=255),
    },
    "git.commit": {"message": _TEXT, "files": Argument("strings", required=False)},
    "apply_patch": {"diff": _TEXT},
    "apply_patch_review": {"diff": _TEXT, "message": Argument("string", required=False)},
    "prompt_user": {"message": _TEXT, "actions": Argument("strings", least=1)},
}

ALIASES: Mapping[str, str] = {
    "execute_command": "run_command",
    "search_in_code": "search_in_project",
    "search_files": "search_in_project",
    "write_to_file": "write_file",
}

_TYPES: dict[str, type[Any]] = {"string": str, "boolean": bool, "integer": int, "strings": list}


def checked(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call without those that are null. Raises ToolFailure INVALID_ARGUMENTS."""
    wanted = ARGUMENTS[tool]
    present = {name: value for name, value in given.items() if value is not None}
    for name in present.keys() - wanted.keys():
        raise _wrong(f"{tool} has no argument {name[:64]}")
    for name, argument in wanted.items():
        if name in present:
            _check(name, present[name], argument)
        elif argument.required:
            raise _wrong(f"{tool}: {name} is missing")
    return present


def _check(name: str, value: Any, argument: Argument) -> None:
    if not isinstance(value, _TYPES[argument.kind]) or (argument.kind == "integer" and isinstance(value, bool)):
        raise _wrong(f"{name} must be of type {argument.kind}")
    if argument.kind == "strings" and not all(isinstance(item, str) for item in value):
        raise _wrong(f"{name} must be an array of strings")
    if argument.choices and value not in argument.choices:
        raise _wrong(f"{name} must be one of {', '.join(argument.choices)}")
    if argument.kind != "boolean":
        size = value if argument.kind == "integer" else len(value)
        if size < argument.least or (argument.most is not None and size > argument.most):
            raise _wrong(f"{name} is too short, too long or out of range")


def _wrong(message: str) -> ToolFailure:
    return ToolFailure("INVALID_ARGUMENTS", message)
