"""Frames from the client, and how a message body becomes one.

A client's explicit null means that the field is absent, unknown fields are ignored, and each way to be wrong has its
own code: a client written from any of the seed documents is understood, and told exactly what it did wrong.
"""

import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError, known_code
from codelab.protocol.tools.declared import Capabilities

Id = Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_CHARS)]


class ClientFrame(BaseModel):
    """Base of all frames from the client. Fields of later versions are ignored.

    A frame's validator is built when it is needed: a function takes one of them or a few.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)


class UserMessage(ClientFrame):
    """What the user says. Starts a turn, or waits for the running one."""

    type: Literal["user_message"]
    content: Annotated[str, StringConstraints(min_length=1, max_length=limits.USER_MESSAGE_CHARS)] = Field(
        description="What is said."
    )
    role: Literal["user", "assistant", "system", "tool"] = Field(
        default="user",
        description="Who said it. Another role than `user` is kept as quoted text, never as an instruction.",
    )
    client_msg_id: Id | None = Field(
        default=None, description="An id of your choice: the same one sent twice is accepted once."
    )


class ToolError(BaseModel):
    """Why a tool failed, whichever of the three shapes of the seed documents said so."""

    model_config = ConfigDict(frozen=True)

    code: ErrorCode
    message: str


#: What the wire may carry where the model has a ToolError.
_TOOL_ERROR = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"code": {"type": ["string", "null"]}, "message": {"type": "string"}}},
    ]
}
#: An error, or its code alone, or a result that is present: null is one.
_ONE_OUTCOME: dict[str, Any] = {
    "anyOf": [
        {"required": ["error"], "properties": {"error": {"not": {"type": "null"}}, "result": {"type": "null"}}},
        {"required": ["result"], "properties": {"error": {"type": "null"}}},
        {"required": ["error_code"], "properties": {"error_code": {"type": "string"}, "error": {"type": "null"}}},
    ]
}


class ToolResult(ClientFrame):
    """The outcome of a call: exactly one of `result` (any JSON, null too) and `error`."""

    model_config = ConfigDict(json_schema_extra=_ONE_OUTCOME)

    type: Literal["tool_result"]
    call_id: Id = Field(description="The `call_id` of the `tool_call`.")
    result: Any = Field(default=None, description="What the tool gives: any JSON, and null is a success too.")
    error: Annotated[ToolError | None, WithJsonSchema(_TOOL_ERROR)] = Field(
        default=None, description="Why the tool failed: a text, or a code and a message."
    )
    error_code: str | None = Field(
        default=None, exclude=True, description="The error's code, where `error` is a text or is missing."
    )
    partial: bool = Field(
        default=False,
        description="A piece of a running command's output: the call stays open and its time begins anew.",
    )
    offset: int | None = Field(
        default=None, ge=0, le=2**53, description="Where this piece of the output begins, in characters from its start."
    )

    @model_validator(mode="before")
    @classmethod
    def one_outcome(cls, frame: dict[str, Any]) -> dict[str, Any]:
        error = frame.get("error")
        has_result = frame.get("result") is not None
        if error is not None and has_result:
            raise PydanticCustomError("outcome", "exactly one of result and error may be given", {"field": "error"})
        if error is None and "result" not in frame:
            if "error_code" in frame:
                return {**frame, "error": _tool_error({"message": ""}, frame["error_code"])}
            raise PydanticCustomError("outcome", "one of result and error must be given", {"field": "result"})
        if error is not None:
            frame = {**frame, "error": _tool_error(error, frame.get("error_code"))}
        return frame

    @property
    def has_no_exit_code(self) -> bool:
        """A running command's output so far (Agent Protocol, "run_command", "Результат (streaming)")."""
        return (
            isinstance(self.result, dict)
            and "exit_code" in self.result
            and self.result["exit_code"] is None
            and self.result.get("signal") is None
        )


_EDIT_HAS_ARGUMENTS: dict[str, Any] = {
    "if": {"properties": {"decision": {"const": "edit"}}, "required": ["decision"]},
    "then": {
        "anyOf": [
            {"required": [name], "properties": {name: {"type": "object"}}}
            for name in ("modified_arguments", "modified_args")
        ]
    },
}


class Remember(BaseModel):
    """Decide so from now on: `approve` and `edit` are remembered as allowing, `reject` as denying."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    scope: Literal["session", "user"] = Field(description="For this session, or for all sessions of the user.")
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=limits.PATH_CHARS)] | None = Field(
        default=None,
        description="A glob that a call's paths must match, such as `docs/**`; `**` is any call of the tool. Without "
        "it: calls with the same paths, or, for a tool that takes none, with exactly these arguments.",
    )


class HitlDecision(ClientFrame):
    """What the human decided about a call that awaits approval."""

    model_config = ConfigDict(json_schema_extra=_EDIT_HAS_ARGUMENTS)

    type: Literal["hitl_decision"]
    call_id: Id = Field(description="The call that awaits approval.")
    decision: Literal["approve", "edit", "reject"] = Field(description="A decision is made once.")
    modified_arguments: dict[str, Any] | None = Field(
        default=None, description="With `edit`: all arguments as they shall be. They must fit the tool."
    )
    feedback: Annotated[str, StringConstraints(max_length=limits.USER_MESSAGE_CHARS)] | None = Field(
        default=None, description="With `reject`: the user's words, which the model is told."
    )
    remember: Remember | None = Field(
        default=None, description="Decide so about calls like this one from now on, by this agent and tool."
    )

    @model_validator(mode="after")
    def edit_has_arguments(self) -> Self:
        if self.decision == "edit" and self.modified_arguments is None:
            raise PydanticCustomError("missing", "an edit needs modified_arguments", {"field": "modified_arguments"})
        return self


class SwitchAgent(ClientFrame):
    """The user wants another agent; with `content`, to say something to it at once."""

    type: Literal["switch_agent"]
    agent_type: Id = Field(description="The agent's name.")
    content: Annotated[str, StringConstraints(max_length=limits.USER_MESSAGE_CHARS)] = Field(
        default="", description="Said to the new agent as a user's message, unless it is empty."
    )
    reason: Annotated[str, StringConstraints(max_length=1_000)] = Field(
        default="", description="Why, as `agent_switched` repeats it."
    )
    client_msg_id: Id | None = Field(default=None, description="As in `user_message`, for `content`.")


class ContextFile(BaseModel):
    """The file that a `context_update` is about."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    path: str | None = Field(default=None, description="The file, relative to the workspace. `clear` needs none.")
    content: str | None = Field(
        default=None, description="With `add_file`: what is in it. Without, the agent reads the file when it needs it."
    )


_FILES_HAVE_PATHS: dict[str, Any] = {
    "if": {"properties": {"action": {"enum": ["add_file", "remove_file"]}}, "required": ["action"]},
    "then": {
        "required": ["data"],
        "properties": {
            "data": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}},
        },
    },
}


class ContextUpdate(ClientFrame):
    """Change which files the agent is shown with every question. Answered by `context_updated`."""

    model_config = ConfigDict(json_schema_extra=_FILES_HAVE_PATHS)

    type: Literal["context_update"]
    action: Literal["add_file", "remove_file", "clear"] = Field(
        description="`clear` takes all files out; the history stays."
    )
    data: ContextFile = Field(default_factory=ContextFile, description="Which file.")
    session_id: Id | None = Field(default=None, description="If it is given, it must be this connection's session.")

    @model_validator(mode="after")
    def files_have_paths(self) -> Self:
        if self.action != "clear" and self.data.path is None:
            raise PydanticCustomError("missing", "{action} needs a path", {"field": "data.path", "action": self.action})
        return self


class Hello(ClientFrame):
    """The client introduces itself, and speaks extensions from here on. Answered by `session_info`."""

    type: Literal["hello"]
    client: dict[str, Any] = Field(default_factory=dict, description="The program: `name` and `version`.")
    platform: Annotated[str, StringConstraints(max_length=32)] | None = Field(
        default=None, description="What the commands run on: `linux`, `macos` or `windows`. Anything else is unknown."
    )
    capabilities: Capabilities = Field(
        default_factory=Capabilities, description="What the client can do beyond the basics."
    )


class Resume(ClientFrame):
    """Send every frame after `last_seq` again, then go on live."""

    type: Literal["resume"]
    last_seq: int = Field(ge=0, description="The highest `seq` up to which the client has every frame; 0 for none.")


class Cancel(ClientFrame):
    """Stop the running turn. Never an error when nothing runs."""

    type: Literal["cancel"]
    turn_id: Id | None = Field(default=None, description="Stop only this turn.")


class Ping(ClientFrame):
    """Answered by `pong` with the same fields; keeps API Gateway's idle timer away."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    type: Literal["ping"]


class SessionConfig(ClientFrame):
    """Change how the session behaves. Answered by `session_info`."""

    type: Literal["session_config"]
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="The model that is asked from the next step on: one that the server offers."
    )
    when_busy: Literal["queue", "reject", "interrupt"] | None = Field(
        default=None, description="What becomes of a message that comes while a turn runs."
    )
    autonomy: Literal["manual", "balanced", "autonomous"] | None = Field(
        default=None, description="How much the agent may do without asking."
    )
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="The session's title."
    )


_REVOKE_NAMES_A_RULE: dict[str, Any] = {
    "if": {"properties": {"action": {"const": "revoke"}}, "required": ["action"]},
    "then": {"required": ["rule_id"], "properties": {"rule_id": {"type": "string"}}},
}


class Rules(ClientFrame):
    """List what was remembered, or revoke a rule. Answered by `rules`."""

    model_config = ConfigDict(json_schema_extra=_REVOKE_NAMES_A_RULE)

    type: Literal["rules"]
    action: Literal["list", "revoke"] = Field(description="What is to be done.")
    rule_id: Id | None = Field(default=None, description="With `revoke`: the rule that no longer counts.")

    @model_validator(mode="after")
    def revoke_names_a_rule(self) -> Self:
        if self.action == "revoke" and self.rule_id is None:
            raise PydanticCustomError("missing", "revoke needs rule_id", {"field": "rule_id"})
        return self


class RefreshToken(ClientFrame):
    """A new token of the same user, before or after the connection's first one has expired."""

    type: Literal["refresh_token"]
    token: Annotated[str, StringConstraints(min_length=1, max_length=16_384)] = Field(
        description="A JWT whose `sub` is the connection's user."
    )


class UploadRequest(ClientFrame):
    """Ask where to upload a frame that is too large for a WebSocket message. Answered by `upload_ticket`."""

    type: Literal["upload_request"]
    bytes: int = Field(ge=1, description="How many bytes of UTF-8 the frame's JSON has, exactly.")


FRAMES: dict[str, type[ClientFrame]] = {
    "user_message": UserMessage,
    "tool_result": ToolResult,
    "hitl_decision": HitlDecision,
    "context_update": ContextUpdate,
    "switch_agent": SwitchAgent,
    "hello": Hello,
    "resume": Resume,
    "cancel": Cancel,
    "ping": Ping,
    "session_config": SessionConfig,
    "refresh_token": RefreshToken,
    "upload_request": UploadRequest,
    "rules": Rules,
}


class Referenced(ClientFrame):
    """Any frame of the client that was uploaded instead: `payload_ref` is the ticket's."""

    type: str = Field(description="The frame's type.", json_schema_extra={"enum": list(FRAMES)})
    call_id: Id | None = Field(default=None, description="The frame's `call_id`, if it has one.")
    payload_ref: str = Field(description="What the `upload_ticket` says.")

    def uploaded(self, body: str) -> ClientFrame:
        """The frame itself, from what was uploaded. It is this one's or nobody's: another one is not taken for it.

        A message without an id gets one from the upload: sent again, it is a repeat of itself. Raises ProtocolError.
        """
        frame = parse_frame(body)
        call_id = getattr(frame, "call_id", None)
        if isinstance(frame, Referenced) or (getattr(frame, "type", ""), call_id) != (
            self.type,
            self.call_id or call_id,
        ):
            raise ProtocolError(
                ErrorCode.INVALID_ARGUMENTS,
                "What was uploaded is another frame than this one: its type and call_id must be the same",
                call_id=self.call_id,
                details={"field": "payload_ref"},
            )
        if isinstance(frame, UserMessage | SwitchAgent) and frame.client_msg_id is None:
            return frame.model_copy(update={"client_msg_id": self.payload_ref})
        return frame


#: What may be a number beyond a double: a big exponent, or hundreds of digits.
_HUGE = re.compile(r"[0-9][eE][+]?[0-9]{3}|[0-9]{300}")

#: Null is a value here, not an absence: a tool may succeed with nothing to say.
_NULL_IS_A_VALUE = {"tool_result": frozenset({"result"})}

#: Read under either name; both given and different is a contradiction.
SYNONYMS = (("arguments", "args"), ("modified_arguments", "modified_args"))


def parse_json(body: str) -> Any:
    """The value in a JSON text: of characters that can be stored and numbers that JSON can say.

    Raises ProtocolError INVALID_FORMAT.
    """
    try:
        value = from_json(body, allow_inf_nan=False)
        if _HUGE.search(body):
            json.dumps(value, allow_nan=False)  # a number like 1e400 was read as infinite, which no JSON can say
    except ValueError as error:
        raise ProtocolError(ErrorCode.INVALID_FORMAT, f"Invalid JSON: {error}") from None
    return value


def parse_frame(body: str | None) -> ClientFrame:
    """The frame in a message body; a Referenced where it says that it was uploaded.

    Raises ProtocolError: INVALID_FORMAT, INVALID_TYPE, MISSING_FIELD or INVALID_ARGUMENTS.
    """
    raw = parse_json(body or "")
    if not isinstance(raw, dict):
        raise ProtocolError(ErrorCode.INVALID_FORMAT, "A frame must be a JSON object")
    frame_type = raw.get("type")
    if not isinstance(frame_type, str):
        raise ProtocolError(
            ErrorCode.INVALID_TYPE,
            "A frame needs a type, one of " + ", ".join(FRAMES),
            details={"field": "type"},
        )
    model = FRAMES.get(frame_type)
    if model is None:
        raise ProtocolError(
            ErrorCode.INVALID_TYPE,
            f"Unknown type {frame_type[:64]!r}; known are " + ", ".join(FRAMES),
            details={"field": "type"},
        )
    call_id = raw.get("call_id")
    call_id = call_id if isinstance(call_id, str) else None
    keep_null = _NULL_IS_A_VALUE.get(frame_type, frozenset())
    fields = {key: value for key, value in raw.items() if value is not None or key in keep_null}
    for name, synonym in SYNONYMS:
        if synonym in fields:
            other = fields.pop(synonym)
            if fields.setdefault(name, other) != other:
                raise ProtocolError(
                    ErrorCode.INVALID_ARGUMENTS,
                    f"{name} and {synonym} differ",
                    call_id=call_id,
                    details={"field": name},
                )
    try:
        if "payload_ref" in fields:
            return Referenced.model_validate(fields)
        return model.model_validate(fields)
    except ValidationError as error:
        raise _refusal(error, call_id) from None


def _tool_error(error: object, sibling_code: object) -> ToolError:
    """All three shapes: a string, {code, message}, and either beside an `error_code`."""
    if isinstance(error, str):
        code, message = sibling_code, error
    elif isinstance(error, dict):
        code, message = error.get("code", sibling_code), error.get("message", "")
    else:
        raise PydanticCustomError("outcome", "error must be a string or {code, message}", {"field": "error"})
    if not isinstance(message, str) or (code is not None and not isinstance(code, str)):
        raise PydanticCustomError("outcome", "error code and message must be strings", {"field": "error"})
    normal = ErrorCode.EXECUTION_FAILED if code is None else known_code(code)
    return ToolError(code=normal, message=message or normal.value)


def _refusal(error: ValidationError, call_id: str | None) -> ProtocolError:
    first = error.errors(include_url=False, include_input=False)[0]
    field = first.get("ctx", {}).get("field") or ".".join(str(part) for part in first["loc"])
    details = {"field": field}
    if first["type"] == "missing":
        return ProtocolError(ErrorCode.MISSING_FIELD, f"Missing field: {field}", call_id=call_id, details=details)
    return ProtocolError(
        ErrorCode.INVALID_ARGUMENTS, f"Invalid {field}: {first['msg']}", call_id=call_id, details=details
    )
