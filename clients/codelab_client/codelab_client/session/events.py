"""Typed events: each frame of the server as a dataclass, and what happens on the client itself.

The names and fields are those of docs/frames.md. A server is not trusted: a frame whose fields have other types raises
`MalformedFrame`, and a frame of an unknown type becomes `UnknownFrame`.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from codelab_client.execution import Stream, ToolOutcome

#: The tool that proposes a plan: a human's decision alone accepts it.
PLAN = "propose_plan"
#: The tool that begins a subagent: the server executes it, and no client.
DELEGATE = "delegate"
#: Integers beyond this are not exact in JSON.
_LARGEST = 2**53
#: Fields that the journal has, which takes no surrogates.
_RECORDED = frozenset({"call_id", "tool_name"})


class MalformedFrame(ValueError):
    """A frame is not as docs/frames.md describes it. The text names the type and the field."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events. `frame` is the frame as it was received; empty for events of the client itself."""

    frame: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    #: The frame's number in the session; None for a reply to this connection and for events of the client itself.
    seq: int | None = None

    @property
    def request_id(self) -> str | None:
        """The `request_id` of the frame that this answers, if it had one."""
        value = self.frame.get("request_id")
        return value if isinstance(value, str) else None


@dataclass(frozen=True, kw_only=True)
class AssistantMessage(Event):
    """A piece of the answer. With `aborted`, the message's text must be discarded."""

    token: str
    message_id: str
    turn_id: str
    is_final: bool = False
    agent: str | None = None
    aborted: bool = False


@dataclass(frozen=True, kw_only=True)
class AssistantThought(Event):
    """A piece of the model's thoughts before the message `message_id`, which may turn out to have no text."""

    content: str
    message_id: str
    turn_id: str
    agent: str | None = None


@dataclass(frozen=True, kw_only=True)
class UserMessage(Event):
    """A user's message was given to the agent, from this window or another one.

    content: None while it is at `payload_url`.
    """

    client_msg_id: str
    turn_id: str
    role: str = "user"
    content: str | None = None
    payload_url: str | None = None
    payload_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class MessageDiscarded(Event):
    """The text of this message must be discarded; another answer follows."""

    message_id: str


@dataclass(frozen=True, kw_only=True)
class ToolCall(Event):
    """A call, to decide about (`requires_approval`) or to execute. The session executes it by itself.

    arguments: None while they are at `payload_url`; the session fetches them before it shows the call.
    remember: what an approval can be remembered as, {"rule", "scopes"}, or None if such calls always need approval.
    repeatable: whether the server leaves it to this client to approve the same command again (`AllowedCommands`).
    deadline: milliseconds since the epoch.
    parent_call_id: the subagent that makes it, see `SubagentUpdate`.
    """

    call_id: str
    tool_name: str
    requires_approval: bool
    arguments: dict[str, Any] | None = None
    turn_id: str | None = None
    deadline: int | None = None
    risk: str | None = None
    reason: str | None = None
    remember: dict[str, Any] | None = None
    repeatable: bool = False
    execute: bool = True
    payload_url: str | None = None
    payload_bytes: int | None = None
    parent_call_id: str | None = None

    @property
    def scopes(self) -> list[str]:
        """Where an approval can be remembered: `session`, `user`, both or nowhere."""
        scopes = (self.remember or {}).get("scopes")
        return [scope for scope in scopes if scope in ("session", "user")] if isinstance(scopes, list) else []

    @property
    def is_plan(self) -> bool:
        """Whether it proposes a plan, which the agent carries out once a human has accepted it."""
        return self.tool_name == PLAN and self.requires_approval


@dataclass(frozen=True, kw_only=True)
class ToolCallDraft(Event):
    """A call that the model is writing, as far as it has come; with `withdrawn`, it is void. See `CallDrafts`."""

    message_id: str
    turn_id: str
    index: int
    tool_name: str = ""
    path: str | None = None
    chars: int = 0
    lines: int = 0
    tail: str = ""
    withdrawn: bool = False


@dataclass(frozen=True, kw_only=True)
class CallDecidedElsewhere(ToolCall):
    """A released call that this client's user has not decided about: `approve` or `reject` say whether it runs here.

    Another window, a program over HTTP, a rule or the session's mode may have approved it, or nobody. It cannot be
    edited. `requires_approval` is true.

    asked_by: the entry of the project's permissions that asks about it, in words; then it may also be a call that
    needs no approval otherwise.
    """

    asked_by: str = ""

    is_plan = False

    @classmethod
    def of(cls, call: ToolCall, asked_by: str = "") -> "CallDecidedElsewhere":
        """The event for a released call."""
        fields = {member.name: getattr(call, member.name) for member in dataclasses.fields(ToolCall)}
        return cls(**{**fields, "requires_approval": True, "remember": None, "repeatable": False}, asked_by=asked_by)


@dataclass(frozen=True, kw_only=True)
class ToolProgress(Event):
    """A piece of output of a command that another connection runs."""

    call_id: str
    result: Any = None
    offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class CallUpdate(Event):
    """A call is settled. If this connection settled it, the server says only the state.

    state: `completed`, `failed`, `rejected`, `expired` or `cancelled`. decision: the human's; arguments: what replaced
    the agent's. The outcome is `result` or `error`, or too large for the frame.
    """

    call_id: str
    state: str
    decision: str | None = None
    feedback: str | None = None
    arguments: dict[str, Any] | None = None
    result: Any = None
    error: dict[str, Any] | None = None

    @property
    def outcome(self) -> ToolOutcome | None:
        """The outcome, if the frame has it."""
        if self.error is not None:
            code, message = (str(self.error.get(name) or "") for name in ("code", "message"))
            return ToolOutcome.failed(code, message)
        return ToolOutcome(self.result) if "result" in self.frame else None


@dataclass(frozen=True, kw_only=True)
class SubagentUpdate(Event):
    """A subagent works on a part of the turn (`running`), or has ended: `completed`, `failed` or `cancelled`.

    text: what it has written last, shortened as its task is. Its calls have its `call_id` as `parent_call_id`.
    """

    call_id: str
    agent: str
    task: str
    state: str
    turn_id: str | None = None
    step: int | None = None
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class AgentStatus(Event):
    """What the agent is doing: `idle`, `thinking`, `executing_tool`, `waiting_approval` or `error`."""

    status: str
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class AgentSwitched(Event):
    """Another agent answers from now on."""

    from_agent: str
    to_agent: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ModeSwitched(Event):
    """The session has another mode from now on; `call_id` is the plan whose acceptance switched it."""

    from_mode: str
    to_mode: str
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Error(Event):
    """The refusal of a frame (no `seq`), or the failure of a turn (with one). retry_after: seconds."""

    message: str
    error_code: str
    retryable: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    call_id: str | None = None
    retry_after: int | None = None


@dataclass(frozen=True, kw_only=True)
class TurnEnd(Event):
    """A turn ended: `completed`, `cancelled`, `max_steps`, `refused`, `budget` or `error`; `usage` is what it cost."""

    turn_id: str
    reason: str
    usage: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    final_text_sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan(Event):
    """The agent's plan, which replaces the one before: a list of {"text", "status"}."""

    items: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Queued(Event):
    """A message waits for the running turn. position: from 1. preview: the beginning of its text."""

    client_msg_id: str
    position: int
    preview: str = ""
    steer: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Withdrawn(Event):
    """Messages that waited were taken back."""

    client_msg_ids: list[str]


@dataclass(frozen=True, kw_only=True)
class Compacted(Event):
    """A compaction that a client asked for has ended: `summarised`, `unchanged` or `failed`. Tokens are estimates."""

    outcome: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, kw_only=True)
class Ack(Event):
    """What became of a frame with a `request_id` that has no other answer."""

    outcome: str
    turn_id: str | None = None
    client_msg_id: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class SessionInfo(Event):
    """The session's state. model, mode: the one that answers next, what the agent may do; empty if the server does not
    say.
    """

    session_id: str
    agent: str
    status: str
    last_seq: int
    title: str = ""
    turn_id: str | None = None
    pending_calls: list[dict[str, Any]] = field(default_factory=list)
    plan: list[dict[str, Any]] = field(default_factory=list)
    mode: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    quotas: dict[str, Any] | None = None
    protocol_version: str = ""
    model: str = ""
    agents: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    queued: list[dict[str, Any]] = field(default_factory=list)
    subagents: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Rules(Event):
    """The remembered rules: {"rule_id", "scope", "agent", "tool_name", "decision", "covers", …}."""

    rules: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ContextUpdated(Event):
    """The context files changed. context_size: estimated tokens."""

    action: str
    files: int
    context_size: int
    path: str | None = None


@dataclass(frozen=True, kw_only=True)
class UploadTicket(Event):
    """Where to upload a frame, once."""

    payload_ref: str
    url: str
    headers: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Resumed(Event):
    """A replay is complete, up to `last_seq`; `more`: there are more frames."""

    last_seq: int
    open_calls: list[dict[str, Any]]
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class ResyncRequired(Event):
    """Frames are missing, because the server's log does not reach back that far: read the history over HTTP."""

    last_seq: int


@dataclass(frozen=True, kw_only=True)
class Pong(Event):
    """The answer to a ping."""


@dataclass(frozen=True, kw_only=True)
class GatewayError(Event):
    """API Gateway could not process a frame, which may have been accepted. `Busy` says when it is sent again."""

    message: str


@dataclass(frozen=True, kw_only=True)
class UnknownFrame(Event):
    """A frame of a type that this client does not know."""

    type: str


@dataclass(frozen=True, kw_only=True)
class Connected(Event):
    """The connection is open, and everything missed has been replayed. again: after `Disconnected` or `Busy`."""

    again: bool


@dataclass(frozen=True, kw_only=True)
class Disconnected(Event):
    """The connection is lost. The session connects again after `retry_in` seconds."""

    why: str
    retry_in: float


@dataclass(frozen=True, kw_only=True)
class Busy(Event):
    """The server takes no frames for the moment. The session sends nothing for `retry_in` seconds, then tries again."""

    why: str
    retry_in: float


@dataclass(frozen=True, kw_only=True)
class CallStarted(Event):
    """This client has begun to execute a call."""

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class CallOutput(Event):
    """A command that this client runs wrote output."""

    call_id: str
    stream: Stream
    text: str


@dataclass(frozen=True, kw_only=True)
class CallFinished(Event):
    """This client has executed a call; the outcome is in the journal and about to be sent."""

    call_id: str
    tool_name: str
    outcome: ToolOutcome


@dataclass(frozen=True, kw_only=True)
class Ignored(Event):
    """The client ignored a frame of the server because it is malformed."""

    why: str


def _is_unicode(value: Any) -> bool:
    return not isinstance(value, str) or not any("\ud800" <= character <= "\udfff" for character in value)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


_CHECKS: dict[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: _integer,
    dict[str, Any]: lambda value: isinstance(value, dict),
    list[dict[str, Any]]: _objects,
    list[str]: lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    bool | None: lambda value: value is None or isinstance(value, bool),
    str | None: lambda value: value is None or isinstance(value, str),
    int | None: lambda value: value is None or _integer(value),
    dict[str, Any] | None: lambda value: value is None or isinstance(value, dict),
    Any: lambda _: True,
}

_TYPES: dict[str, type[Event]] = {
    "assistant_message": AssistantMessage,
    "assistant_thought": AssistantThought,
    "user_message": UserMessage,
    "message_discarded": MessageDiscarded,
    "tool_call": ToolCall,
    "tool_call_draft": ToolCallDraft,
    "tool_progress": ToolProgress,
    "call_update": CallUpdate,
    "subagent_update": SubagentUpdate,
    "agent_status": AgentStatus,
    "agent_switched": AgentSwitched,
    "mode_switched": ModeSwitched,
    "error": Error,
    "turn_end": TurnEnd,
    "plan": Plan,
    "queued": Queued,
    "withdrawn": Withdrawn,
    "compacted": Compacted,
    "ack": Ack,
    "session_info": SessionInfo,
    "rules": Rules,
    "context_updated": ContextUpdated,
    "upload_ticket": UploadTicket,
    "resumed": Resumed,
    "resync_required": ResyncRequired,
    "pong": Pong,
}
_FIELDS = {kind: [item for item in dataclasses.fields(kind) if item.name != "frame"] for kind in _TYPES.values()}


def read(message: str) -> Event:
    """The event of a WebSocket message of the server. Raises MalformedFrame."""
    try:
        frame = json.loads(message)
    except (ValueError, RecursionError):
        raise MalformedFrame("not JSON") from None
    if not isinstance(frame, dict):
        raise MalformedFrame("not a JSON object")
    return event_of(frame)


def event_of(frame: dict[str, Any]) -> Event:
    """The event of a frame. Raises MalformedFrame."""
    name = frame.get("type")
    if name is None and isinstance(frame.get("message"), str):
        return GatewayError(message=frame["message"], frame=frame)
    if not isinstance(name, str):
        raise MalformedFrame("a frame without a type")
    kind = _TYPES.get(name)
    if kind is None:
        seq = frame.get("seq")
        if not _CHECKS[int | None](seq):
            raise MalformedFrame(f"{name[:40]}.seq")
        return UnknownFrame(type=name[:100], seq=seq, frame=frame)
    values = {}
    for member in _FIELDS[kind]:
        if member.name not in frame:
            if member.default is dataclasses.MISSING and member.default_factory is dataclasses.MISSING:
                raise MalformedFrame(f"{name}.{member.name} is missing")
        elif not _CHECKS[member.type](frame[member.name]):
            raise MalformedFrame(f"{name}.{member.name} has a wrong type")
        elif member.name in _RECORDED and not _is_unicode(frame[member.name]):
            raise MalformedFrame(f"{name}.{member.name} has half a character")
        else:
            values[member.name] = frame[member.name]
    return kind(frame=frame, **values)


#: The events of the client itself, by the `type` that `as_json` gives them.
_OF_CLIENT: dict[type[Event], str] = {
    Connected: "client.connected",
    Disconnected: "client.disconnected",
    Busy: "client.busy",
    CallDecidedElsewhere: "client.call_decided_elsewhere",
    CallStarted: "client.call_started",
    CallOutput: "client.call_output",
    CallFinished: "client.call_finished",
    Ignored: "client.ignored",
}


@dataclass(frozen=True)
class _Encoder:
    """Turns an event into JSON."""

    hidden_names: ClassVar[frozenset[str]] = frozenset({"frame", "seq", "outcome"})

    def fields(self, event: Event) -> dict[str, Any]:
        fields = {
            member.name: getattr(event, member.name)
            for member in dataclasses.fields(event)
            if member.name not in self.hidden_names
        }
        if isinstance(event, CallFinished):
            fields.update(event.outcome.fields())
        return {"type": _OF_CLIENT[type(event)], **fields}


def as_json(event: Event) -> dict[str, Any]:
    """The event as JSON: the server's frame as it came, or an object with a `type` that begins with `client.`."""
    return dict(event.frame) if type(event) not in _OF_CLIENT else _Encoder().fields(event)
