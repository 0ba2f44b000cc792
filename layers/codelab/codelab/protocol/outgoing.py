"""Frames from the server. `None` is omitted on the wire; `seq` is set when a frame is logged.

Every client gets the seed documents' frames; extension frames only go to connections that asked for extensions.
"""

from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.modes import Mode
from codelab.protocol.tools.tool import Kind


class Status(StrEnum):
    """What the agent is doing (Agent Protocol, "Agent Status")."""

    IDLE = "idle"
    THINKING = "thinking"
    EXECUTING_TOOL = "executing_tool"
    WAITING_APPROVAL = "waiting_approval"
    ERROR = "error"


#: What became of a frame that has no other answer.
Acknowledged = Literal[
    "accepted",
    "repeated",
    "started",
    "queued",
    "cancelling",
    "nothing_to_cancel",
    "withdrawn",
    "nothing_to_withdraw",
    "compacting",
    "nothing_to_compact",
    "switched",
    "unchanged",
]


class _Part(BaseModel):
    # Most functions send only a few kinds of frame.
    model_config = ConfigDict(defer_build=True)


class ServerFrame(BaseModel):
    """Base of all frames to the client."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    #: Sent only to connections that asked for extensions.
    extension: ClassVar[bool] = False
    #: Fields that may be sent as null.
    nulls: ClassVar[frozenset[str]] = frozenset()

    seq: int | None = Field(
        default=None,
        description="The frame's number in the session: 1, 2, 3, … A reply to a single connection has none.",
    )
    at: int | None = Field(
        default=None,
        description="When the frame was logged, in milliseconds since the epoch. Only with extensions.",
    )

    def wire(self) -> dict[str, Any]:
        """The frame as it is sent, without absent fields."""
        return self.model_dump(mode="json", exclude_none=True)


class Reply(ServerFrame):
    """Base of the answers to a frame of one connection."""

    request_id: str | None = Field(
        default=None, description="The `request_id` of the frame that this answers, if it had one."
    )


class AssistantMessage(ServerFrame):
    """A delta of the answer. `content` repeats `token`: the seed documents use both names."""

    type: Literal["assistant_message"] = "assistant_message"
    token: str = Field(description="The next piece of the text. It may be empty in a message's last frame.")
    content: str = Field(description="The same as `token`.")
    is_final: bool = Field(description="True in exactly one frame of a message, the last.")
    message_id: str = Field(description="The message that this delta belongs to.")
    turn_id: str = Field(description="The turn that the message belongs to.")
    agent: str | None = Field(default=None, description="The agent that wrote it.")
    aborted: bool | None = Field(default=None, description="True: the message was cut off; discard its text.")


class PayloadFrame(ServerFrame):
    """A frame whose `payload_field` may be too large to post; the client then fetches it from `payload_url`."""

    payload_field: ClassVar[str]
    #: Bytes of the field, as JSON, that the log keeps at most; more becomes an object in S3.
    kept_bytes: ClassVar[int] = limits.CONTENT_BYTES

    payload_url: str | None = Field(
        default=None, description="Where to fetch the missing field as JSON. Valid for an hour; not in the log."
    )
    payload_bytes: int | None = Field(default=None, description="The size of that JSON in bytes.")


class AttachmentInfo(_Part):
    """An attachment of a message, without its content."""

    type: Literal["image", "text"] = Field(description="What it is.")
    name: str | None = Field(default=None, description="Its name, if it has one.")
    media_type: str | None = Field(default=None, description="The type of an image.")
    bytes: int = Field(description="Its size.")


class LoggedMessage(PayloadFrame):
    """A user's message was given to the agent: its turn begins, or the running turn continues with it."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["content"]}, {"required": ["payload_url", "payload_bytes"]}]}
    )

    extension: ClassVar[bool] = True
    payload_field: ClassVar[str] = "content"
    kept_bytes: ClassVar[int] = limits.INLINE_FRAME_BYTES - 1_000

    type: Literal["user_message"] = "user_message"
    client_msg_id: str = Field(description="The message's id, given by the client or made by the server.")
    turn_id: str = Field(description="The turn that answers it.")
    role: str = Field(description="Who wrote it.", json_schema_extra={"enum": ["user", "assistant", "system", "tool"]})
    content: str | None = Field(default=None, description="The message's text. Absent if there is a `payload_url`.")
    attachments: list[AttachmentInfo] | None = Field(
        default=None, description="What was attached to it, without the contents."
    )


class Remembrance(_Part):
    """The approval rule that an approval of the call can create."""

    rule: str = Field(description="What the rule covers without a pattern, human-readable and never cut.")
    scopes: list[Literal["session", "user"]] = Field(description="The scopes allowed in `remember`.")


class ToolCall(PayloadFrame):
    """A call for the IDE: to show for approval or, with `requires_approval: false`, to execute."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["arguments"]}, {"required": ["payload_url", "payload_bytes"]}]}
    )

    payload_field: ClassVar[str] = "arguments"
    nulls: ClassVar[frozenset[str]] = frozenset({"remember"})

    type: Literal["tool_call"] = "tool_call"
    call_id: str = Field(description="Identifies the call in every frame about it. Execute each `call_id` once.")
    tool_name: str = Field(description="A tool of the catalogue, or one that the client declared.")
    arguments: dict[str, Any] | None = Field(
        default=None, description="The arguments, valid for the tool's schema. Absent if there is a `payload_url`."
    )
    requires_approval: bool = Field(description="True: ask the user and send `hitl_decision`. False: execute the call.")
    turn_id: str | None = Field(default=None, description="The turn that the call belongs to.")
    parent_call_id: str | None = Field(
        default=None,
        description="If a subagent makes it: the `call_id` of its `subagent_update`. Only with extensions.",
    )
    deadline: int | None = Field(default=None, description="When the call times out, in milliseconds since the epoch.")
    risk: str | None = Field(
        default=None, description="What the call can do.", json_schema_extra={"enum": ["read", "write", "execute"]}
    )
    title: str | None = Field(
        default=None,
        description="The call in a few words, one line, shortened: show `arguments` too where a human decides. Only "
        "with extensions.",
    )
    kind: Kind | None = Field(default=None, description="What the call does, for an icon. Only with extensions.")
    paths: list[str] | None = Field(
        default=None, description="The paths that the call names, the first 30. Only with extensions."
    )
    reason: str | None = Field(default=None, description="The remembered rule that approved the call, if any.")
    remember: Remembrance | None = Field(
        default=None,
        description="With `requires_approval`: the rule your approval can be remembered as; null: such calls always "
        "need approval. Only with extensions.",
    )
    repeatable: bool | None = Field(
        default=None,
        description="True: the client that executes this command in a sandbox may approve exactly the same one again "
        "in this session, if its user said so. Only with extensions.",
    )
    execute: bool | None = Field(
        default=None, description="False: only show the call; another connection executes it. Only with extensions."
    )
    args: dict[str, Any] | None = Field(
        default=None, description="The same as `arguments`, for a connection with `profile=args`."
    )

    def wire(self) -> dict[str, Any]:
        frame = super().wire()
        if self.arguments is not None:
            frame["arguments"] = self.arguments  # Keeps nulls inside the arguments.
        if self.requires_approval:
            frame.setdefault("remember", None)
        return frame


#: The fields that only connections with extensions get: of every logged frame, and of a `tool_call`.
ONLY_WITH_EXTENSIONS = frozenset({"at", "title", "kind", "paths", "remember", "repeatable", "parent_call_id"})


class ToolCallDraft(ServerFrame):
    """A call that the model is writing, as far as it has come. Nothing can be decided before its `tool_call` comes.

    Only for connections with `capabilities.drafts`. It is not logged, so it has no `seq` and is in no replay; a lost
    one is made up for by the next.
    """

    extension: ClassVar[bool] = True

    type: Literal["tool_call_draft"] = "tool_call_draft"
    message_id: str = Field(description="The message whose calls these are; it may turn out to have no text.")
    turn_id: str = Field(description="The turn that the message belongs to.")
    index: int = Field(
        description="The call's place in the answer, from 0. It replaces the draft with this index, and voids those "
        "with higher ones."
    )
    tool_name: str | None = Field(default=None, description="The tool, not checked yet. Absent if `withdrawn`.")
    path: str | None = Field(default=None, description="The file that the call names, once known; not checked yet.")
    chars: int | None = Field(
        default=None, description="Characters of the call's texts so far, paths not counted. Absent if `withdrawn`."
    )
    lines: int | None = Field(default=None, description="Lines of these texts so far. Absent if `withdrawn`.")
    tail: str | None = Field(
        default=None, description="The newest piece of the text that is being written, at most 1 KB, cut anywhere."
    )
    withdrawn: bool | None = Field(
        default=None, description="True: the draft with this index is void, and so are those with higher ones."
    )


class AgentStatus(ServerFrame):
    """What the agent is doing, sent when it changes. `idle` ends a turn."""

    type: Literal["agent_status"] = "agent_status"
    status: Status = Field(description="The new status.")
    message: str = Field(description="The status for a human.")


class Error(Reply):
    """A refusal of one frame (no `seq`), or the failure of a turn (with one)."""

    type: Literal["error"] = "error"
    content: str = Field(description="What is wrong, for a human.")
    message: str = Field(description="The same as `content`.")
    error_code: ErrorCode = Field(description="What is wrong, for a program.")
    details: dict[str, Any] = Field(description="Details that help to correct it; `field` names the offending field.")
    retryable: bool = Field(description="Whether the same frame may succeed later.")
    call_id: str | None = Field(default=None, description="The call named in the refused frame.")
    client_msg_id: str | None = Field(default=None, description="The refused frame's, if it had one.")
    retry_after: int | None = Field(
        default=None, description="In how many seconds to try again, if known; also in `details`."
    )

    @classmethod
    def of(cls, error: ProtocolError) -> "Error":
        """The frame that reports `error`."""
        return cls(
            content=error.message,
            message=error.message,
            error_code=error.code,
            details=error.details,
            retryable=error.retryable,
            call_id=error.call_id,
            client_msg_id=error.names.get("client_msg_id"),
            request_id=error.names.get("request_id"),
            retry_after=error.details.get("retry_after"),
        )


class PromptDetails(_Part):
    """The parts of a turn's prompts, in estimated tokens. The Request that chooses an agent is not included."""

    system_tokens: int = Field(description="The agent's instructions.")
    tools_tokens: int = Field(description="The tools it may call.")
    files_tokens: int = Field(description="The project's instructions and the context files.")
    history_tokens: int = Field(description="The conversation, with the results of calls.")


class TurnUsage(_Part):
    """The usage of a turn, over all its Requests."""

    prompt_tokens: int = Field(description="Tokens in the prompts, as the provider counts them.")
    completion_tokens: int = Field(description="Tokens the model wrote.")
    cached_tokens: int = Field(description="The part of `prompt_tokens` that the provider read from its cache.")
    cache_write_tokens: int | None = Field(
        default=None, description="The part of `prompt_tokens` that it wrote to its cache, if it reports any."
    )
    llm_calls: int = Field(description="The number of Requests to the model.")
    estimated: bool | None = Field(
        default=None,
        description="True: some numbers are estimates, because a Request was broken off before the provider counted.",
    )
    cost_usd: float | None = Field(default=None, description="The cost, if the prices of all models are known.")
    prompt_details: PromptDetails = Field(description="The parts of the prompts.")


class TurnEnd(ServerFrame):
    """A turn ended: how, and what it cost."""

    extension: ClassVar[bool] = True

    type: Literal["turn_end"] = "turn_end"
    turn_id: str = Field(description="The turn that ended.")
    reason: Literal["completed", "cancelled", "max_steps", "refused", "budget", "error"] = Field(
        description="How it ended. `refused`: the model declined to answer; `budget`: the user's tokens for the day "
        "are used up."
    )
    usage: TurnUsage = Field(description="Tokens, Requests and, if prices are known, the cost of the whole turn.")
    final_text_sha256: str | None = Field(
        default=None,
        description="SHA-256 (hex) of the turn's last message in UTF-8, to check the text assembled from its deltas. "
        "Absent if the turn ended without a message.",
    )
    title: str = Field(description="The session's current title. The model sets it in its first answer.")
    context_used: int | None = Field(
        default=None,
        description="The tokens of the newest prompt, of the `context_tokens` in `session_info.limits`.",
    )


class AgentSwitched(ServerFrame):
    """Another agent answers from now on. `metadata` repeats the fields: the seed documents use both places."""

    type: Literal["agent_switched"] = "agent_switched"
    content: str = Field(description="The switch in a sentence.")
    from_agent: str = Field(description="The previous agent.")
    to_agent: str = Field(description="The new agent.")
    reason: str = Field(description="Why.")
    timestamp: str = Field(description="When, in ISO 8601 with UTC offset.")
    confidence: float | None = Field(
        default=None, description="How sure the router was, from 0 to 1. Only in logs of earlier versions."
    )
    metadata: dict[str, Any] = Field(
        description="Repeats `from_agent`, `to_agent`, `reason`, `timestamp` and `confidence`."
    )


class ModeSwitched(ServerFrame):
    """The session has another mode from now on: a client has switched it, or a plan was accepted."""

    extension: ClassVar[bool] = True

    type: Literal["mode_switched"] = "mode_switched"
    from_mode: Mode = Field(description="The previous mode.")
    to_mode: Mode = Field(description="The new mode.")
    call_id: str | None = Field(default=None, description="The plan that was accepted, if that switched the mode.")


class ContextUpdated(Reply):
    """The context after a change; the answer to `context_update`."""

    extension: ClassVar[bool] = True

    type: Literal["context_updated"] = "context_updated"
    action: str = Field(description="The action of the `context_update`.")
    path: str | None = Field(default=None, description="The file that was added or removed.")
    files: int = Field(description="The number of context files now.")
    context_size: int = Field(description="Their size in the model's context, in estimated tokens.")


class PlanStep(_Part):
    """One item of a plan."""

    text: str = Field(description="What to do in this step.")
    status: Literal["pending", "in_progress", "completed"] = Field(description="The step's status.")


class Plan(ServerFrame):
    """The agent's current plan; it replaces the previous one. No items: the plan was removed."""

    extension: ClassVar[bool] = True

    type: Literal["plan"] = "plan"
    turn_id: str = Field(description="The turn in which the agent wrote it.")
    items: list[PlanStep] = Field(description="All steps in order.")


#: What a subagent does.
SubagentState = Literal["running", "completed", "failed", "cancelled"]


class SubagentInfo(_Part):
    """A subagent that works."""

    call_id: str = Field(description="As in `subagent_update`.")
    agent: str = Field(description="The agent that works.")
    task: str = Field(description="What it has to do, shortened.")


class SubagentUpdate(ServerFrame):
    """A subagent works on a part of the turn, or has ended. Each frame says all that is known of it."""

    extension: ClassVar[bool] = True

    type: Literal["subagent_update"] = "subagent_update"
    call_id: str = Field(
        description="The agent's call of `delegate`, and the `parent_call_id` of the subagent's calls."
    )
    turn_id: str = Field(description="The turn that it belongs to.")
    agent: str = Field(description="The agent that works.")
    task: str = Field(description="What it has to do, shortened.")
    state: SubagentState = Field(description="`running`, or how it has ended.")
    step: int | None = Field(default=None, description="How often it has answered.")
    text: str | None = Field(default=None, description="What it has written last, shortened.")


class CallUpdate(ServerFrame):
    """A call is settled. Whoever settled it is told only the state; everybody else, and every replay, all of it."""

    extension: ClassVar[bool] = True
    nulls: ClassVar[frozenset[str]] = frozenset({"result"})
    #: The fields that are not logged, but read from the call when the frame is shown.
    of_the_call: ClassVar[frozenset[str]] = frozenset(
        {"decision", "feedback", "arguments", "result", "error", "payload_url", "payload_bytes"}
    )

    type: Literal["call_update"] = "call_update"
    call_id: str = Field(description="The call.")
    state: str = Field(
        description="Its final state.",
        json_schema_extra={"enum": ["completed", "failed", "rejected", "expired", "cancelled"]},
    )
    decision: Literal["approve", "edit", "reject"] | None = Field(
        default=None,
        description="The human's decision, made or remembered, if there is one; an expired call has `reject`.",
    )
    feedback: str | None = Field(default=None, description="What the human said with the decision.")
    arguments: dict[str, Any] | None = Field(
        default=None,
        description="The arguments that a human put in place of the agent's, up to 4 KB; the `tool_call` that was sent "
        "after the edit has larger ones.",
    )
    result: Any = Field(default=None, description="What the tool returned, up to 32 KB.")
    error: dict[str, Any] | None = Field(
        default=None, description="Why it failed or was cancelled: `code`, `message` and perhaps `output_so_far`."
    )
    payload_url: str | None = Field(
        default=None, description="Where to fetch a larger outcome: the JSON object `{result}` or `{error}`."
    )
    payload_bytes: int | None = Field(default=None, description="The size of that JSON in bytes.")


class AssistantThought(ServerFrame):
    """A piece of the model's thoughts before an answer. Thoughts are no part of the answer nor of the history."""

    extension: ClassVar[bool] = True

    type: Literal["assistant_thought"] = "assistant_thought"
    content: str = Field(description="The next piece of the thoughts.")
    message_id: str = Field(description="The message that they precede; it may turn out to have no text, only calls.")
    turn_id: str = Field(description="The turn that they belong to.")
    agent: str | None = Field(default=None, description="The agent that thinks.")


class ToolProgress(PayloadFrame):
    """A piece of a running command's output."""

    extension: ClassVar[bool] = True
    payload_field: ClassVar[str] = "result"

    type: Literal["tool_progress"] = "tool_progress"
    call_id: str = Field(description="The call whose command is running.")
    offset: int | None = Field(default=None, description="Where the piece begins in the whole output, if known.")
    offsets: dict[str, int] | None = Field(
        default=None, description="The executor's `offsets`: where the piece begins in `stdout` and in `stderr`."
    )
    result: Any = Field(default=None, description="The executor's `result`: the piece.")


class PendingCall(_Part):
    """An open call in `session_info` or `resumed`. In `session_info` it has all that its `tool_call` frame has."""

    call_id: str = Field(description="The call.")
    tool_name: str = Field(description="Its tool.")
    state: str = Field(description="What it waits for.", json_schema_extra={"enum": ["awaiting_approval", "executing"]})
    deadline: int = Field(description="When it times out, in milliseconds since the epoch.")
    turn_id: str | None = Field(default=None, description="The turn that it belongs to. Only in `session_info`.")
    parent_call_id: str | None = Field(default=None, description="As in `tool_call`.")
    arguments: dict[str, Any] | None = Field(
        default=None, description="Its arguments, or those that replaced them. Only in `session_info`."
    )
    payload_url: str | None = Field(
        default=None, description="Where to fetch `arguments` as JSON if they are too large. Valid for an hour."
    )
    payload_bytes: int | None = Field(default=None, description="The size of that JSON in bytes.")
    risk: str | None = Field(
        default=None,
        description="What it can do. Only in `session_info`.",
        json_schema_extra={"enum": ["read", "write", "execute"]},
    )
    title: str | None = Field(default=None, description="As in `tool_call`. Only in `session_info`.")
    kind: Kind | None = Field(default=None, description="As in `tool_call`. Only in `session_info`.")
    paths: list[str] | None = Field(default=None, description="As in `tool_call`. Only in `session_info`.")
    remember: Remembrance | None = Field(
        default=None, description="As in `tool_call`; absent: such calls always need approval. Only in `session_info`."
    )


class Quota(_Part):
    """A user's quota over all sessions."""

    used: int = Field(description="Used since the window began; for `open_turns`, the turns open now.")
    limit: int = Field(description="The limit.")
    resets_at: int | None = Field(
        default=None, description="When the window ends, in milliseconds since the epoch; absent for `open_turns`."
    )


class AgentInfo(_Part):
    """An agent that a session can switch to."""

    name: str = Field(description="Its name, for `switch_agent`.")
    description: str = Field(description="What it is for.")
    routes: bool | None = Field(
        default=None, description="True: it does not answer; it chooses the agent that does, for the next message."
    )


class ModelInfo(_Part):
    """A model that a session can choose."""

    name: str = Field(description="Its name, for `session_config`.")
    context_tokens: int = Field(description="The most tokens of a session that it is sent with a step.")
    images: bool = Field(description="Whether it takes images.")
    thinking: list[Literal["none", "low", "medium", "high"]] = Field(
        description="The levels for `session_config`'s `thinking`; empty if its thinking cannot be set."
    )


class QueuedMessage(_Part):
    """A message that waits, in `session_info`. The list is in the order in which they will be answered."""

    client_msg_id: str = Field(description="The message's id, given by the client or made by the server.")
    preview: str = Field(description="The beginning of its text, at most 200 characters.")
    at: int = Field(description="When it was accepted, in milliseconds since the epoch.")
    steer: bool | None = Field(
        default=None, description="True: the running turn gets it at its next step, if there is one."
    )


class SessionInfo(Reply):
    """The session's state; the answer to `hello`, `session_config` and `refresh_token`."""

    extension: ClassVar[bool] = True

    type: Literal["session_info"] = "session_info"
    session_id: str = Field(description="The session's id, given by the client or made by the server.")
    agent: str = Field(description="The current agent.")
    status: Status = Field(description="What the agent is doing.")
    title: str = Field(description="The session's title; may be empty.")
    turn_id: str | None = Field(default=None, description="The running turn.")
    last_seq: int = Field(description="The `seq` of the newest frame.")
    pending_calls: list[PendingCall] = Field(description="The open calls.")
    subagents: list[SubagentInfo] | None = Field(default=None, description="The subagents that work, if there are any.")
    queued: list[QueuedMessage] = Field(description="The messages that wait.")
    plan: list[PlanStep] = Field(description="The agent's current plan; may be empty.")
    mode: Mode = Field(description="The session's mode.")
    settings: dict[str, Any] = Field(description="The other settings made by `session_config`, and `autonomy`.")
    agents: list[AgentInfo] = Field(description="The agents that the session can switch to.")
    model: str = Field(description="The model that answers next: the chosen one, else the agent's or the server's.")
    models: list[ModelInfo] = Field(description="The models that the session can choose; the server's default first.")
    limits: dict[str, int] = Field(description="The server's limits on sizes and counts.")
    quotas: dict[str, Quota] | None = Field(
        default=None,
        description="The user's quotas by name: `messages_per_minute`, `requests_per_minute`, `tokens_per_day`, "
        "`connections_per_minute`, `stored_bytes_per_day`, `open_turns`. Those without a limit are absent.",
    )
    protocol_version: str = Field(description="The protocol version of the server.")

    def wire(self) -> dict[str, Any]:
        frame = super().wire()
        for call, call_frame in zip(self.pending_calls, frame["pending_calls"], strict=True):
            if call.arguments is not None:
                call_frame["arguments"] = call.arguments  # Keeps nulls inside the arguments.
        return frame


class RuleInfo(_Part):
    """A remembered decision, applied to later calls without asking."""

    rule_id: str = Field(description="The rule's id, for `revoke`.")
    scope: Literal["session", "user"] = Field(description="Where the rule applies.")
    agent: str = Field(
        description="The agent that made the call; empty for calls made over HTTP. An `allow` rule covers only this "
        "agent's calls, a `deny` rule covers every agent's."
    )
    tool_name: str = Field(description="The tool that the rule covers.")
    decision: Literal["allow", "deny"] = Field(description="A `deny` rule overrides any `allow` rule.")
    pattern: str | None = Field(default=None, description="The glob that paths must match, if there is one.")
    covers: str = Field(description="What the rule covers, human-readable.")
    created_at: int = Field(description="When the rule was made, in milliseconds since the epoch.")


class RuleList(Reply):
    """The remembered rules; the answer to `rules`."""

    extension: ClassVar[bool] = True

    type: Literal["rules"] = "rules"
    rules: list[RuleInfo] = Field(description="The session's rules, then the user's, oldest first.")


class Resumed(Reply):
    """The replay is complete; with `more`, send `resume` again. Execute only calls listed in `open_calls`."""

    extension: ClassVar[bool] = True

    type: Literal["resumed"] = "resumed"
    last_seq: int = Field(description="The `seq` of the last replayed frame.")
    open_calls: list[PendingCall] = Field(description="The open calls. Execute no others.")
    more: bool | None = Field(default=None, description="True: there are more frames; send `resume` again.")


class ResyncRequired(Reply):
    """The log does not reach back to the client's `last_seq`; load the history over REST instead."""

    extension: ClassVar[bool] = True

    type: Literal["resync_required"] = "resync_required"
    last_seq: int = Field(description="The `seq` of the newest frame.")


class Pong(Reply):
    """The answer to `ping`, with all of its fields."""

    model_config = ConfigDict(extra="allow")

    extension: ClassVar[bool] = True

    type: Literal["pong"] = "pong"


class Queued(ServerFrame):
    """The message was accepted and waits until the running turn ends."""

    extension: ClassVar[bool] = True

    type: Literal["queued"] = "queued"
    client_msg_id: str = Field(description="The message's id, given by the client or made by the server.")
    position: int = Field(description="Its place in the queue, from 1.")
    preview: str | None = Field(default=None, description="The beginning of its text, at most 200 characters.")
    steer: bool | None = Field(
        default=None, description="True: the running turn gets it at its next step, if there is one."
    )


class Withdrawn(ServerFrame):
    """Messages that waited were taken back: nobody will answer them."""

    extension: ClassVar[bool] = True

    type: Literal["withdrawn"] = "withdrawn"
    client_msg_ids: list[str] = Field(description="The messages' ids.")


class Compacted(ServerFrame):
    """A compaction that a client asked for has ended. Those that are made because they are due are not told."""

    extension: ClassVar[bool] = True

    type: Literal["compacted"] = "compacted"
    outcome: Literal["summarised", "unchanged", "failed"] = Field(
        description="`summarised`: a summary replaces the older messages for the model. `unchanged`: there was too "
        "little to replace. `failed`: the model gave no summary; ask again later."
    )
    tokens_before: int = Field(description="The history as the model was sent it, in estimated tokens.")
    tokens_after: int = Field(description="The same from now on, with the summary.")


class Ack(Reply):
    """What became of a frame with a `request_id` that has no other answer."""

    extension: ClassVar[bool] = True

    type: Literal["ack"] = "ack"
    outcome: Acknowledged = Field(
        description="`started`, `queued`: the message began a turn, or waits. `cancelling`: the turn ends, or has just "
        "ended. `withdrawn`: the message waited or had not arrived, and will not be answered. `switched`, `unchanged`: "
        "the agent is another one now, or was this one already. `compacting`: `compacted` follows. `repeated`: the "
        "same frame was accepted before. `accepted`: all else."
    )
    turn_id: str | None = Field(default=None, description="The turn that was started or is cancelled.")
    client_msg_id: str | None = Field(
        default=None, description="The message that the frame contained or named, with the id that it got."
    )
    call_id: str | None = Field(default=None, description="The call that the frame named.")


class UploadTicket(Reply):
    """Where to upload a frame, once; the answer to `upload_request`."""

    extension: ClassVar[bool] = True

    type: Literal["upload_ticket"] = "upload_ticket"
    payload_ref: str = Field(description="Put this into the frame that you send in place of the uploaded one.")
    url: str = Field(description="PUT the frame's JSON here.")
    headers: dict[str, str] = Field(description="Send exactly these headers with the PUT.")
    expires_at: int = Field(description="When the ticket expires, in milliseconds since the epoch.")


class MessageDiscarded(ServerFrame):
    """The step that streamed this message crashed. Discard the message; a new one follows."""

    extension: ClassVar[bool] = True

    type: Literal["message_discarded"] = "message_discarded"
    message_id: str = Field(description="The message to discard.")
    turn_id: str = Field(description="The turn that runs the step again.")
