"""The arguments that each tool takes, as docs/tools.md and docs/schemas/tools.json have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codelab_client.tools.failure import ToolFailure


@dataclass(frozen=True)
class Argument:
    """One argument. kind: string, boolean, integer, strings or objects (arrays). minimum, maximum: length or value.

    parts: the arguments of each object.
    """

    kind: str
    required: bool = True
    minimum: int = 0
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    parts: "Mapping[str, Argument]" = field(default_factory=dict)


_PATH = Argument("string")
_OTHER_PATH = Argument("string", required=False)
_FLAG = Argument("boolean", required=False)
_TEXT = Argument("string", minimum=1)
_PROCESS = Argument("string", minimum=1, maximum=128)

ARGUMENTS: Mapping[str, Mapping[str, Argument]] = {
    "read_file": {
        "path": _PATH,
        "offset": Argument("integer", required=False, minimum=1),
        "limit": Argument("integer", required=False, minimum=1),
    },
    "write_file": {"path": _PATH, "content": Argument("string")},
    "edit_file": {
        "path": _PATH,
        "edits": Argument(
            "objects",
            minimum=1,
            maximum=100,
            parts={"old": _TEXT, "new": Argument("string"), "replace_all": _FLAG},
        ),
    },
    "list_files": {"path": _PATH, "recursive": _FLAG, "pattern": Argument("string", required=False)},
    "find_files": {
        "glob": _TEXT,
        "path": _OTHER_PATH,
        "max_results": Argument("integer", required=False, minimum=1, maximum=5_000),
    },
    "search_in_project": {
        "query": _TEXT,
        "path": _OTHER_PATH,
        "case_sensitive": _FLAG,
        "regex": _FLAG,
        "glob": Argument("string", required=False, minimum=1),
        "context": Argument("integer", required=False, maximum=10),
        "max_results": Argument("integer", required=False, minimum=1),
    },
    "create_directory": {"path": _PATH},
    "delete_file": {"path": _PATH},
    "move_file": {"from": _PATH, "to": _PATH},
    "run_command": {"command": _TEXT, "cwd": _OTHER_PATH},
    "run_persistent": {"command": _TEXT, "process_id": _PROCESS, "cwd": _OTHER_PATH},
    "read_process": {"process_id": _PROCESS},
    "kill_process": {"process_id": _PROCESS},
    "git.diff": {"path": _PATH, "staged": _FLAG},
    "git.status": {"path": _OTHER_PATH},
    "git.log": {"limit": Argument("integer", required=False, minimum=1, maximum=1000), "path": _OTHER_PATH},
    "git.branch": {
        "action": Argument("string", choices=("list", "create", "switch", "delete")),
        "name": Argument("string", required=False, minimum=1, maximum=255),
    },
    "git.commit": {"message": _TEXT, "files": Argument("strings", required=False)},
    "apply_patch": {"diff": _TEXT},
    "apply_patch_review": {"diff": _TEXT, "message": Argument("string", required=False)},
    "prompt_user": {"message": _TEXT, "actions": Argument("strings", minimum=1)},
    "fetch_url": {"url": Argument("string", minimum=10, maximum=2_000)},
}

ALIASES: Mapping[str, str] = {
    "execute_command": "run_command",
    "search_in_code": "search_in_project",
    "search_files": "search_in_project",
    "write_to_file": "write_file",
}

_TYPES: dict[str, type[Any]] = {"string": str, "boolean": bool, "integer": int, "strings": list, "objects": list}


def checked(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call without those that are null. Raises ToolFailure INVALID_ARGUMENTS."""
    return _checked(tool, arguments, ARGUMENTS[tool])


def _checked(place: str, arguments: Mapping[str, Any], definitions: Mapping[str, Argument]) -> dict[str, Any]:
    present = {name: value for name, value in arguments.items() if value is not None}
    for name in present.keys() - definitions.keys():
        raise _wrong(f"{place} has no argument {name[:64]}")
    for name, argument in definitions.items():
        if name in present:
            _check(name, present[name], argument)
        elif argument.required:
            raise _wrong(f"{place}: {name} is missing")
        if name in present and argument.kind == "objects":
            present[name] = [
                _checked(f"{name}[{number}]", part, argument.parts) for number, part in enumerate(present[name])
            ]
    return present


def _check(name: str, value: Any, argument: Argument) -> None:
    if not isinstance(value, _TYPES[argument.kind]) or (argument.kind == "integer" and isinstance(value, bool)):
        raise _wrong(f"{name} must be of type {argument.kind}")
    if argument.kind == "strings" and not all(isinstance(item, str) for item in value):
        raise _wrong(f"{name} must be an array of strings")
    if argument.kind == "objects" and not all(isinstance(item, dict) for item in value):
        raise _wrong(f"{name} must be an array of objects")
    if argument.choices and value not in argument.choices:
        raise _wrong(f"{name} must be one of {', '.join(argument.choices)}")
    if argument.kind != "boolean":
        size = value if argument.kind == "integer" else len(value)
        if size < argument.minimum or (argument.maximum is not None and size > argument.maximum):
            raise _wrong(f"{name} is too short, too long or out of range")


def _wrong(message: str) -> ToolFailure:
    return ToolFailure("INVALID_ARGUMENTS", message)
