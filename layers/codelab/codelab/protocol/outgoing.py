"""Frames from the server. `None` is left out on the wire; `seq` is set when a frame is logged.

A seed frame goes to every client; an extension frame only to a connection that asked for extensions.
"""

from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

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
    #: Fields that may be sent as null.
    nulls: ClassVar[frozenset[str]] = frozenset()

    seq: int | None = Field(
        default=None, description="The frame's number in the session: 1, 2, 3, … A reply to one connection has none."
    )

    def wire(self) -> dict[str, Any]:
        """The frame as it is sent, absent fields left out."""
        return self.model_dump(mode="json", exclude_none=True)


class AssistantMessage(ServerFrame):
    """A delta of the answer; `content` repeats `token` for clients that read that name."""

    type: Literal["assistant_message"] = "assistant_message"
    token: str = Field(description="The next piece of the text. May be empty in the last frame of a message.")
    content: str = Field(description="The same as `token`.")
    is_final: bool = Field(description="The message ends with this frame. Exactly one frame of a message says so.")
    message_id: str = Field(description="Which message this is a piece of.")
    turn_id: str = Field(description="The turn that answers.")
    agent: str | None = Field(default=None, description="The agent that speaks.")
    aborted: bool | None = Field(default=None, description="True: the message was cut off, and what it said is void.")


class PayloadFrame(ServerFrame):
    """A frame whose `payload_field` may be too large to be posted: then `payload_url` is where it can be fetched
    (JSON of `payload_bytes` bytes). Both are made when the frame is posted, and never logged.
    """

    payload_field: ClassVar[str]

    payload_url: str | None = Field(
        default=None, description="Where the field that is missing can be fetched, as JSON. For an hour; never logged."
    )
    payload_bytes: int | None = Field(default=None, description="How many bytes are there.")


class Remembrance(BaseModel):
    """What an approval of a call may be remembered as."""

    rule: str = Field(description="What it covers without a pattern, for people to read: a command is shown whole.")
    scopes: list[Literal["session", "user"]] = Field(description="The scopes that `remember` may have.")


class ToolCall(PayloadFrame):
    """A call for the IDE: to show for approval, or (`requires_approval: false`) to execute."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["arguments"]}, {"required": ["payload_url", "payload_bytes"]}]}
    )

    payload_field: ClassVar[str] = "arguments"
    nulls: ClassVar[frozenset[str]] = frozenset({"remember"})

    type: Literal["tool_call"] = "tool_call"
    call_id: str = Field(description="Names the call in every frame about it. Execute a `call_id` once.")
    tool_name: str = Field(description="A tool of the catalogue, or one that the client has declared.")
    arguments: dict[str, Any] | None = Field(
        default=None, description="What the tool's schema asks for. Missing where there is a `payload_url`."
    )
    requires_approval: bool = Field(description="True: ask the user and send `hitl_decision`. False: execute it.")
    turn_id: str | None = Field(default=None, description="The turn that the call belongs to.")
    deadline: int | None = Field(
        default=None, description="When the call ends unanswered, in milliseconds since the epoch."
    )
    risk: str | None = Field(
        default=None, description="What the call can do.", json_schema_extra={"enum": ["read", "write", "execute"]}
    )
    reason: str | None = Field(default=None, description="The remembered rule that has approved it, if one has.")
    remember: Remembrance | None = Field(
        default=None,
        description="Where you are asked: what your approval may be remembered as; null: it is asked about every time. "
        "Only with extensions.",
    )
    execute: bool | None = Field(
        default=None, description="False: shown here, executed in another window. Only with extensions."
    )
    args: dict[str, Any] | None = Field(
        default=None, description="The same as `arguments`, for a connection with `profile=args`."
    )

    def wire(self) -> dict[str, Any]:
        frame = super().wire()
        if self.arguments is not None:
            frame["arguments"] = self.arguments  # a null inside the arguments is the tool's business
        if self.requires_approval:
            frame.setdefault("remember", None)
        return frame


class AgentStatus(ServerFrame):
    """What the agent does now, sent when it changes. `idle` ends a turn."""

    type: Literal["agent_status"] = "agent_status"
    status: Status = Field(description="One of five.")
    message: str = Field(description="The same for a human.")


class Error(ServerFrame):
    """A refusal of one frame (no `seq`), or the failure of a turn (with one)."""

    type: Literal["error"] = "error"
    content: str = Field(description="What is wrong, for a human.")
    message: str = Field(description="The same as `content`.")
    error_code: ErrorCode = Field(description="What is wrong, for a program.")
    details: dict[str, Any] = Field(description="What helps to correct it: `field` names the offending field.")
    retryable: bool = Field(description="Can the same succeed when it is sent again later?")
    call_id: str | None = Field(default=None, description="The call that the refused frame named.")
    retry_after: int | None = Field(
        default=None, description="In how many seconds to try again, where that is known; also in `details`."
    )

    @classmethod
    def of(cls, error: ProtocolError) -> "Error":
        return cls(
            content=error.message,
            message=error.message,
            error_code=error.code,
            details=error.details,
            retryable=error.retryable,
            call_id=error.call_id,
            retry_after=error.details.get("retry_after"),
        )


class PromptDetails(BaseModel):
    """What the prompts of a turn's answers were made of, in tokens, estimated.

    The Request that chooses an agent is not among them.
    """

    system_tokens: int = Field(description="The agent's instructions.")
    tools_tokens: int = Field(description="The tools it may call.")
    files_tokens: int = Field(description="The context files.")
    history_tokens: int = Field(description="The conversation, with the results of calls.")


class TurnUsage(BaseModel):
    """What a turn has used, all its Requests together."""

    prompt_tokens: int = Field(description="Tokens that the model has read, as the provider counts them.")
    completion_tokens: int = Field(description="Tokens that it has written.")
    cached_tokens: int = Field(description="Those of the prompt that the provider had in its cache.")
    llm_calls: int = Field(description="How often the model was asked.")
    cost_usd: float | None = Field(default=None, description="What that costs, if the prices of all models are known.")
    prompt_details: PromptDetails = Field(description="The prompts by what they were made of.")


class TurnEnd(ServerFrame):
    """A turn is over: how it ended and what it cost."""

    extension: ClassVar[bool] = True

    type: Literal["turn_end"] = "turn_end"
    turn_id: str = Field(description="The turn that ended.")
    reason: Literal["completed", "cancelled", "max_steps", "refused", "budget", "error"] = Field(
        description="How it ended; `refused`: the model declined to answer; `budget`: the user's tokens of the day are "
        "used up."
    )
    usage: TurnUsage = Field(description="Tokens, model calls and, where prices are known, the cost of the whole turn.")
    final_text_sha256: str | None = Field(
        default=None,
        description="SHA-256 (hex) of the UTF-8 of the turn's last message, to check what was put together from its "
        "deltas. Absent where the turn ended without one.",
    )
    title: str = Field(description="The session's title as it is now: the model gives it one in its first answer.")


class AgentSwitched(ServerFrame):
    """Another agent answers from here on. `metadata` says it once more, for clients that look there."""

    type: Literal["agent_switched"] = "agent_switched"
    content: str = Field(description="The switch in a sentence.")
    from_agent: str = Field(description="Who answered until now.")
    to_agent: str = Field(description="Who answers from here on.")
    reason: str = Field(description="Why.")
    timestamp: str = Field(description="When, in ISO 8601 with UTC offset.")
    confidence: float | None = Field(default=None, description="How sure a router was, from 0 to 1.")
    metadata: dict[str, Any] = Field(
        description="`from_agent`, `to_agent`, `reason`, `timestamp` and `confidence` once more."
    )


class ContextUpdated(ServerFrame):
    """What the context holds now; the answer to `context_update`."""

    extension: ClassVar[bool] = True

    type: Literal["context_updated"] = "context_updated"
    action: str = Field(description="What was done: the action of the `context_update`.")
    path: str | None = Field(default=None, description="The file that it was done to.")
    files: int = Field(description="How many files there are now.")
    context_size: int = Field(description="What they take of the model's context, in tokens, estimated.")


class PlanStep(BaseModel):
    """One item of a plan."""

    text: str = Field(description="What is done in this step.")
    status: Literal["pending", "in_progress", "completed"] = Field(description="How far it is.")


class Plan(ServerFrame):
    """The agent's plan as it stands; it replaces the one before. No items: there is none any more."""

    extension: ClassVar[bool] = True

    type: Literal["plan"] = "plan"
    turn_id: str = Field(description="The turn in which the agent has made it.")
    items: list[PlanStep] = Field(description="All steps in order.")


class CallUpdate(ServerFrame):
    """What became of a call that another connection, the time or a cancel has decided."""

    extension: ClassVar[bool] = True

    type: Literal["call_update"] = "call_update"
    call_id: str = Field(description="The call.")
    state: str = Field(
        description="Its state from now on.",
        json_schema_extra={"enum": ["completed", "failed", "rejected", "expired", "cancelled"]},
    )


class ToolProgress(PayloadFrame):
    """A piece of a running command's output, as its executor sent it."""

    extension: ClassVar[bool] = True
    payload_field: ClassVar[str] = "result"

    type: Literal["tool_progress"] = "tool_progress"
    call_id: str = Field(description="The call whose command runs.")
    offset: int | None = Field(default=None, description="Where the piece begins, as its executor said.")
    result: Any = Field(default=None, description="The piece, as its executor sent it.")


class PendingCall(BaseModel):
    """A call that is still open, in `session_info` and `resumed`."""

    call_id: str = Field(description="The call.")
    tool_name: str = Field(description="Its tool.")
    state: str = Field(description="What it waits for.", json_schema_extra={"enum": ["awaiting_approval", "executing"]})
    deadline: int = Field(description="When it ends unanswered, in milliseconds since the epoch.")


class Quota(BaseModel):
    """What a user may use of something, all sessions together."""

    used: int = Field(description="What was used since the window began; of open turns those that are open.")
    limit: int = Field(description="What may be used.")
    resets_at: int | None = Field(
        default=None, description="When the window ends, in milliseconds since the epoch; absent for open turns."
    )


class SessionInfo(ServerFrame):
    """The session as it is; the answer to `hello`, `session_config` and `refresh_token`."""

    extension: ClassVar[bool] = True

    type: Literal["session_info"] = "session_info"
    session_id: str = Field(description="The session, also when the server has made up its id.")
    agent: str = Field(description="The agent that answers.")
    status: Status = Field(description="What it does now.")
    title: str = Field(description="The session's title, empty while it has none.")
    turn_id: str | None = Field(default=None, description="The running turn.")
    last_seq: int = Field(description="The `seq` of the newest frame.")
    pending_calls: list[PendingCall] = Field(description="The calls that are still open.")
    plan: list[PlanStep] = Field(description="The agent's plan as it stands, empty while it has none.")
    settings: dict[str, Any] = Field(description="What `session_config` has set.")
    limits: dict[str, int] = Field(description="Sizes and counts that the server allows.")
    quotas: dict[str, Quota] | None = Field(
        default=None,
        description="What the user may use, by name: `messages_per_minute`, `requests_per_minute`, `tokens_per_day`, "
        "`connections_per_minute`, `stored_bytes_per_day`, `open_turns`. What has no limit is not named.",
    )
    protocol_version: str = Field(description="The version of this protocol that the server speaks.")


class RuleInfo(BaseModel):
    """A decision that is made without asking."""

    rule_id: str = Field(description="Names the rule, for `revoke`.")
    scope: Literal["session", "user"] = Field(description="Where it counts.")
    agent: str = Field(
        description="The agent whose call was decided about; empty for calls that were made over HTTP. One that allows "
        "is about the calls of this agent, one that denies about everybody's."
    )
    tool_name: str = Field(description="The tool that they call.")
    decision: Literal["allow", "deny"] = Field(description="A rule that denies wins over any that allows.")
    pattern: str | None = Field(default=None, description="The glob that paths must match, if it was given one.")
    covers: str = Field(description="What it covers, for people to read.")
    created_at: int = Field(description="When it was made, in milliseconds since the epoch.")


class RuleList(ServerFrame):
    """What was remembered; the answer to `rules`."""

    extension: ClassVar[bool] = True

    type: Literal["rules"] = "rules"
    rules: list[RuleInfo] = Field(description="Those of the session, then those of the user, the oldest first.")


class Resumed(ServerFrame):
    """The replay is complete (with `more`: ask again). Only `open_calls` are still to be executed."""

    extension: ClassVar[bool] = True

    type: Literal["resumed"] = "resumed"
    last_seq: int = Field(description="The replay reached to this `seq`.")
    open_calls: list[PendingCall] = Field(description="The calls that are still open; no others are to be executed.")
    more: bool | None = Field(default=None, description="True: there are later frames, send `resume` again.")


class ResyncRequired(ServerFrame):
    """The log does not reach back to the client's `last_seq`: read the history instead."""

    extension: ClassVar[bool] = True

    type: Literal["resync_required"] = "resync_required"
    last_seq: int = Field(description="The `seq` of the newest frame.")


class Pong(ServerFrame):
    """The answer to `ping`, with all of its fields."""

    model_config = ConfigDict(extra="allow")

    extension: ClassVar[bool] = True

    type: Literal["pong"] = "pong"


class Queued(ServerFrame):
    """The message was accepted and waits for the running turn to end."""

    extension: ClassVar[bool] = True

    type: Literal["queued"] = "queued"
    client_msg_id: str = Field(description="The message, by the client's id or one that the server has made.")
    position: int = Field(description="Its place in the queue, from 1.")


class UploadTicket(ServerFrame):
    """Where to upload a frame, once; the answer to `upload_request`."""

    extension: ClassVar[bool] = True

    type: Literal["upload_ticket"] = "upload_ticket"
    payload_ref: str = Field(description="Names the upload in the frame that stands for it.")
    url: str = Field(description="PUT the frame's JSON here.")
    headers: dict[str, str] = Field(description="Send exactly these with it.")
    expires_at: int = Field(description="Until when it can be uploaded and named, in milliseconds since the epoch.")


class MessageDiscarded(ServerFrame):
    """The step that streamed this message died; what follows is a new message."""

    extension: ClassVar[bool] = True

    type: Literal["message_discarded"] = "message_discarded"
    message_id: str = Field(description="The message whose text is void.")
    turn_id: str = Field(description="The turn that answers anew.")
