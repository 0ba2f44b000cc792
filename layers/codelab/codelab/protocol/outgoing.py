"""Frames from the server. `None` is left out on the wire; `seq` is set when a frame is logged.

A seed frame goes to every client; an extension frame only to a connection that asked for extensions.
"""

from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from codelab.protocol.errors import ErrorCode, ProtocolError


class Status(StrEnum):
    """What the agent does (Agent Protocol, "Agent Status")."""

    IDLE = "idle"
    THINKING = "thinking"
    EXECUTING_TOOL = "executing_tool"
    WAITING_APPROVAL = "waiting_approval"
    ERROR = "error"


class ServerFrame(BaseModel):
    """Base of all frames to the client."""

    model_config = ConfigDict(extra="forbid")

    #: Only connections that asked for extensions get it.
    extension: ClassVar[bool] = False

    seq: int | None = None

    def wire(self) -> dict[str, Any]:
        """The frame as it is sent, absent fields left out."""
        return self.model_dump(mode="json", exclude_none=True)


class AssistantMessage(ServerFrame):
    """A delta of the answer; `content` repeats `token` for clients that read that name."""

    type: Literal["assistant_message"] = "assistant_message"
    token: str
    content: str
    is_final: bool
    message_id: str
    turn_id: str
    agent: str | None = None
    aborted: bool | None = None


class ToolCall(ServerFrame):
    """A call for the IDE: to show for approval, or (`requires_approval: false`) to execute."""

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    requires_approval: bool
    turn_id: str | None = None
    deadline: int | None = None
    risk: str | None = None
    reason: str | None = None
    execute: bool | None = None

    def wire(self) -> dict[str, Any]:
        frame = super().wire()
        frame["arguments"] = self.arguments  # a null inside the arguments is the tool's business
        return frame


class AgentStatus(ServerFrame):
    type: Literal["agent_status"] = "agent_status"
    status: Status
    message: str


class Error(ServerFrame):
    """A refusal of one frame (no `seq`), or the failure of a turn (with one)."""

    type: Literal["error"] = "error"
    content: str
    message: str
    error_code: ErrorCode
    details: dict[str, Any]
    retryable: bool
    call_id: str | None = None

    @classmethod
    def of(cls, error: ProtocolError) -> "Error":
        return cls(
            content=error.message,
            message=error.message,
            error_code=error.code,
            details=error.details,
            retryable=error.retryable,
            call_id=error.call_id,
        )


class TurnEnd(ServerFrame):
    extension: ClassVar[bool] = True

    type: Literal["turn_end"] = "turn_end"
    turn_id: str
    reason: Literal["completed", "cancelled", "max_steps", "refused", "error"]
    usage: dict[str, Any]


class AgentSwitched(ServerFrame):
    """Another agent answers from here on. The seed's clients read the fields at the top or in `metadata`."""

    type: Literal["agent_switched"] = "agent_switched"
    content: str
    from_agent: str
    to_agent: str
    reason: str
    timestamp: str
    confidence: float | None = None
    metadata: dict[str, Any]


class CallUpdate(ServerFrame):
    """What became of a call that another connection, the time or a cancel has decided."""

    extension: ClassVar[bool] = True

    type: Literal["call_update"] = "call_update"
    call_id: str
    state: str


class ToolProgress(ServerFrame):
    """A piece of a running command's output, as its executor sent it."""

    extension: ClassVar[bool] = True

    type: Literal["tool_progress"] = "tool_progress"
    call_id: str
    offset: int | None = None
    result: Any = None


class PendingCall(BaseModel):
    """A call that is still open, in `session_info` and `resumed`."""

    call_id: str
    tool_name: str
    state: str
    deadline: int


class SessionInfo(ServerFrame):
    """The session as it is; the answer to `hello` and `session_config`."""

    extension: ClassVar[bool] = True

    type: Literal["session_info"] = "session_info"
    session_id: str
    agent: str
    status: Status
    title: str
    turn_id: str | None = None
    last_seq: int
    pending_calls: list[PendingCall]
    settings: dict[str, Any]
    limits: dict[str, int]
    protocol_version: str


class Resumed(ServerFrame):
    """The replay is complete (with `more`: ask again). Only `open_calls` are still to be executed."""

    extension: ClassVar[bool] = True

    type: Literal["resumed"] = "resumed"
    last_seq: int
    open_calls: list[PendingCall]
    more: bool | None = None


class ResyncRequired(ServerFrame):
    """The log does not reach back to the client's `last_seq`: read the history instead."""

    extension: ClassVar[bool] = True

    type: Literal["resync_required"] = "resync_required"
    last_seq: int


class Pong(ServerFrame):
    model_config = ConfigDict(extra="allow")

    extension: ClassVar[bool] = True

    type: Literal["pong"] = "pong"


class Queued(ServerFrame):
    """The message was accepted and waits for the running turn to end."""

    extension: ClassVar[bool] = True

    type: Literal["queued"] = "queued"
    client_msg_id: str
    position: int


class MessageDiscarded(ServerFrame):
    """The step that streamed this message died; what follows is a new message."""

    extension: ClassVar[bool] = True

    type: Literal["message_discarded"] = "message_discarded"
    message_id: str
    turn_id: str
