"""The definition of a tool, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, Self

import jsonschema_rs

from codelab.protocol.argv import check_operand, check_ref
from codelab.protocol.diffs import check_diff
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.paths import workspace_path
from codelab.protocol.protected import is_protected, may_hold_protected
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.titles import title
from codelab.protocol.web_origin import web_origin

#: What a call can do: read, change files, or run any program.
Risk = Literal["read", "write", "execute"]

#: What a call does, for the icon and the wording that an IDE shows: the list of the Agent Client Protocol.
Kind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]

#: The most paths of a call that are shown; a diff may have thousands.
_SHOWN_PATHS = 30
#: The maximum length of a validator's message in an error.
_MESSAGE_CHARS = 500


@dataclass(frozen=True)
class Example:
    """A call and a possible result, from the seed documents where they have one."""

    arguments: dict[str, Any]
    result: Any = None
    note: str = ""


@dataclass(frozen=True)
class Tool:
    """One tool.

    description: read by the model.
    parameters: the JSON Schema of the arguments.
    result: the form of the results.
    approval: whether the policy asks for approval by default.
    always_approval: no setting turns the approval off.
    listed_with: another tool: an operator who lists it as needing approval means this one too.
    host_of: the argument with a URL, whose host an approval is remembered for.
    harmless: argument values with which a call changes nothing.
    waits_for_human: the call gets the approval deadline instead of the tool deadline.
    server_side: the turn engine executes the call; the IDE never gets it.
    streams: a result without an exit code is a piece of output, and the call stays open.
    paths: arguments that must stay inside the workspace.
    trees: the `paths` that may be directories and then include their contents.
    operands: the `paths` that an IDE may put on a command line.
    diffs: arguments that are unified diffs, whose paths must stay inside the workspace.
    refs: arguments that name a branch or a remote.
    byte_limits: the limits of arguments in UTF-8 bytes.
    result_byte_limits: the limits of the IDE's results.
    errors: the codes expected from the IDE, besides INVALID_ARGUMENTS and TIMEOUT.
    platforms: differences between platforms, and rules for programs that an IDE runs.
    declaration: the client's declaration, for a client's own tool.
    parameters_without_words: `parameters` without the words of an untrusted client, for the schema of the model's
    answers; None if the words are trusted.
    untrusted_description: what a client says of the tool, or of what it can be called with, which the model gets as
    data.
    kind: what a call does, for humans.
    title: a call in a few words, see `titles`; empty: the tool's name.
    extension: not in the seed documents: only for an IDE that says that it executes it.
    extras: the optional arguments that are not in the seed documents, for the same IDEs.
    modes: the only modes in which an agent may call it; None: its risk decides, see `protocol.modes`.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    result: ResultForm = field(default_factory=ResultForm)
    risk: Risk = "read"
    approval: bool = False
    always_approval: bool = False
    listed_with: str = ""
    host_of: str = ""
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
    parameters_without_words: dict[str, Any] | None = None
    untrusted_description: str = ""
    kind: Kind = "other"
    title: str = ""
    extension: bool = False
    extras: tuple[str, ...] = ()
    modes: frozenset[str] | None = None

    def without_extras(self) -> Self:
        """The tool as in the seed documents."""
        if not self.extras:
            return self
        properties = {name: schema for name, schema in self.parameters["properties"].items() if name not in self.extras}
        return replace(self, parameters={**self.parameters, "properties": properties}, extras=())

    @cached_property
    def offered_parameters(self) -> dict[str, Any]:
        """The schema of the arguments as the model gets it. It may allow more than `parameters`."""
        return self.parameters if self.parameters_without_words is None else self.parameters_without_words

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        return jsonschema_rs.validator_for(self.parameters, pattern_options=jsonschema_rs.RegexOptions())

    def _error(self, arguments: dict[str, Any]) -> jsonschema_rs.ValidationError | None:
        """The first error, or None.

        Raises ProtocolError INVALID_ARGUMENTS if a client's schema makes the error too expensive to find.
        """
        if self.declaration is not None:
            from codelab.llm.schema.bounded import (  # Only needed for clients' schemas.
                BoundedValidator,
                Verdict,
            )

            verdict = BoundedValidator(self.parameters, self._validator).verdict(arguments)
            if verdict is Verdict.VALID:
                return None
            if verdict is not Verdict.EXPLAINABLE:
                message = f"{self.name}: the arguments are invalid or too large to validate"
                raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, message, details={"field": "arguments"})
        return next(self._validator.iter_errors(arguments), None)

    def is_harmless(self, arguments: Mapping[str, Any]) -> bool:
        """Does this call change nothing? For tools with both kinds of calls, such as git.branch."""
        return any(arguments.get(name) in values for name, values in self.harmless.items())

    def host(self, arguments: Mapping[str, Any]) -> str:
        """The scheme, host and port that a checked call connects to, in one spelling; empty if the URL has no host."""
        return web_origin(arguments[self.host_of])

    def risk_of(self, arguments: Mapping[str, Any]) -> Risk:
        """The risk of this call."""
        return "read" if self.is_harmless(arguments) else self.risk

    def paths_of(self, arguments: Mapping[str, Any]) -> list[str]:
        """The paths in a checked call, including those inside its diffs."""
        paths: list[str] = []
        for name in self.paths:
            value = arguments.get(name, [])
            paths += value if isinstance(value, list) else [value]
        for name in self.diffs:
            if name in arguments:
                paths += check_diff(arguments[name], posix=True)  # It was checked for its client.
        return paths

    def shown_paths(self, arguments: Mapping[str, Any]) -> list[str]:
        """The first paths in a checked call, each once."""
        return self._all_paths(arguments)[:_SHOWN_PATHS]

    def _all_paths(self, arguments: Mapping[str, Any]) -> list[str]:
        return list(dict.fromkeys(self.paths_of(arguments)))

    def title_of(self, arguments: Mapping[str, Any]) -> str:
        """A checked call in a few words, in one line without control characters."""
        if any(name in arguments for name in self.diffs):
            arguments = {**arguments, **dict.fromkeys(self.diffs, self._all_paths(arguments))}
        return title(self.title, arguments) if self.title else self.name

    def makes_tools_run_code(self, arguments: Mapping[str, Any]) -> bool:
        """Can a checked call change a protected file? See `protected`."""
        if self.risk_of(arguments) == "read":
            return False
        if any(may_hold_protected(arguments[name]) for name in self.trees if name in arguments):
            return True
        return any(map(is_protected, self.paths_of(arguments)))

    def check(
        self, arguments: dict[str, Any], *, lenient_paths: bool = True, posix_paths: bool = False
    ) -> dict[str, Any]:
        """Check the arguments and return them as the client gets them. The two flags: see `workspace_path`.

        Raises ProtocolError: INVALID_ARGUMENTS, INVALID_PATH, PATH_OUTSIDE_WORKSPACE, FILE_TOO_LARGE or
        ENCODING_ERROR, each with `details.field`.
        """
        client_arguments = self._without_nulls(arguments)
        error = self._error(client_arguments)
        if error is not None:
            raise ProtocolError(
                ErrorCode.INVALID_ARGUMENTS, f"{self.name}: {_short(error.message)}", details={"field": _place(error)}
            )
        for name, max_bytes in self.byte_limits.items():
            size = _utf8_bytes(name, client_arguments.get(name, ""))
            if size > max_bytes:
                raise ProtocolError(
                    ErrorCode.FILE_TOO_LARGE,
                    f"{self.name}: {name} has {size} bytes; at most {max_bytes} are allowed",
                    details={"field": name},
                )
        for name in self.paths:
            if name in client_arguments:
                client_arguments[name] = _checked(name, client_arguments[name], lenient_paths, posix_paths)
        diffs = partial(check_diff, posix=posix_paths)
        for names, check in ((self.operands, check_operand), (self.diffs, diffs), (self.refs, check_ref)):
            for name in names:
                if name in client_arguments:
                    _check(name, client_arguments[name], check)
        return client_arguments

    def _without_nulls(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments without explicit nulls, except where the schema allows null as a value."""
        properties, required = self.parameters.get("properties", {}), self.parameters.get("required", ())

        def is_absent(name: str) -> bool:
            kind = properties.get(name, {}).get("type") if isinstance(properties.get(name), dict) else None
            return name not in required and isinstance(kind, str) and kind != "null"

        return {name: value for name, value in arguments.items() if value is not None or not is_absent(name)}


def _short(message: str) -> str:
    """The message of a validator, cut to a maximum length, because it quotes the whole value."""
    return message if len(message) <= _MESSAGE_CHARS else f"{message[:_MESSAGE_CHARS]} …"


def _place(error: jsonschema_rs.ValidationError) -> str:
    """The argument that the error is in, or `arguments` if it concerns all of them."""
    parts = [str(part) for part in error.instance_path]
    missing_name = getattr(error.kind, "property", None)
    unexpected_names = getattr(error.kind, "unexpected", None)
    if isinstance(missing_name, str):
        parts.append(missing_name)
    elif unexpected_names:
        parts.append(str(unexpected_names[0]))
    return ".".join(parts) or "arguments"


def _utf8_bytes(name: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ProtocolError(
            ErrorCode.ENCODING_ERROR, f"{name} cannot be encoded as UTF-8", details={"field": name}
        ) from None


def _checked(name: str, value: Any, lenient: bool, posix: bool) -> Any:
    try:
        if isinstance(value, list):
            return [workspace_path(item, lenient=lenient, posix=posix) for item in value]
        return workspace_path(value, lenient=lenient, posix=posix)
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
