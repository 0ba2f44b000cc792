"""Tool calls: their results, human decisions about them, and the next step once all calls are settled."""

import hashlib
from collections.abc import Iterable
from typing import Any

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import HitlDecision, ToolResult
from codelab.protocol.modes import Mode, offers
from codelab.protocol.outgoing import CallUpdate, Status, ToolCall, ToolProgress
from codelab.protocol.tools import Tool, find_tool
from codelab.protocol.tools.declared import declared_tool
from codelab.sessions import keys
from codelab.sessions.approval_rules import RULE_KEYS, Effect
from codelab.sessions.items import Audience, CallItem, Content, Reference, digest_of, dumps, is_same
from codelab.sessions.register import CallEntry, CallState, ChildCall, OutOfTurnCall, Phase, Register
from codelab.sessions.transition import Transition
from codelab.turns import (
    approval_rules,
    attachments,
    children,
    commands,
    files,
    lifecycle,
    modes,
    policy,
    repeats,
    server_tools,
    turn,
)
from codelab.turns.caller import Caller
from codelab.turns.connections import executor_of, touch
from codelab.turns.decision import decision
from codelab.turns.draft import Draft, Outcome
from codelab.turns.platforms import path_rules
from codelab.turns.shown_results import shown_result
from codelab.turns.text import excerpt, shortened, within_bytes

#: The number of different failing calls that the register stores.
_FAILURES_KEPT = 32
#: How long (ms) a call may take at most, however often it sends output or a sign of life.
PROGRESS_MS = 86_400_000
#: Bytes of output that are stored for an unfinished call.
PROGRESS_BYTES = 16_000
#: The most calls of children that a switch of the mode rejects itself.
_CHILD_CALLS_OF_SWITCH = 8
#: Bytes of a large edit that the model sees.
_EDIT_BYTES = 4_000


@decision(ToolResult, reads=lambda frame: [keys.call_key(frame.call_id)])
def tool_result(draft: Draft, caller: Caller, frame: ToolResult) -> Transition | None:
    """The IDE sends the outcome of a call, or a part of its output. None: a repeat, or a result after a rejection.

    Raises ProtocolError: INVALID_CALL_ID for a call that is not open, PERMISSION_DENIED if it still needs approval, or
    only a human can answer it.
    """
    call = draft.call(frame.call_id)
    entry = _entry(draft.register, frame.call_id)
    if call is None:
        raise _invalid_call_id(frame.call_id)
    tool = tool_of(call)
    outcome = _outcome(frame, tool)
    is_partial = frame.partial or (tool.streams and frame.has_no_exit_code)
    if entry is None or not entry.state.is_open:
        if call.state == CallState.REJECTED or is_partial or is_same(call.outcome, outcome):
            return _repeat(draft)
        raise _invalid_call_id(frame.call_id, f"the call is already {call.state}")
    if caller.viewer:
        raise ProtocolError(ErrorCode.PERMISSION_DENIED, "A viewer cannot execute calls", call_id=frame.call_id)
    if tool.server_side:
        message = f"{call.tool} is answered by a decision and has no result"
        raise ProtocolError(ErrorCode.PERMISSION_DENIED, message, call_id=frame.call_id)
    touch(draft, caller)
    if entry.state is CallState.AWAITING_APPROVAL:
        _check_in_time(draft, call, entry)
        if draft.settings.hitl_strict or executor_of(draft.register, entry) != caller.connection_id:
            raise ProtocolError(
                ErrorCode.PERMISSION_DENIED,
                "The call awaits approval; send the result again once it is approved",
                call_id=frame.call_id,
            )
        call.decision = _decision("approve", caller, draft.now, is_implicit=True)
        _approve(draft, call, entry, tool)
        draft.put(call)
    if is_partial:
        show_what_is_open(draft)
        _progress(draft, caller, call, entry, frame)
        return draft.finish()
    settle(draft, call, CallState.FAILED if frame.error else CallState.COMPLETED, outcome, caller=caller)
    continue_turn(draft)
    return draft.finish()


@decision(
    HitlDecision, reads=lambda frame: [keys.call_key(frame.call_id), *(RULE_KEYS.values() if frame.remember else ())]
)
def hitl_decision(draft: Draft, caller: Caller, frame: HitlDecision) -> Transition | None:
    """A human approves, edits or rejects a call. None: a repeated decision.

    An approved call is sent to the executor. One of the server is executed at once: a plan is accepted.

    Raises ProtocolError: INVALID_CALL_ID, also for an approval after the deadline; INVALID_ARGUMENTS if the edit does
    not fit the tool, the decision cannot be remembered as wished, or it has a mode and the call is no plan.
    """
    call = draft.call(frame.call_id)
    entry = _entry(draft.register, frame.call_id)
    if call is None:
        raise _invalid_call_id(frame.call_id)
    if entry is None or entry.state is not CallState.AWAITING_APPROVAL:
        if _was_decided(call, frame):
            return _repeat(draft)
        raise _invalid_call_id(frame.call_id, f"the call is already {call.state}")
    if frame.decision != "reject":
        _check_in_time(draft, call, entry)
    touch(draft, caller)
    tool = tool_of(call)
    call.decision = _decision(frame.decision, caller, draft.now)
    if frame.mode is not None:
        if not tool.server_side or frame.decision == "reject":
            raise ProtocolError(
                ErrorCode.INVALID_ARGUMENTS,
                "Only the acceptance of a plan has a mode",
                call_id=frame.call_id,
                details={"field": "mode"},
            )
        call.decision["mode"] = frame.mode
    if frame.feedback:
        call.decision["feedback"] = frame.feedback
    if frame.decision == "edit" and frame.modified_arguments is not None:
        edited_arguments = _checked_edit(draft, call, frame.modified_arguments)
        call.edited_arguments = edited_arguments
        call.decision["modified"] = digest_of(frame.modified_arguments)
        if len(dumps(edited_arguments).encode()) > limits.CONTENT_BYTES:
            call.decision["shown"] = shortened(edited_arguments, _EDIT_BYTES)
    if frame.remember is not None:
        effect: Effect = "deny" if frame.decision == "reject" else "allow"
        approval_rules.remember(draft, call, tool, effect, frame.remember, executor_of(draft.register, entry))
        call.decision["remember"] = frame.remember.model_dump()
    if frame.decision == "reject":
        outcome = {"result": {"status": "rejected", "feedback": frame.feedback or ""}}
        settle(draft, call, CallState.REJECTED, outcome, caller=caller)
        continue_turn(draft)
        return draft.finish()
    if tool.server_side:
        result = server_tools.execute(draft, tool, draft.value(call.effective_arguments), call)
        settle(draft, call, CallState.COMPLETED, {"result": result}, caller=caller)
        continue_turn(draft)
        return draft.finish()
    _approve(draft, call, entry, tool)
    entry.due = draft.now + policy.deadline_ms(tool, awaiting_approval=False, settings=draft.settings)
    draft.puts.append(call)
    entry.seq = send_call(draft, call, entry)
    show_what_is_open(draft)
    return draft.finish()


def _repeat(draft: Draft) -> Transition | None:
    """A repeat only posts frames again that are not yet reported as posted, except those that a step will post."""
    register = draft.register
    draft.outcome = Outcome("repeated")
    outbox_ranges = sorted((first_seq, entry.last) for first_seq, entry in register.outbox.items())
    draft.repost = [
        (first_seq, last_seq) for first_seq, last_seq in outbox_ranges if first_seq != register.announced_seq
    ]
    return draft.finish() if draft.repost else None


def open_call(draft: Draft, call: CallItem, *, may_repeat: bool = False) -> None:
    """Open a new call: store it, and send it to every connection if it needs approval, else to the executor.

    `may_repeat`: if it is a command, its executor may be told that it may approve the same one again by itself.
    """
    tool, register = tool_of(call), draft.register
    state = CallState.AWAITING_APPROVAL if call.requires_approval else CallState.EXECUTING
    due_at = draft.now + policy.deadline_ms(tool, awaiting_approval=call.requires_approval, settings=draft.settings)
    entry: CallEntry
    if call.delegation:
        entry = register.child_calls[call.call_id] = ChildCall(
            call.tool, state, due_at, seq=0, delegation=call.delegation
        )
    elif call.turn_id:
        entry = register.calls[call.call_id] = CallEntry(call.tool, state, due_at, seq=0)
    else:
        entry = register.out_of_turn_calls[call.call_id] = OutOfTurnCall(
            call.tool, state, due_at, seq=0, executor=register.executor
        )
    call.state = state.value
    if state is CallState.EXECUTING:
        commands.invalidate(draft, call, tool)
    draft.puts.append(call)
    entry.seq = send_call(draft, call, entry, may_repeat=may_repeat)


def send_call(draft: Draft, call: CallItem, entry: CallEntry, *, may_repeat: bool = False) -> int:
    """Log the `tool_call` frame for the call's current state. Returns its seq."""
    is_awaiting_approval = entry.state is CallState.AWAITING_APPROVAL
    content = call.effective_arguments
    arguments, tool = draft.value(content), tool_of(call)
    executor = executor_of(draft.register, entry)
    frame = ToolCall(
        call_id=call.call_id,
        tool_name=call.tool,
        arguments=arguments,
        requires_approval=is_awaiting_approval,
        turn_id=call.turn_id or None,
        parent_call_id=call.delegation or None,
        deadline=entry.due,
        risk=tool.risk_of(arguments),
        title=tool.title_of(arguments),
        kind=tool.kind,
        paths=tool.shown_paths(arguments) or None,
        remember=approval_rules.offer(draft, tool, arguments, executor) if is_awaiting_approval else None,
        repeatable=(
            is_awaiting_approval
            and may_repeat
            and commands.is_repeatable(draft, tool, arguments, executor, call_id=call.call_id)
        )
        or None,
        reason=f"Approved by {rule_id}" if (rule_id := call.decision.get("rule_id")) else None,
    )
    payload = content if isinstance(content, Reference) else None
    return draft.emit(frame, Audience.ALL if is_awaiting_approval else Audience.EXECUTOR, payload)


def settle(
    draft: Draft,
    call: CallItem,
    state: CallState,
    outcome: dict[str, Any],
    caller: Caller | None = None,
    *,
    was_sent: bool = True,
) -> None:
    """Record the call's one outcome: in the register, in its item and, for a turn's call, in the history.

    `caller` caused it. Unless the call was never sent, a `call_update` is logged: now, or with the next step if there
    is no other connection.
    """
    entry, is_delegation = _entry(draft.register, call.call_id), call.call_id in draft.register.delegations
    if draft.register.command_rule and was_sent and entry is not None and entry.state is CallState.EXECUTING:
        commands.invalidate(draft, call, tool_of(call))
    call.state = state.value
    call.settled_at = draft.now
    call.outcome = outcome
    draft.put(call)
    if call.delegation:
        del draft.register.child_calls[call.call_id]
        _settle_in_child(draft, call, state, outcome)
    elif call.turn_id:
        _record(draft, call, state, outcome)
    else:
        del draft.register.out_of_turn_calls[call.call_id]
    if state is CallState.COMPLETED:
        files.update_from_result(draft, call, outcome["result"])
    if is_delegation:
        children.tell_end(draft, call, state)
    if not was_sent or is_delegation:
        return
    sender = caller.connection_id if caller is not None else ""
    if call.turn_id and not call.delegation and sender and not _has_others_with_extensions(draft, caller):
        draft.register.calls[call.call_id].sender = sender
    else:
        draft.emit(CallUpdate(call_id=call.call_id, state=state.value), sender=sender)


def _record(draft: Draft, call: CallItem, state: CallState, outcome: dict[str, Any]) -> None:
    """Record the outcome of a call that the session's step waits for, in its register and history."""
    draft.register.calls[call.call_id].state = state
    visible_outcome, images = attachments.without_images(outcome)
    full_text = shown_result(call, visible_outcome)
    if state is CallState.COMPLETED and not repeats.is_waiting(call.tool, visible_outcome.get("result")):
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        digest, risk = call_digest(call.tool, call.arguments), tool_of(call).risk_of(arguments)
        if (repeat_count := repeats.count(draft.register, digest, risk, full_text)) >= repeats.NOTE_AFTER:
            full_text += repeats.note(repeat_count)
    content = within_bytes(
        full_text, limits.CONTENT_BYTES, lambda text, max_chars: excerpt(text, max_chars, call.call_id)
    )
    draft.append_message(
        "tool",
        content,
        call_id=call.call_id,
        full_length=len(full_text) if content != full_text else 0,
        attachments=attachments.store(draft, images),
    )
    _count_failure(draft.register, call, state)


def _settle_in_child(draft: Draft, call: CallItem, state: CallState, outcome: dict[str, Any]) -> None:
    """Give the outcome of a child's call to the child, unless that has ended."""
    child = draft.relative(keys.child_session(draft.register.session_id, call.delegation))
    if child is not None and call.call_id in child.register.open_step_calls:
        _record(child, call, state, outcome)
        continue_turn(child)


def end_child(draft: Draft) -> None:
    """If the draft ends a child's turn, settle the parent's call by it, and erase the child."""
    ending, register, delegation = draft.ending, draft.register, draft.register.delegation
    if ending is None or delegation is None:
        return
    draft.ending = None
    parent, call_id = children.owner(draft), delegation[1]
    call = parent.call(call_id)
    lifecycle.hide(draft)
    if call is None or call_id not in parent.register.delegations:
        return
    turn.count(parent.register, register.usage)
    state, outcome = children.outcome_of(ending)
    settle(parent, call, state, outcome)
    continue_turn(parent)


def stop_children(draft: Draft, delegations: Iterable[str], message: str) -> None:
    """Erase the children that work on these calls, and cancel the calls that they wait for."""
    register, ended_ids = draft.register, frozenset(delegations)
    call_ids = [call_id for call_id, call in register.child_calls.items() if call.delegation in ended_ids]
    draft.need(map(keys.call_key, call_ids))
    for call_id in ended_ids:
        if (child := draft.relative(keys.child_session(register.session_id, call_id))) is not None:
            turn.count(register, child.register.usage)
    lifecycle.hide_children(draft, ended_ids)
    for call_id in call_ids:
        if (call := draft.call(call_id)) is not None:
            settle(draft, call, CallState.CANCELLED, unfinished(call, ErrorCode.CANCELLED, message))


def switch_mode(draft: Draft, mode: Mode) -> None:
    """Switch the session's mode, for the user. Calls that wait for approval and are not allowed in it are rejected.

    What was approved before goes on. More calls of children than fit into the transaction expire at once: nobody can
    approve them, and the sweep settles them.
    """
    modes.set_mode(draft, mode)
    waiting_ids = [
        call_id for call_id, entry in draft.register.open_calls.items() if entry.state is CallState.AWAITING_APPROVAL
    ]
    draft.need(map(keys.call_key, waiting_ids))
    child_count = 0
    has_settled = False
    for call_id in waiting_ids:
        call = draft.call(call_id)
        if call is None or _is_offered(mode, call):
            continue
        child_count += bool(call.delegation)
        if call.delegation and child_count > _CHILD_CALLS_OF_SWITCH:
            draft.register.child_calls[call_id].due = draft.now
            continue
        call.decision = {"decision": "reject", "reason": "mode", "at": draft.now}
        settle(draft, call, CallState.REJECTED, {"result": {"status": "rejected", "reason": "mode", "mode": mode}})
        has_settled = True
    if has_settled:
        continue_turn(draft)


def _is_offered(mode: Mode, call: CallItem) -> bool:
    """May the call be made in the mode? Not if its tool is no longer in the catalogue."""
    try:
        return offers(mode, tool_of(call))
    except ProtocolError:
        return False


def tell_settled(draft: Draft) -> None:
    """Log the outcomes of the step's calls that are not in the log yet."""
    for call_id, entry in draft.register.calls.items():
        if entry.sender:
            draft.emit(CallUpdate(call_id=call_id, state=entry.state.value), sender=entry.sender)
            entry.sender = ""


def _count_failure(register: Register, call: CallItem, state: CallState) -> None:
    """Count how often in a row the same call has failed."""
    digest = call_digest(call.tool, call.arguments)
    # A call that a rule decided counts even if it did not fail, because no human would stop its repeats.
    if state is CallState.FAILED or "rule_id" in call.decision:
        register.failures[digest] = register.failures.pop(digest, 0) + 1
        while len(register.failures) > _FAILURES_KEPT:
            register.failures.pop(next(iter(register.failures)))
    else:
        register.failures.pop(digest, None)


def unfinished(call: CallItem, code: ErrorCode, message: str) -> dict[str, Any]:
    """The outcome of a call that was ended from outside, with its output so far."""
    error: dict[str, Any] = {"code": code.value, "message": message}
    if call.progress:
        error["output_so_far"] = call.progress
    return {"error": shortened(error, limits.CONTENT_BYTES // 2)}  # small enough to need no object


def tool_of(call: CallItem) -> Tool:
    """The called tool. Raises ProtocolError TOOL_NOT_FOUND if it is no longer in the catalogue."""
    return find_tool(call.tool) if call.declaration is None else declared_tool(call.declaration)


def call_digest(tool: str, arguments: Content) -> str:
    """A digest that is equal for equal calls."""
    return hashlib.sha256(dumps([tool, digest_of(arguments)]).encode()).hexdigest()[:16]


def continue_turn(draft: Draft) -> None:
    """Start the next step if all calls are settled; the decision that settles the last call commits it."""
    register = draft.register
    if register.phase is Phase.WAITING and not register.open_step_calls:
        tell_settled(draft)
        if (loop_error := repeats.error(register, draft.settings.max_repeats)) is not None and not register.steering:
            turn.fail(draft, loop_error)
        else:
            turn.next_step(draft)
        end_child(draft)
    else:
        show_what_is_open(draft)


def show_what_is_open(draft: Draft) -> None:
    """Set the status to what the step waits for: approval first, then tools. Out-of-turn calls do not count."""
    states = {call.state for call in (draft.register.open_step_calls | draft.register.child_calls).values()}
    if draft.register.phase is not Phase.WAITING or not states:
        return
    if CallState.AWAITING_APPROVAL in states:
        draft.set_status(Status.WAITING_APPROVAL, "Waiting for approval")
    else:
        draft.set_status(Status.EXECUTING_TOOL, "Executing tools")


def _progress(draft: Draft, caller: Caller, call: CallItem, entry: CallEntry, frame: ToolResult) -> None:
    """Store a piece of output and extend the deadline, up to a cap. A repeated piece is not stored twice.

    An empty piece is a sign of life: it only extends the deadline.
    """
    tool_ms = policy.deadline_ms(tool_of(call), awaiting_approval=False, settings=draft.settings)
    started_at = call.decision.get("at", call.at)  # the time of the approval, if any
    entry.due = max(entry.due, min(draft.now + tool_ms, started_at + PROGRESS_MS))
    text, offset = _output(frame.result), frame.start
    if not text:
        return
    if offset is None or offset >= call.progress_end:
        call.progress = _tail(call.progress + text, PROGRESS_BYTES)
        call.progress_end = (call.progress_end if offset is None else offset) + len(text)
    draft.put(call)
    if _has_others_with_extensions(draft, caller):
        offsets = frame.offsets.model_dump() if frame.offsets is not None else None
        draft.emit(ToolProgress(call_id=call.call_id, offset=offset, offsets=offsets, result=frame.result))


def _tail(text: str, max_bytes: int) -> str:
    return text[-max_bytes:].encode()[-max_bytes:].decode(errors="ignore")


def _output(result: Any) -> str:
    if isinstance(result, dict):
        return "".join(str(result.get(name) or "") for name in ("stdout", "stderr", "output"))
    return result if isinstance(result, str) else dumps(result)


def _has_others_with_extensions(draft: Draft, caller: Caller | None) -> bool:
    """Is there a connection with extensions other than the caller's?"""
    return any(
        connection.extensions
        for connection_id, connection in draft.register.connections.items()
        if caller is None or connection_id != caller.connection_id
    )


def _outcome(frame: ToolResult, tool: Tool) -> dict[str, Any]:
    """The outcome as stored and compared, with the result in the tool's normal form if it has one."""
    if frame.error is not None:
        return {"error": {"code": frame.error.code.value, "message": frame.error.message}}
    return {"result": tool.result.normal(frame.result)}


def _checked_edit(draft: Draft, call: CallItem, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return tool_of(call).check(arguments, **path_rules(draft))
    except ProtocolError as error:
        field = error.details.get("field", "")
        error.call_id = call.call_id
        error.code = ErrorCode.INVALID_ARGUMENTS
        error.details["field"] = "modified_arguments" + (f".{field}" if field != "arguments" else "")
        raise


def _entry(register: Register, call_id: str) -> CallEntry | None:
    return register.calls.get(call_id) or register.child_calls.get(call_id) or register.out_of_turn_calls.get(call_id)


def _approve(draft: Draft, call: CallItem, entry: CallEntry, tool: Tool) -> None:
    """Let an approved call be executed. Raises ProtocolError PERMISSION_DENIED if the session's mode does not allow it.

    A server of an earlier version, which knows no modes, may have left it waiting during a deployment.
    """
    modes.check(draft, tool)
    entry.state = CallState.EXECUTING
    call.state = entry.state.value
    commands.invalidate(draft, call, tool)


def _check_in_time(draft: Draft, call: CallItem, entry: CallEntry) -> None:
    """Raise ProtocolError INVALID_CALL_ID after the deadline, even if the sweep has not expired the call yet."""
    if entry.due <= draft.now:
        raise _invalid_call_id(call.call_id, "its approval deadline has passed, so the call is rejected")


def _was_decided(call: CallItem, frame: HitlDecision) -> bool:
    """Is this a repeated decision? An approval after an implicit approval is one."""
    remember = frame.remember.model_dump() if frame.remember else None
    decision = (call.decision.get("decision"), call.decision.get("remember"), call.decision.get("mode"))
    if decision != (frame.decision, remember, frame.mode):
        return False
    if frame.decision == "edit":
        return frame.modified_arguments is not None and call.decision.get("modified") == digest_of(
            frame.modified_arguments
        )
    return frame.decision == "approve" or call.decision.get("feedback", "") == (frame.feedback or "")


def _decision(decision: str, caller: Caller, now: int, *, is_implicit: bool = False) -> dict[str, Any]:
    record: dict[str, Any] = {
        "decision": decision,
        "by": caller.user,
        "connection": caller.connection_id,
        "at": now,
    }
    if is_implicit:
        record["implicit"] = True
    return record


def _invalid_call_id(call_id: str, reason: str = "no such call in this session") -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_CALL_ID, f"Invalid call_id: {reason}", call_id=call_id)
