"""Frames from the client and their parser.

An explicit null means an absent field, and unknown fields are ignored, so that clients written from any of the seed
documents work.
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
from codelab.protocol.agents import AgentDeclarations
from codelab.protocol.errors import ErrorCode, ProtocolError, known_code
from codelab.protocol.images import image_problem
from codelab.protocol.modes import ActingMode, Autonomy, Mode
from codelab.protocol.tools.declared import Capabilities

#: What becomes of a message that arrives during a turn.
WhenBusy = Literal["queue", "steer", "interrupt", "reject"]
#: Without control characters, so that it cannot be taken for more than a name.
ONE_LINE = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$"
Id = Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_CHARS)]


class ClientFrame(BaseModel):
    """Base of all frames from the client. Fields of later versions are ignored."""

    # defer_build: most functions parse only one or a few kinds of frame.

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    request_id: Id | None = Field(
        default=None,
        description="An id of your choice, for any frame. Its answer or `error` repeats it; a frame without another "
        "answer gets an `ack`.",
    )


class Attachment(BaseModel):
    """An image or a text that comes with a message: `media_type` and `data`, or `content`."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    type: Literal["image", "text"] = Field(description="What it is.")
    name: Annotated[str, StringConstraints(min_length=1, max_length=limits.PATH_CHARS, pattern=ONE_LINE)] | None = (
        Field(default=None, description="Its name, such as that of a file, on one line.")
    )
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"] | None = Field(
        default=None, description="Of an image: its type."
    )
    data: str | None = Field(
        default=None, description="Of an image: its bytes in base64, at most 5,000,000 before that."
    )
    content: Annotated[str, StringConstraints(min_length=1, max_length=limits.ATTACHED_CHARS)] | None = Field(
        default=None, description="Of a text: the text."
    )

    @model_validator(mode="after")
    def is_what_it_says(self) -> Self:
        if self.type == "text" and self.content is None:
            raise PydanticCustomError("missing", "a text has content", {"field": "attachments"})
        image = {"media_type": self.media_type, "data": self.data}
        if self.type == "image" and (problem := image_problem(image)) is not None:
            raise PydanticCustomError("image", "{problem}", {"field": "attachments", "problem": problem})
        return self

    def wire(self) -> dict[str, Any]:
        """The attachment without what does not belong to its type."""
        excluded_fields = {"content"} if self.type == "image" else {"media_type", "data"}
        return self.model_dump(exclude_none=True, exclude=excluded_fields)


_Line = Annotated[str, StringConstraints(min_length=1, max_length=limits.ENVIRONMENT_LINE_CHARS, pattern=ONE_LINE)]


class Environment(BaseModel):
    """Where the calls run and how things stand there, for the model: `hello` tells what stays, a message what changes.

    Each is a line of at most 300 characters, except `tree`.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    os: _Line | None = Field(default=None, description="The operating system, such as `Linux 6.1`.")
    shell: _Line | None = Field(default=None, description="What runs commands, such as `bash`.")
    workspace: _Line | None = Field(default=None, description="The workspace's name.")
    sandbox: _Line | None = Field(default=None, description="What commands can reach.")
    date: _Line | None = Field(default=None, description="The date, perhaps with the time, where the user is.")
    git: _Line | None = Field(default=None, description="The branch, and what is not committed.")
    tree: Annotated[str, StringConstraints(min_length=1, max_length=limits.ENVIRONMENT_TREE_CHARS)] | None = Field(
        default=None,
        description="The upper levels of the workspace's files, one name a line, at most 6,000 characters.",
    )

    @property
    def text(self) -> str:
        """What the model reads, a line each; empty if nothing is told."""
        # Models take a name after "workspace:" for a folder in it, and give it as the folder of commands.
        names = {"workspace": "project"}
        lines = [f"{names.get(name, name)}: {value}" for name, value in self if value is not None and name != "tree"]
        return "\n".join(lines if self.tree is None else [*lines, "files, as calls name them:", self.tree])


class UserMessage(ClientFrame):
    """A message of the user. Starts a turn, or waits until the running turn ends."""

    type: Literal["user_message"]
    content: Annotated[str, StringConstraints(min_length=1, max_length=limits.LONG_MESSAGE_CHARS)] = Field(
        description="The message's text: at most 10,000 characters, 100,000 on a connection with extensions."
    )
    role: Literal["user", "assistant", "system", "tool"] = Field(
        default="user",
        description="Who wrote it. The model sees other roles than `user` as quoted text, never as instructions.",
    )
    client_msg_id: Id | None = Field(
        default=None, description="An id of your choice. The server accepts a message with the same id only once."
    )
    when_busy: WhenBusy | None = Field(
        default=None, description="What to do if a turn is running, instead of the session's `when_busy`."
    )
    attachments: Annotated[list[Attachment], Field(max_length=limits.ATTACHMENTS)] = Field(
        default=[],
        description="Images and texts that the model sees with the message. Images need a model that takes them, see "
        "`session_info.models`. A frame over 30 KB goes by `payload_ref`.",
    )
    environment: Environment | None = Field(
        default=None,
        description="How things stand as the message is sent, such as `git` and `date`. The model reads it behind the "
        "message, as data. Nobody else sees it. Not from a viewer.",
    )


class ToolError(BaseModel):
    """Why a tool failed, normalized from the three shapes in the seed documents."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    code: ErrorCode
    message: str


#: The shapes of an error on the wire.
_TOOL_ERROR = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"code": {"type": ["string", "null"]}, "message": {"type": "string"}}},
    ]
}
#: An error, an error code alone, or a result, which may be null.
_ONE_OUTCOME: dict[str, Any] = {
    "anyOf": [
        {"required": ["error"], "properties": {"error": {"not": {"type": "null"}}, "result": {"type": "null"}}},
        {"required": ["result"], "properties": {"error": {"type": "null"}}},
        {"required": ["error_code"], "properties": {"error_code": {"type": "string"}, "error": {"type": "null"}}},
    ]
}


class Offsets(BaseModel):
    """Where a piece of output begins in each stream, in characters from the stream's start."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    stdout: int = Field(default=0, ge=0, le=2**53, description="In its standard output.")
    stderr: int = Field(default=0, ge=0, le=2**53, description="In its standard error.")


class ToolResult(ClientFrame):
    """The outcome of a call: exactly one of `result` (any JSON, including null) and `error`."""

    model_config = ConfigDict(json_schema_extra=_ONE_OUTCOME)

    type: Literal["tool_result"]
    call_id: Id = Field(description="The `call_id` of the `tool_call`.")
    result: Any = Field(default=None, description="What the tool returned: any JSON; null also means success.")
    error: Annotated[ToolError | None, WithJsonSchema(_TOOL_ERROR)] = Field(
        default=None, description="Why the tool failed: a string, or an object with a code and a message."
    )
    error_code: str | None = Field(
        default=None, exclude=True, description="The error's code, if `error` is a string or missing."
    )
    partial: bool = Field(
        default=False,
        description="True: a piece of a running command's output. The call stays open and its deadline restarts.",
    )
    offset: int | None = Field(
        default=None,
        ge=0,
        le=2**53,
        description="Where this piece begins, in characters from the start of the whole output, all streams together.",
    )
    offsets: Offsets | None = Field(
        default=None, description="Where this piece begins in each stream; instead of `offset`, or beside it."
    )

    @model_validator(mode="before")
    @classmethod
    def one_outcome(cls, frame: dict[str, Any]) -> dict[str, Any]:
        error = frame.get("error")
        has_result = frame.get("result") is not None
        if error is not None and has_result:
            raise PydanticCustomError("outcome", "give either result or error, not both", {"field": "error"})
        if error is None and "result" not in frame:
            if "error_code" in frame:
                return {**frame, "error": _tool_error({"message": ""}, frame["error_code"])}
            raise PydanticCustomError("outcome", "give either result or error", {"field": "result"})
        if error is not None:
            frame = {**frame, "error": _tool_error(error, frame.get("error_code"))}
        return frame

    @property
    def start(self) -> int | None:
        """Where this piece begins in the whole output, if the frame says so."""
        if self.offset is not None or self.offsets is None:
            return self.offset
        return self.offsets.stdout + self.offsets.stderr

    @property
    def has_no_exit_code(self) -> bool:
        """Is this a running command's partial output (Agent Protocol, "run_command", "Результат (streaming)")?"""
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
    """Remember this decision for later calls: `approve` and `edit` allow them, `reject` denies them."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    scope: Literal["session", "user"] = Field(description="For this session, or for all sessions of the user.")
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=limits.PATH_CHARS)] | None = Field(
        default=None,
        description="A glob that a call's paths must match, such as `docs/**`; `**` covers every call of the tool. "
        "Without it, the rule covers calls with the same paths or, for a tool without paths, the same arguments.",
    )


class HitlDecision(ClientFrame):
    """The user's decision about a call that awaits approval."""

    model_config = ConfigDict(json_schema_extra=_EDIT_HAS_ARGUMENTS)

    type: Literal["hitl_decision"]
    call_id: Id = Field(description="The call that awaits approval.")
    decision: Literal["approve", "edit", "reject"] = Field(description="The decision. It is final.")
    modified_arguments: dict[str, Any] | None = Field(
        default=None, description="With `edit`: the complete new arguments. They must match the tool's schema."
    )
    feedback: Annotated[str, StringConstraints(max_length=limits.USER_MESSAGE_CHARS)] | None = Field(
        default=None, description="With `reject`: the user's reason, which the model sees."
    )
    remember: Remember | None = Field(
        default=None, description="Remember the decision for similar calls by this agent with this tool."
    )
    mode: ActingMode | None = Field(
        default=None,
        description="With `approve` or `edit` of a plan (`propose_plan`): the mode in which it is carried out. Absent: "
        "the one before `plan`.",
    )

    @model_validator(mode="after")
    def edit_has_arguments(self) -> Self:
        if self.decision == "edit" and self.modified_arguments is None:
            raise PydanticCustomError("missing", "edit requires modified_arguments", {"field": "modified_arguments"})
        return self


class SwitchAgent(ClientFrame):
    """Switch to another agent; with `content`, also send it a message."""

    type: Literal["switch_agent"]
    agent_type: Id = Field(description="The agent's name.")
    content: Annotated[str, StringConstraints(max_length=limits.USER_MESSAGE_CHARS)] = Field(
        default="", description="A user message to the new agent, unless it is empty."
    )
    reason: Annotated[str, StringConstraints(max_length=1_000)] = Field(
        default="", description="Why. `agent_switched` repeats it."
    )
    client_msg_id: Id | None = Field(default=None, description="As in `user_message`, for `content`.")


class ContextFile(BaseModel):
    """The file that a `context_update` adds or removes."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    path: str | None = Field(default=None, description="The file, relative to the workspace. Not needed with `clear`.")
    content: str | None = Field(
        default=None, description="With `add_file`: its content. If absent, the agent reads the file when needed."
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
    """Change the files that the agent sees with every Request. Answered by `context_updated`."""

    model_config = ConfigDict(json_schema_extra=_FILES_HAVE_PATHS)

    type: Literal["context_update"]
    action: Literal["add_file", "remove_file", "clear"] = Field(
        description="`clear` removes all files and keeps the history."
    )
    data: ContextFile = Field(default_factory=ContextFile, description="The file.")
    session_id: Id | None = Field(default=None, description="If given, it must be this connection's session.")

    @model_validator(mode="after")
    def files_have_paths(self) -> Self:
        if self.action != "clear" and self.data.path is None:
            raise PydanticCustomError(
                "missing", "{action} requires a path", {"field": "data.path", "action": self.action}
            )
        return self


class Instruction(BaseModel):
    """A file with instructions of the project, such as AGENTS.md."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    path: Annotated[
        str,
        StringConstraints(min_length=1, max_length=limits.PATH_CHARS, pattern=ONE_LINE),
    ] = Field(description="The file as the user knows it, on one line.")
    content: Annotated[str, StringConstraints(max_length=limits.INSTRUCTION_CHARS)] = Field(
        description="Its content, at most 32,000 characters."
    )


class Hello(ClientFrame):
    """The client introduces itself and turns on extension frames. Answered by `session_info`."""

    type: Literal["hello"]
    client: dict[str, Any] = Field(default_factory=dict, description="The client program: `name` and `version`.")
    platform: Annotated[str, StringConstraints(max_length=32)] | None = Field(
        default=None,
        description="Where commands run: `linux`, `macos` or `windows`. Other values mean unknown. If all clients that "
        "execute calls name one of the first two, paths of calls may have colons, tabs and joined characters, and up "
        "to 4,095 characters.",
    )
    capabilities: Capabilities = Field(
        default_factory=Capabilities, description="What the client can do beyond the basics."
    )
    instructions: Annotated[list[Instruction], Field(max_length=limits.INSTRUCTIONS)] | None = Field(
        default=None,
        description="The project's instructions for whoever works on it, in the order in which the model reads them. "
        "They replace earlier ones; without this field, those stay. Not from a viewer.",
    )
    environment: Environment | None = Field(
        default=None,
        description="Where the calls run, as far as it stays the same. The model reads it before the conversation, as "
        "data. It replaces an earlier one; without this field, that stays. Not from a viewer.",
    )
    agents: AgentDeclarations | None = Field(
        default=None,
        description="Agents of the project or the user that the session's agent can delegate to, if the executor lists "
        "`delegate`; at most 32,000 bytes in all. They replace those that this connection declared before; without "
        "this field, those stay. Not from a viewer.",
    )
    metadata: dict[str, Any] | None = Field(
        default=None,
        description="Facts about the session for lists, such as `cwd` and `project`. They replace those of the same "
        "names, and null removes one; the others stay. At most 16 KB of JSON in all.",
    )

    @model_validator(mode="after")
    def instructions_are_bounded(self) -> Self:
        files = self.instructions or []
        if sum(len(file.path.encode()) + len(file.content.encode()) for file in files) > limits.INSTRUCTIONS_BYTES:
            limit = f"{limits.INSTRUCTIONS_BYTES} bytes"
            raise PydanticCustomError("too_long", "at most {most} in total", {"field": "instructions", "most": limit})
        if len({file.path for file in files}) < len(files):
            raise PydanticCustomError("repeated", "two files have the same path", {"field": "instructions"})
        return self

    @model_validator(mode="after")
    def agents_are_bounded(self) -> Self:
        if not (agents := self.agents):
            return self
        texts = json.dumps([agent.model_dump() for agent in agents], ensure_ascii=False)
        if len(texts.encode()) > limits.AGENTS_BYTES:
            limit = f"{limits.AGENTS_BYTES} bytes"
            raise PydanticCustomError("too_long", "at most {most} in total", {"field": "agents", "most": limit})
        if len({agent.name for agent in agents}) < len(agents):
            raise PydanticCustomError("repeated", "two agents have the same name", {"field": "agents"})
        return self


class Resume(ClientFrame):
    """Replay every frame after `last_seq`, then continue live."""

    type: Literal["resume"]
    last_seq: int = Field(ge=0, description="The client has every frame up to this `seq`; 0: it has none.")


class Cancel(ClientFrame):
    """Stop the running turn. Not an error if no turn is running."""

    type: Literal["cancel"]
    turn_id: Id | None = Field(default=None, description="Stop only this turn.")
    client_msg_id: Id | None = Field(
        default=None,
        description="Cancel only this message: the turn that answers it is stopped; if it waits, it is withdrawn; if "
        "it has not arrived yet, it will not be accepted.",
    )
    queued: bool = Field(default=False, description="True: also withdraw all messages that wait.")


class Withdraw(ClientFrame):
    """Take back a message that waits, or that has not arrived yet. The running turn is not affected."""

    type: Literal["withdraw"]
    client_msg_id: Id = Field(description="The message's id.")


class Compact(ClientFrame):
    """Make the history short for the model now, although that is not due. `compacted` says when it is done."""

    type: Literal["compact"]


class Ping(ClientFrame):
    """Answered by `pong` with the same fields. Keeps API Gateway from closing an idle connection."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    type: Literal["ping"]


class SessionConfig(ClientFrame):
    """Change how the session behaves. Answered by `session_info`."""

    type: Literal["session_config"]
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="The model to use from the next step on, one that the server offers."
    )
    when_busy: WhenBusy | None = Field(
        default=None,
        description="What to do with a message that arrives during a turn: let it wait, give it to the model at the "
        "turn's next step, stop the turn, or refuse the message.",
    )
    mode: Mode | None = Field(
        default=None,
        description="What the agent may do: only read (`ask`), read and propose a plan (`plan`), or act, and ask for "
        "every change (`manual`), for what the operator lists (`code`, the default) or for commands (`autonomous`).",
    )
    last_seq: int | None = Field(
        default=None,
        ge=0,
        description="With `mode`: the newest `seq` that the client has. If the mode was switched after it, this switch "
        "has no effect, so a frame that comes twice or late undoes nothing.",
    )
    autonomy: Autonomy | None = Field(
        default=None,
        description="The older name of `mode`, for the modes in which the agent acts; `balanced` is `code`. Not with "
        "`mode`.",
    )
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="The session's title."
    )
    thinking: Literal["none", "low", "medium", "high"] | None = Field(
        default=None,
        description="How much the model thinks before it answers, one of the levels that `session_info.models` lists "
        "for it.",
    )


_REVOKE_NAMES_A_RULE: dict[str, Any] = {
    "if": {"properties": {"action": {"const": "revoke"}}, "required": ["action"]},
    "then": {"required": ["rule_id"], "properties": {"rule_id": {"type": "string"}}},
}


class Rules(ClientFrame):
    """List the remembered rules, or revoke one. Answered by `rules`."""

    model_config = ConfigDict(json_schema_extra=_REVOKE_NAMES_A_RULE)

    type: Literal["rules"]
    action: Literal["list", "revoke"] = Field(description="What to do.")
    rule_id: Id | None = Field(default=None, description="With `revoke`: the rule to revoke.")

    @model_validator(mode="after")
    def revoke_names_a_rule(self) -> Self:
        if self.action == "revoke" and self.rule_id is None:
            raise PydanticCustomError("missing", "revoke requires rule_id", {"field": "rule_id"})
        return self


class RefreshToken(ClientFrame):
    """Replace the connection's token, before or after it has expired, with a new one of the same user."""

    type: Literal["refresh_token"]
    token: Annotated[str, StringConstraints(min_length=1, max_length=16_384)] = Field(
        description="A JWT whose `sub` is the connection's user."
    )


class UploadRequest(ClientFrame):
    """Request a URL to upload a frame that is too large for a WebSocket message. Answered by `upload_ticket`."""

    type: Literal["upload_request"]
    bytes: int = Field(ge=1, description="The exact size of the frame's JSON in UTF-8 bytes.")


FRAMES: dict[str, type[ClientFrame]] = {
    "user_message": UserMessage,
    "tool_result": ToolResult,
    "hitl_decision": HitlDecision,
    "context_update": ContextUpdate,
    "switch_agent": SwitchAgent,
    "hello": Hello,
    "resume": Resume,
    "cancel": Cancel,
    "withdraw": Withdraw,
    "compact": Compact,
    "ping": Ping,
    "session_config": SessionConfig,
    "refresh_token": RefreshToken,
    "upload_request": UploadRequest,
    "rules": Rules,
}


class Referenced(ClientFrame):
    """Stands for any client frame that was uploaded instead of sent."""

    type: str = Field(description="The frame's type.", json_schema_extra={"enum": list(FRAMES)})
    call_id: Id | None = Field(default=None, description="The frame's `call_id`, if it has one.")
    payload_ref: str = Field(description="The `payload_ref` of the `upload_ticket`.")

    def uploaded(self, body: str) -> ClientFrame:
        """Parse the uploaded frame. Its type and call_id must match this one's.

        A message without an id gets one from the upload, so that a repeat is recognised. Raises ProtocolError.
        """
        frame = parse_frame(body)
        call_id = getattr(frame, "call_id", None)
        if isinstance(frame, Referenced) or (getattr(frame, "type", ""), call_id) != (
            self.type,
            self.call_id or call_id,
        ):
            raise ProtocolError(
                ErrorCode.INVALID_ARGUMENTS,
                "The type and call_id of the uploaded frame must match this frame",
                call_id=self.call_id,
                details={"field": "payload_ref"},
            )
        update = {"request_id": self.request_id} if frame.request_id is None else {}
        if isinstance(frame, UserMessage | SwitchAgent) and frame.client_msg_id is None:
            update["client_msg_id"] = self.payload_ref
        return frame.model_copy(update=update)


#: Looks like a number too large for a double: a big exponent, or hundreds of digits.
_HUGE = re.compile(r"[0-9][eE][+]?[0-9]{3}|[0-9]{300}")

#: Fields in which null is a value: a tool may succeed with a null result.
_NULL_IS_A_VALUE = {"tool_result": frozenset({"result"})}

#: Fields with two accepted names. A frame may have both only if they are equal.
SYNONYMS = (("arguments", "args"), ("modified_arguments", "modified_args"))


#: The fields by which an `error` names the refused frame.
NAMING = ("client_msg_id", "request_id")


def parse_json(body: str) -> Any:
    """Parse JSON. Raises ProtocolError INVALID_FORMAT, also for lone surrogates and numbers beyond a double."""
    try:
        # By default it keeps the last 16,384 short strings, of all users, for the life of the process.
        value = from_json(body, allow_inf_nan=False, cache_strings="none")
        if _HUGE.search(body):
            json.dumps(value, allow_nan=False)  # from_json reads 1e400 as infinity, which JSON cannot represent.
    except ValueError as error:
        raise ProtocolError(ErrorCode.INVALID_FORMAT, f"Invalid JSON: {error}") from None
    return value


def parse_frame(body: str | None) -> ClientFrame:
    """Parse a message body. Returns a `Referenced` if the frame was uploaded.

    Raises ProtocolError: INVALID_FORMAT, INVALID_TYPE, MISSING_FIELD or INVALID_ARGUMENTS.
    """
    raw = parse_json(body or "")
    if not isinstance(raw, dict):
        raise ProtocolError(ErrorCode.INVALID_FORMAT, "A frame must be a JSON object")
    try:
        return _parse(raw)
    except ProtocolError as error:
        for name in NAMING:
            if isinstance(identifier := raw.get(name), str) and 0 < len(identifier) <= limits.ID_CHARS:
                error.names.setdefault(name, identifier)
        raise


def _parse(raw: dict[str, Any]) -> ClientFrame:
    frame_type = raw.get("type")
    if not isinstance(frame_type, str):
        raise ProtocolError(
            ErrorCode.INVALID_TYPE,
            "A frame must have a type, one of " + ", ".join(FRAMES),
            details={"field": "type"},
        )
    model = FRAMES.get(frame_type)
    if model is None:
        raise ProtocolError(
            ErrorCode.INVALID_TYPE,
            f"Unknown type {frame_type[:64]!r}; valid types: " + ", ".join(FRAMES),
            details={"field": "type"},
        )
    call_id = raw.get("call_id")
    call_id = call_id if isinstance(call_id, str) else None
    keep_null = _NULL_IS_A_VALUE.get(frame_type, frozenset())
    fields = {key: value for key, value in raw.items() if value is not None or key in keep_null}
    for name, synonym in SYNONYMS:
        if synonym in fields:
            value = fields.pop(synonym)
            if fields.setdefault(name, value) != value:
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
    """Accepts all three shapes: a string, {code, message}, or either of them beside an `error_code`."""
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
    pydantic_error = error.errors(include_url=False, include_input=False)[0]
    field = pydantic_error.get("ctx", {}).get("field") or ".".join(str(part) for part in pydantic_error["loc"])
    details = {"field": field}
    if pydantic_error["type"] == "missing":
        return ProtocolError(ErrorCode.MISSING_FIELD, f"Missing field: {field}", call_id=call_id, details=details)
    return ProtocolError(
        ErrorCode.INVALID_ARGUMENTS, f"Invalid {field}: {pydantic_error['msg']}", call_id=call_id, details=details
    )
