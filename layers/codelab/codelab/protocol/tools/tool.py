"""What a tool is, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import jsonschema_rs

from codelab.protocol.argv import check_operand, check_ref
from codelab.protocol.diffs import check_diff
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.paths import workspace_path
from codelab.protocol.protected import is_protected, may_hold_protected
from codelab.protocol.tools.results import ResultForm

#: What a call can do: look, change files, or anything a program can do.
Risk = Literal["read", "write", "execute"]

#: Characters of what a validator says of a value.
_MESSAGE_CHARS = 500


@dataclass(frozen=True)
class Example:
    """A call and how it may end, as the seed documents show or mean it. `note` says what is special about it."""

    arguments: dict[str, Any]
    result: Any = None
    note: str = ""


@dataclass(frozen=True)
class Tool:
    """One tool.

    `description` is read by the model. `parameters` is the JSON Schema of the arguments, `result` the form of the
    results. `approval` is the default of the policy, `always_approval` what no setting turns off; `harmless` names, by
    argument, the values with which a call changes nothing. `waits_for_human` gives it the approval deadline instead of
    the tool deadline. `streams`: a result without an exit code is a piece of output, the call goes on. `server_side`:
    the turn engine executes it, it never reaches the IDE.

    `paths` names the arguments that must stay in the workspace, `trees` those of them that may be directories with all
    that is in them, `operands` those of them that an IDE may put in a program's command line, `diffs` those that are
    unified diffs whose paths must stay inside as well, `refs` those that name a branch or a remote of git,
    `byte_limits` those that are bounded in UTF-8 bytes, and `result_byte_limits` what the IDE must not exceed in its
    results. `errors` are the codes that the IDE is expected to answer with, beside INVALID_ARGUMENTS and TIMEOUT;
    `platforms` says what differs between platforms, and of the programs that an IDE may run. `declaration` is what a
    client has declared its own tool with.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    result: ResultForm = field(default_factory=ResultForm)
    risk: Risk = "read"
    approval: bool = False
    always_approval: bool = False
    harmless: Mapping[str, frozenset[str]] = field(default_factory=dict)
    waits_for_human: bool = False
    server_side: bool = False
    streams: bool = False
    paths: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    byte_limits: Mapping[str, int] = field(default_factory=dict)
    result_byte_limits: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[ErrorCode, ...] = ()
    platforms: str = ""
    examples: tuple[Example, ...] = ()
    declaration: dict[str, Any] | None = None

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        return jsonschema_rs.validator_for(self.parameters, pattern_options=jsonschema_rs.RegexOptions())

    def _error(self, arguments: dict[str, Any]) -> jsonschema_rs.ValidationError | None:
        """What is wrong first. Raises ProtocolError INVALID_ARGUMENTS where a client's schema would make that too much
        work to find out."""
        if self.declaration is not None:
            from codelab.llm.schema.bounded import (  # here alone: the catalogue's own schemas are harmless
                BoundedValidator,
                Verdict,
            )

            verdict = BoundedValidator(self.parameters, self._validator).verdict(arguments)
            if verdict is Verdict.VALID:
                return None
            if verdict is not Verdict.EXPLAINABLE:
                why = f"{self.name}: the arguments are not valid, or too large to be validated"
                raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, why, details={"field": "arguments"})
        return next(self._validator.iter_errors(arguments), None)

    def is_harmless(self, arguments: Mapping[str, Any]) -> bool:
        """Does this very call change nothing? For a tool whose calls differ in that, such as git.branch."""
        return any(arguments.get(name) in values for name, values in self.harmless.items())

    def risk_of(self, arguments: Mapping[str, Any]) -> Risk:
        """The risk of this very call."""
        return "read" if self.is_harmless(arguments) else self.risk

    def paths_of(self, arguments: Mapping[str, Any]) -> list[str]:
        """The paths that a checked call names, those inside its diffs too."""
        found: list[str] = []
        for name in self.paths:
            value = arguments.get(name, [])
            found += value if isinstance(value, list) else [value]
        for name in self.diffs:
            if name in arguments:
                found += check_diff(arguments[name])
        return found

    def makes_tools_run_code(self, arguments: Mapping[str, Any]) -> bool:
        """May a checked call change a file that somebody executes without being asked to? See `protected`."""
        if self.risk_of(arguments) == "read":
            return False
        if any(may_hold_protected(arguments[name]) for name in self.trees if name in arguments):
            return True
        return any(map(is_protected, self.paths_of(arguments)))

    def check(self, arguments: dict[str, Any], *, lenient_paths: bool = True) -> dict[str, Any]:
        """The arguments as the client gets them: valid, within limits, paths inside the workspace.

        Raises ProtocolError: INVALID_ARGUMENTS, INVALID_PATH, PATH_OUTSIDE_WORKSPACE, FILE_TOO_LARGE or
        ENCODING_ERROR, each with `details.field`.
        """
        checked = self._without_nulls(arguments)
        error = self._error(checked)
        if error is not None:
            raise ProtocolError(
                ErrorCode.INVALID_ARGUMENTS, f"{self.name}: {_short(error.message)}", details={"field": _place(error)}
            )
        for name, most in self.byte_limits.items():
            size = _utf8_bytes(name, checked.get(name, ""))
            if size > most:
                raise ProtocolError(
                    ErrorCode.FILE_TOO_LARGE,
                    f"{self.name}: {name} has {size} bytes, {most} are allowed",
                    details={"field": name},
                )
        for name in self.paths:
            if name in checked:
                checked[name] = _checked(name, checked[name], lenient_paths)
        for names, check in ((self.operands, check_operand), (self.diffs, check_diff), (self.refs, check_ref)):
            for name in names:
                if name in checked:
                    _check(name, checked[name], check)
        return checked

    def _without_nulls(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """An explicit null is an absent argument, unless the schema takes null for a value."""
        properties, required = self.parameters.get("properties", {}), self.parameters.get("required", ())

        def is_absent(name: str) -> bool:
            kind = properties.get(name, {}).get("type") if isinstance(properties.get(name), dict) else None
            return name not in required and isinstance(kind, str) and kind != "null"

        return {name: value for name, value in arguments.items() if value is not None or not is_absent(name)}


def _short(message: str) -> str:
    """What is said of a value quotes it whole, however large it is."""
    return message if len(message) <= _MESSAGE_CHARS else f"{message[:_MESSAGE_CHARS]} …"


def _place(error: jsonschema_rs.ValidationError) -> str:
    """The argument that an error is about; `arguments` if it is about all of them."""
    parts = [str(part) for part in error.instance_path]
    missing = getattr(error.kind, "property", None)
    unexpected = getattr(error.kind, "unexpected", None)
    if isinstance(missing, str):
        parts.append(missing)
    elif unexpected:
        parts.append(str(unexpected[0]))
    return ".".join(parts) or "arguments"


def _utf8_bytes(name: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ProtocolError(
            ErrorCode.ENCODING_ERROR, f"{name} cannot be written as UTF-8", details={"field": name}
        ) from None


def _checked(name: str, value: Any, lenient: bool) -> Any:
    try:
        if isinstance(value, list):
            return [workspace_path(item, lenient=lenient) for item in value]
        return workspace_path(value, lenient=lenient)
    except ProtocolError as error:
        error.details["field"] = name
        raise


def _check(name: str, value: Any, check: Callable[[str], object]) -> None:
    try:
        for item in value if isinstance(value, list) else [value]:
            check(item)
    except ProtocolError as error:
        error.details["field"] = name
        raise
