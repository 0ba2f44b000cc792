"""Frames that steer a session: hello, session_config, switch_agent and others; and the `session_info` frame."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codelab.agents import agents
from codelab.llm.models import settable
from codelab.protocol import PROTOCOL_VERSION, limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import Hello, Rules, SessionConfig, SwitchAgent
from codelab.protocol.modes import Mode, acting_mode, mode_of, shown
from codelab.protocol.outgoing import AgentInfo, PendingCall, PlanStep, SessionInfo
from codelab.sessions import keys
from codelab.sessions.approval_rules import RULE_KEYS
from codelab.sessions.items import CallItem, PlanItem, Reference
from codelab.sessions.register import CallState, ChildCall, Phase, Register
from codelab.sessions.transition import Transition
from codelab.turns import (
    approval_rules,
    calls,
    children,
    connections,
    handover,
    inbox,
    instructions,
    lifecycle,
    messages,
    models,
    own_tools,
    quotas,
)
from codelab.turns.caller import Caller
from codelab.turns.connections import touch
from codelab.turns.decision import decision
from codelab.turns.draft import Draft, Outcome
from codelab.turns.platforms import path_chars
from codelab.turns.quotas import QuotaNeed

#: Time (ms) after which writers post to a connection again, even if its replay has not ended.
REPLAY_MS = 10_000
#: Bytes of open calls in a `session_info`; the arguments of further ones go by a payload URL.
_PENDING_BYTES = 50_000


@dataclass(frozen=True, slots=True)
class Refresh:
    """The connection has a new, valid token, which expires at `expires` (seconds)."""

    expires: int
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """New values of the session's settings by name; `title` is one of them."""

    settings: Mapping[str, Any]


@decision(
    Hello,
    reads=lambda frame: [
        keys.PLAN,
        *([keys.TOOLS] if own_tools.says_something(frame) else []),
        *([keys.ABOUT] if frame.metadata else []),
        *([keys.INSTRUCTIONS] if instructions.must_read(frame) else []),
    ],
    quota=QuotaNeed.OVERVIEW,
)
def hello(draft: Draft, caller: Caller, frame: Hello) -> Transition:
    """The client introduces itself, and may name its platform, its tools, and the project's agents and instructions."""
    _greet(draft, caller)
    if frame.platform is not None:
        draft.register.connections[caller.connection_id].platform = frame.platform
    if frame.capabilities.drafts is not None:
        draft.register.connections[caller.connection_id].drafts = frame.capabilities.drafts
    if own_tools.says_something(frame):
        own_tools.declare(draft, caller, frame)
    instructions.set_instructions(draft, caller, frame)
    if frame.metadata:
        lifecycle.describe(draft, caller, frame.metadata)
    return _inform(draft, caller)


def _greet(draft: Draft, caller: Caller) -> None:
    """A client that sends an extension frame understands extension frames."""
    touch(draft, caller)
    draft.register.connections[caller.connection_id].extensions = True


def _inform(draft: Draft, caller: Caller) -> Transition:
    draft.replies.append((caller.connection_id, session_info(draft, caller.plan)))
    return draft.finish()


def begin_replay(draft: Draft, caller: Caller, last_seq: int) -> Transition:
    """From here on only the replayer posts to the connection."""
    executing_before = connections.executing_calls(draft.register)
    _greet(draft, caller)
    draft.register.connections[caller.connection_id].replaying_until = draft.now + REPLAY_MS
    # The replay sends the frames after `last_seq` and says which calls are open. An earlier call is sent again only if
    # this connection has just become its executor.
    handovers = {resend for resend in connections.executing_calls(draft.register) if resend not in executing_before}
    draft.resend[:] = [
        resend
        for resend in draft.resend
        if resend.connection_id != caller.connection_id or (resend in handovers and resend.seq <= last_seq)
    ]
    return draft.finish()


def end_replay(draft: Draft, caller: Caller) -> Transition:
    """From here on writers post to the connection again; the replayer still posts what was logged before."""
    connection = draft.register.connections.get(caller.connection_id)
    if connection is not None:
        connection.replaying_until = 0
    return draft.finish()


@decision(Refresh, reads=lambda _: [keys.PLAN], quota=QuotaNeed.OVERVIEW)
def refresh(draft: Draft, caller: Caller, event: Refresh) -> Transition:
    """Keep the connection until its new token expires. Its client resumes what it missed."""
    _greet(draft, caller)
    draft.register.connections[caller.connection_id].expires = event.expires
    return _inform(draft, caller)


@decision(SessionConfig, reads=lambda _: [keys.PLAN], quota=QuotaNeed.OVERVIEW)
def configure(draft: Draft, caller: Caller, frame: SessionConfig) -> Transition:
    """Change the settings that the frame names."""
    _greet(draft, caller)
    _change(draft, frame.model_dump(exclude_none=True, exclude={"type", "request_id"}))
    return _inform(draft, caller)


@decision(Change)
def change(draft: Draft, _caller: Caller, event: Change) -> Transition:
    """Change the title and the settings that the event names. Raises ProtocolError INVALID_ARGUMENTS."""
    _change(draft, dict(event.settings))
    return draft.finish()


def _change(draft: Draft, changes: dict[str, Any]) -> None:
    """Change the title and the settings in `changes`.

    Raises ProtocolError INVALID_ARGUMENTS for a model that is not offered, a level of thinking that it has not, or two
    names of one setting.
    """
    model_names = draft.settings.offered_models
    if changes.get("model", draft.settings.llm_model) not in model_names:
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            f"Unknown model {changes['model']!r}; valid models: {', '.join(sorted(model_names))}",
            details={"field": "model"},
        )
    if "title" in changes:
        draft.register.title, draft.register.title_is_draft = changes.pop("title"), False
    mode, last_seq = _chosen_mode(changes), changes.pop("last_seq", None)
    draft.register.settings.update(changes)
    if "thinking" in changes:
        _check_thinking(draft, changes["thinking"])
    if mode is not None and (last_seq is None or last_seq >= draft.register.mode_seq):
        calls.switch_mode(draft, mode)


def _chosen_mode(changes: dict[str, Any]) -> Mode | None:
    """Remove the mode from `changes`, under either of its names, and return it; None without one."""
    if "mode" in changes and "autonomy" in changes:
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            "autonomy is the older name of mode; send one of them",
            details={"field": "autonomy"},
        )
    mode: Mode | None = changes.pop("mode", None)
    return acting_mode({"autonomy": changes.pop("autonomy")}) if "autonomy" in changes else mode


def _check_thinking(draft: Draft, level: str) -> None:
    """Raise ProtocolError INVALID_ARGUMENTS for a level that the session's model, after the change, does not have."""
    name = models.model_of(draft.register, draft.settings)
    levels = settable(models.capabilities(name, draft.settings), models.provider_of(draft.register, draft.settings))
    if level not in levels:
        hint = f"its levels: {', '.join(levels)}" if levels else "its thinking cannot be set"
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            f"The model {name} does not think at level {level!r}; {hint}",
            details={"field": "thinking"},
        )


@decision(Rules, reads=lambda _: RULE_KEYS.values())
def change_rules(draft: Draft, caller: Caller, frame: Rules) -> Transition:
    """List the approval rules, after revoking one if asked to. Raises ProtocolError INVALID_ARGUMENTS."""
    _greet(draft, caller)
    if frame.rule_id is not None and frame.action == "revoke":
        approval_rules.revoke(draft, frame.rule_id)
    draft.replies.append((caller.connection_id, approval_rules.listing(draft)))
    return draft.finish()


@decision(SwitchAgent, quota=lambda frame: QuotaNeed.TURN if frame.content else QuotaNeed.NONE)
def switch_agent(draft: Draft, caller: Caller, frame: SwitchAgent) -> Transition:
    """Switch the agent from the next step on; `content` is a message to the new agent.

    Raises ProtocolError INVALID_ARGUMENTS for an unknown agent, BUSY and RATE_LIMITED as `user_message` does.
    """
    register, known_agents = draft.register, agents()
    if frame.agent_type not in known_agents:
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            f"Unknown agent {frame.agent_type!r}; valid agents: {', '.join(sorted(known_agents))}",
            details={"field": "agent_type"},
        )
    if frame.content and messages.is_repeat(draft, frame.client_msg_id):  # a repeat does not undo a later switch
        return messages.accept(draft, caller, frame.client_msg_id, frame.content)
    touch(draft, caller)
    if register.phase is not Phase.IDLE:
        handover.forbid(register)  # in this turn no agent overrides the user
    draft.outcome = Outcome("unchanged" if register.agent == frame.agent_type else "switched")
    if register.agent != frame.agent_type:
        handover.switch(draft, frame.agent_type, frame.reason or "The user chose this agent")
    if not frame.content:
        return draft.finish()
    return messages.accept(draft, caller, frame.client_msg_id, frame.content)


def pending_calls(register: Register) -> list[PendingCall]:
    """The calls that are still open, except those on which children work."""
    return [
        PendingCall(
            call_id=call_id,
            tool_name=call.tool,
            state=call.state.value,
            deadline=call.due,
            parent_call_id=call.delegation if isinstance(call, ChildCall) else None,
        )
        for call_id, call in register.open_calls.items()
        if call_id not in register.delegations
    ]


def _call_infos(draft: Draft) -> list[PendingCall]:
    """The open calls with what their frames have, so that a client needs no log to show and decide them."""
    call_infos, bytes_left = [], _PENDING_BYTES
    for pending_call in pending_calls(draft.register):
        call = draft.call(pending_call.call_id)
        call_info = pending_call if call is None else _call_info(draft, pending_call, call)
        if call is not None and (size := len(call_info.model_dump_json().encode())) > bytes_left:
            call_info, size = call_info.model_copy(update={"arguments": None, "paths": None}), 0
        if call is not None and call_info.arguments is None:
            draft.reply_payloads[call.call_id] = call.effective_arguments
        else:
            bytes_left -= size
        call_infos.append(call_info)
    return call_infos


def _call_info(draft: Draft, pending_call: PendingCall, call: CallItem) -> PendingCall:
    """An open call with what can be told without reading large arguments."""
    entry, content = draft.register.open_calls[call.call_id], call.effective_arguments
    try:
        tool = calls.tool_of(call)
    except ProtocolError:  # a tool of another version of this code
        return pending_call
    call_info = pending_call.model_copy(update={"turn_id": call.turn_id or None, "kind": tool.kind, "risk": tool.risk})
    if isinstance(content, Reference):
        return call_info
    details: dict[str, Any] = {
        "arguments": content,
        "risk": tool.risk_of(content),
        "title": tool.title_of(content),
        "paths": tool.shown_paths(content) or None,
    }
    if entry.state is CallState.AWAITING_APPROVAL:
        executor = connections.executor_of(draft.register, entry)
        details["remember"] = approval_rules.offer(draft, tool, content, executor)
    return call_info.model_copy(update=details)


def session_info(draft: Draft, user_plan: str) -> SessionInfo:
    """The session's state and the user's quotas.

    Needs the open calls, the agent's plan, and the user's counters and slots.
    """
    register = draft.register
    of_user = quotas.item_keys(user_plan, QuotaNeed.OVERVIEW, draft.settings, draft.now)
    draft.need([keys.PLAN, *of_user, *map(keys.call_key, register.open_calls), *inbox.item_keys(draft)])
    plan = draft.item(keys.PLAN)
    return SessionInfo(
        session_id=register.session_id,
        agent=register.agent,
        status=register.status,
        title=register.title,
        turn_id=register.turn_id if register.phase is not Phase.IDLE else None,
        last_seq=register.last_seq,
        pending_calls=_call_infos(draft),
        subagents=children.working(draft) or None,
        queued=inbox.queued_messages(draft),
        plan=[PlanStep.model_validate(step) for step in PlanItem.of(plan).steps] if plan else [],
        mode=mode_of(register.settings),
        settings=shown(register.settings),
        agents=[
            AgentInfo(name=agent.name, description=agent.description, routes=agent.routes or None)
            for agent in agents().values()
        ],
        model=models.model_of(register, draft.settings),
        models=models.selectable_models(draft.settings),
        limits={
            "user_message_chars": limits.LONG_MESSAGE_CHARS,
            "attachments": limits.ATTACHMENTS,
            "image_bytes": limits.IMAGE_BYTES,
            "attached_chars": limits.ATTACHED_CHARS,
            "inline_frame_bytes": limits.INLINE_FRAME_BYTES,
            "payload_bytes": limits.PAYLOAD_BYTES,
            "websocket_frame_bytes": 32 * 1024,
            "websocket_message_bytes": 128 * 1024,
            "context_tokens": models.context_tokens(models.model_of(register, draft.settings), draft.settings),
            "calls_per_step": limits.CALLS_PER_STEP,
            "queued_messages": limits.INBOX,
            "connections": limits.CONNECTIONS_PER_SESSION,
            "replayed_frames": limits.REPLAY_FRAMES,
            "path_chars": path_chars(draft),
            "file_bytes": limits.FILE_BYTES,
            "diff_bytes": limits.DIFF_BYTES,
        },
        quotas=quotas.usage_by_quota(draft.settings, user_plan, draft.inputs.items, draft.now) if of_user else None,
        protocol_version=PROTOCOL_VERSION,
    )
