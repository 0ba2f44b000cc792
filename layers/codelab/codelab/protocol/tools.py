"""The tool catalogue: what runs in the IDE, as data (Tools Specification; Agent Protocol, "Доступные инструменты")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import jsonschema_rs

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.paths import workspace_path

Risk = Literal["read", "write", "execute"]


@dataclass(frozen=True)
class Tool:
    """One tool.

    `parameters` is the JSON Schema of its arguments. `approval` is the default of the policy, `always_approval` what
    no setting turns off. `waits_for_human` gives it the approval deadline instead of the tool deadline. `paths` names
    the arguments that must stay in the workspace, `byte_limits` those that are bounded in UTF-8 bytes.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    risk: Risk = "read"
    approval: bool = False
    always_approval: bool = False
    waits_for_human: bool = False
    paths: tuple[str, ...] = ()
    byte_limits: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        return jsonschema_rs.validator_for(self.parameters)

    def check(self, arguments: dict[str, Any], *, lenient_paths: bool = True) -> dict[str, Any]:
        """The arguments as the client gets them: valid, within limits, paths inside the workspace.

        Raises ProtocolError: INVALID_ARGUMENTS, INVALID_PATH, PATH_OUTSIDE_WORKSPACE or FILE_TOO_LARGE, each with
        `details.field`.
        """
        error = next(self._validator.iter_errors(arguments), None)
        if error is not None:
            where = ".".join(str(part) for part in error.instance_path)
            raise ProtocolError(
                ErrorCode.INVALID_ARGUMENTS,
                f"{self.name}: {error.message}",
                details={"field": where or "arguments"},
            )
        checked = dict(arguments)
        for name in self.paths:
            if name in checked:
                checked[name] = _checked_path(name, checked[name], lenient_paths)
        for name, most in self.byte_limits.items():
            size = len(str(checked.get(name, "")).encode())
            if size > most:
                raise ProtocolError(
                    ErrorCode.FILE_TOO_LARGE,
                    f"{self.name}: {name} has {size} bytes, {most} are allowed",
                    details={"field": name},
                )
        return checked


def _checked_path(name: str, value: Any, lenient: bool) -> Any:
    try:
        if isinstance(value, list):
            return [workspace_path(item, lenient=lenient) for item in value]
        return workspace_path(value, lenient=lenient)
    except ProtocolError as error:
        error.details["field"] = name
        raise


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


_PATH = _string("Path relative to the workspace")
_DIFF = _string("A unified diff")

_TOOLS = (
    Tool(
        name="read_file",
        description="Read a text file of the workspace. Read a file before you change it.",
        parameters=_object({"path": _PATH}),
        paths=("path",),
    ),
    Tool(
        name="write_file",
        description="Write a whole file: creates it and its directories, or replaces what is there.",
        parameters=_object({"path": _PATH, "content": _string("The complete new content")}),
        risk="write",
        approval=True,
        paths=("path",),
        byte_limits={"content": limits.FILE_BYTES},
    ),
    Tool(
        name="list_files",
        description="List the files of a directory of the workspace.",
        parameters=_object(
            {"path": _string("Directory relative to the workspace, '.' for all of it")},
            {
                "recursive": {"type": "boolean", "description": "Descend into subdirectories"},
                "pattern": _string("Glob that names must match, for example *.dart"),
            },
        ),
        paths=("path",),
    ),
    Tool(
        name="git.diff",
        description="Show what was changed and is not committed.",
        parameters=_object(
            {"path": _string("Path to compare, '.' for the whole project")},
            {"staged": {"type": "boolean", "description": "Show what is staged instead"}},
        ),
        paths=("path",),
    ),
    Tool(
        name="apply_patch",
        description="Apply a unified diff to the working tree.",
        parameters=_object({"diff": _DIFF}),
        risk="write",
        approval=True,
        byte_limits={"diff": limits.DIFF_BYTES},
    ),
    Tool(
        name="apply_patch_review",
        description="Let the user choose which chunks of a diff to apply. Nothing is applied by it.",
        parameters=_object({"diff": _DIFF}, {"message": _string("What the user is asked")}),
        waits_for_human=True,
        byte_limits={"diff": limits.DIFF_BYTES},
    ),
    Tool(
        name="prompt_user",
        description="Ask the user to choose one of several actions.",
        parameters=_object(
            {
                "message": _string("What the user is asked"),
                "actions": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": "What can be chosen",
                },
            }
        ),
        waits_for_human=True,
    ),
    Tool(
        name="run_command",
        description="Run a shell command in the workspace.",
        parameters=_object(
            {"command": _string("The command line")},
            {"cwd": _string("Working directory relative to the workspace")},
        ),
        risk="execute",
        approval=True,
        always_approval=True,
        paths=("cwd",),
    ),
)

CATALOGUE: Mapping[str, Tool] = {tool.name: tool for tool in _TOOLS}


def find_tool(name: str) -> Tool:
    """The tool of that name. Raises ProtocolError TOOL_NOT_FOUND."""
    tool = CATALOGUE.get(name)
    if tool is None:
        raise ProtocolError(ErrorCode.TOOL_NOT_FOUND, f"There is no tool {name!r}")
    return tool
