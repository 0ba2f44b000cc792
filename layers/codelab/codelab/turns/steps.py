"""A step: one Request to the model, run under a lease and committed once."""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from codelab.agents import Agent
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import MessageDiscarded, Status
from codelab.protocol.tools import CATALOGUE, Tool
from codelab.protocol.tools.server import DELEGATE
from codelab.sessions.items import CallItem, CallRequest, dumps
from codelab.sessions.kept_reasoning import ReasoningItem
from codelab.sessions.register import CallEntry, CallState, Phase, Register
from codelab.sessions.transition import Step, Transition
from codelab.turns import approval_rules, calls, children, kept_reasoning, modes, server_tools, titles, turn
from codelab.turns.draft import Draft
from codelab.turns.platforms import path_rules
from codelab.turns.result_texts import TEXT_FORM
from codelab.turns.text import shortened
from codelab.turns.usage import scale

#: How often a step may be acquired before its turn ends with an error.
MAX_ATTEMPTS = 3
#: Failures of the same call after which it is not sent again, and after which the turn ends.
MAX_FAILURES = 3
_FAILURES_ENDING_TURN = 5
#: The prompt depends on these fields of a register.
_PROMPT_FIELDS = attrgetter("extent", "agent", "settings", "executor", "title_is_draft", "user_plan")
#: Bytes that are kept of arguments over the limit.
_REFUSED_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Lease:
    """An owner's lease: its `token`, until when (ms) it lasts, and the id of the message that the attempt streams.

    `alive_until` is when (ms) the owner's process has ended.
    """

    token: str
    ends_at: int
    message_id: str
    alive_until: int


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The model's valid answer: the streamed `text`, the `agent` that gave it, and the `tools` that it could call.

    `title` is the session's title if the model was asked for one. `final_delta` is the end of the text, not logged yet.
    `reasoning` is what goes back to the model with the calls; the commit sets its message and its end.
    `has_text_call`: the model has written its call as text. `result`: the object that a child was asked for, with its
    last answer.
    """

    text: str
    calls: tuple[CallRequest, ...]
    agent: Agent
    tools: dict[str, Tool]
    usage: dict[str, int] = field(default_factory=dict)
    title: str = ""
    final_delta: str = ""
    reasoning: ReasoningItem | None = None
    has_text_call: bool = False
    result: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The model gave no valid answer, or the turn was cancelled. `streamed_text` is what the user has seen."""

    error: ProtocolError
    usage: dict[str, int]
    streamed_text: str


def token(invocation: str, random_id: str) -> str:
    """A lease's token, which names its owner and is unique."""
    return f"{invocation}:{random_id}"


def is_leased_by(register: Register, invocation: str) -> bool:
    """Does this invocation own the running step?"""
    return register.phase is Phase.RUNNING and register.lease.partition(":")[0] == invocation


def is_current(register: Register, step: Step) -> bool:
    """Does the register wait for `step`? It does not for a duplicate or late invoke."""
    return register.phase is Phase.DISPATCHED and (register.turn_id, register.step, register.attempt) == (
        step.turn_id,
        step.step,
        step.attempt,
    )


def acquire(draft: Draft, step: Step, lease: Lease) -> Transition | None:
    """Acquire the step; None for a duplicate. Closes the message of an earlier attempt that crashed while streaming.

    The owner of an earlier attempt may be alive and go on streaming. So another attempt always logs a frame behind
    everything that was streamed: whatever that owner appends is either discarded here, or collides with this frame.
    """
    register = draft.register
    if owns(register, lease):  # an earlier try was written although it seemed to fail
        draft.post_announced()
        return draft.finish()
    if not is_current(register, step):
        return None
    draft.post_announced()
    earlier_message_id = register.message_id
    dead_message_id = earlier_message_id if earlier_message_id and draft.streamed() else ""
    thought_message_id = earlier_message_id if earlier_message_id and draft.has_thoughts() else ""
    if earlier_message_id:
        turn.count_lost(draft)
    register.attempt += 1
    register.phase = Phase.RUNNING
    if register.stray_until <= draft.now:
        register.stray_until = 0
    register.lease, register.lease_until, register.alive_until = lease.token, lease.ends_at, lease.alive_until
    register.message_id = lease.message_id
    register.message_seq = register.last_seq
    if dead_message_id:
        _discard(draft, dead_message_id)
    elif thought_message_id:
        draft.emit(MessageDiscarded(message_id=thought_message_id, turn_id=register.turn_id))
    draft.set_status(Status.THINKING, "Thinking", is_news=bool(earlier_message_id))
    return draft.finish()


def restart(draft: Draft, lease: Lease, message_id: str, usage: dict[str, int], log_end: int) -> Transition | None:
    """Discard the text that was streamed until the model broke off; the next text is message `message_id`.

    `usage` is that of the broken Request, `log_end` the seq of its last frame. None: the lease is lost, the turn was
    cancelled, or a live client without extensions would show both texts.
    """
    register = draft.register
    if not owns(register, lease) or register.cancelled_at:
        return None
    if register.message_id == message_id:
        return draft.finish()  # an earlier try was written although it seemed to fail
    if not all(register.connections[connection_id].extensions for connection_id in register.live(draft.now)):
        return None
    register.last_seq = max(register.last_seq, log_end)
    turn.count(register, usage)
    _discard(draft, register.message_id)
    register.message_id, register.message_seq = message_id, register.last_seq
    return draft.finish()


def _discard(draft: Draft, message_id: str) -> None:
    """Tell the clients that a message has ended without a result."""
    draft.emit(turn.delta(draft, "", message_id, is_final=True, aborted=True))
    draft.emit(MessageDiscarded(message_id=message_id, turn_id=draft.register.turn_id))


def same_prompt(register: Register, other_register: Register) -> bool:
    """Would the model get the same prompt in both states of the session?"""
    return bool(_PROMPT_FIELDS(register) == _PROMPT_FIELDS(other_register))


def owns(register: Register, lease: Lease) -> bool:
    """Does this owner still hold the lease?"""
    return register.phase is Phase.RUNNING and register.lease == lease.token


def commit(draft: Draft, lease: Lease, result: ModelAnswer | Failure, log_end: int) -> Transition | None:
    """End the step with the model's answer, or without one. A cancelled turn keeps the streamed text.

    `log_end` is the seq of the last streamed frame. None: the lease is lost.
    """
    register = draft.register
    if not owns(register, lease):
        return None
    register.last_seq = max(register.last_seq, log_end)
    turn.count(register, result.usage)
    register.token_scale = scale(result.usage, register.token_scale)
    if register.cancelled_at:
        if isinstance(result, ModelAnswer):
            turn.end_cancelled(draft, result.text, result.final_delta)
        else:
            turn.end_cancelled(draft, result.streamed_text)
    elif isinstance(result, Failure):
        _commit_failure(draft, result)
    else:
        _commit_answer(draft, result)
    calls.end_child(draft)
    return draft.finish()


def _commit_answer(draft: Draft, answer: ModelAnswer) -> None:
    """Add the answer to the history and open its calls; then the turn continues or ends."""
    register = draft.register
    titles.set_title(register, answer.title)
    requests = _within_limits(answer, limits.CALLS_PER_STEP if register.delegation is None else limits.CHILD_CALLS)
    stored_calls = _for_the_history([request for request, _ in requests])
    if answer.text or stored_calls:
        draft.append_message("assistant", answer.text, calls=stored_calls, message_id=register.message_id)
    kept_reasoning.keep(draft, answer.reasoning)
    if answer.text:
        draft.emit(turn.delta(draft, answer.final_delta, register.message_id, is_final=True))
    register.calls = {}
    if register.delegation is not None and answer.calls:
        children.report(draft, answer.agent.name, answer.text)
    called_tools = [answer.tools[request.tool] for request, _ in requests if request.tool in answer.tools]
    change_count = sum(tool.risk != "read" for tool in called_tools)
    for request, problem in requests:
        _make_call(draft, request, answer, problem, is_only_change=change_count <= 1)
    register.release()
    register.message_id = ""
    if not answer.calls:
        turn.end(draft, "completed", answer.text, result=answer.result)
        return
    register.phase = Phase.WAITING
    if not register.open_step_calls:
        if max(register.failures.values(), default=0) >= _FAILURES_ENDING_TURN:
            turn.fail(
                draft,
                ProtocolError(
                    ErrorCode.AGENT_ERROR,
                    "The agent keeps repeating a failing call; tell it what to do instead",
                    details={"reason": "repeated failing call"},
                ),
            )
        else:
            calls.continue_turn(draft)
        return
    calls.show_what_is_open(children.owner(draft))


def _commit_failure(draft: Draft, failure: Failure) -> None:
    """End the turn with an `error` frame."""
    if failure.streamed_text:
        draft.emit(turn.delta(draft, "", draft.register.message_id, is_final=True, aborted=True))
    turn.fail(draft, failure.error)


def _within_limits(answer: ModelAnswer, most_calls: int) -> list[tuple[CallRequest, ProtocolError | None]]:
    """The calls to make, each with the error of one that exceeds a limit.

    If there are too many calls, the first excess one is included, with an error that tells the model about the rest.
    """
    requests: list[tuple[CallRequest, ProtocolError | None]] = []
    for request in answer.calls[:most_calls]:
        size = len(dumps(request.arguments).encode())
        if size <= limits.PAYLOAD_BYTES:
            requests.append((request, None))
            continue
        message = f"The arguments have {size} bytes; at most {limits.PAYLOAD_BYTES} are allowed. Split the work"
        requests.append((_cut(request, _REFUSED_BYTES), ProtocolError(ErrorCode.PAYLOAD_TOO_LARGE, message)))
    if len(answer.calls) > most_calls:
        message = f"At most {most_calls} calls are allowed at once; this one and the later ones were not made"
        problem = ProtocolError(ErrorCode.INVALID_ARGUMENTS, message)
        requests.append((_cut(answer.calls[most_calls], _REFUSED_BYTES), problem))
    return requests


def _for_the_history(requests: list[CallRequest]) -> tuple[CallRequest, ...]:
    """The calls as stored with the message, with long arguments cut; the CALL items have all of them."""
    share = min(limits.CONTENT_BYTES, limits.MESSAGE_CALLS_BYTES // max(1, len(requests)))
    return tuple(_cut(request, share) for request in requests)


def _cut(request: CallRequest, max_bytes: int) -> CallRequest:
    return CallRequest(request.call_id, request.tool, shortened(request.arguments, max_bytes))


def _make_call(
    draft: Draft, request: CallRequest, answer: ModelAnswer, problem: ProtocolError | None, *, is_only_change: bool
) -> None:
    """Open a call. If it is invalid, denied by a rule or for a server tool, settle it at once without sending it.

    A child's call is subject to its parent's mode and rules, and is opened there. That of a client's agent is one of
    the agent that has delegated, because rules count for an agent by its name, which a client must not choose.

    `problem` is the error of a call over a limit. `is_only_change`: the answer's other calls only read.
    """
    call = CallItem(
        call_id=request.call_id,
        turn_id=draft.register.turn_id,
        agent=answer.agent.name if answer.agent.only is None else draft.register.agent,
        tool=request.tool,
        arguments=request.arguments,
        requires_approval=False,
        state=CallState.EXECUTING.value,
        at=draft.now,
        result_form=TEXT_FORM,
    )
    owner = children.owner(draft)
    try:
        if problem is not None:
            raise problem
        tool = answer.tools.get(request.tool)
        if tool is None:
            if (known_tool := CATALOGUE.get(request.tool)) is not None:
                modes.check(owner, known_tool)
            raise ProtocolError(ErrorCode.TOOL_NOT_FOUND, f"Unknown tool {request.tool[:64]!r}")
        modes.check(owner, tool)
        call.declaration = tool.declaration
        call.arguments = tool.check(request.arguments, **path_rules(owner))
        answer.agent.check(tool, call.arguments)
        failures = draft.register.failures.get(calls.call_digest(call.tool, call.arguments), 0)
        if failures >= MAX_FAILURES:
            raise ProtocolError(
                ErrorCode.EXECUTION_FAILED,
                f"This call failed {failures} times in this turn and was not made again; try something else",
            )
        if tool.name == DELEGATE:
            children.begin(draft, call, answer.agent)
            return
        if tool.always_approval and tool.server_side:
            _check_only_one(draft, tool)
        elif tool.server_side:
            result = server_tools.execute(draft, tool, call.arguments, call)
            _settle_at_once(draft, call, CallState.COMPLETED, {"result": result})
            return
    except ProtocolError as error:
        outcome = {"error": {"code": error.code.value, "message": error.message}}
        _settle_at_once(draft, call, CallState.FAILED, outcome)
        return
    denying_rule = approval_rules.apply(owner, call, tool, is_only_change=is_only_change, is_text=answer.has_text_call)
    if denying_rule is not None:
        call.decision = {"decision": "reject", "rule_id": denying_rule.rule_id, "at": draft.now}
        rejection = {"status": "rejected", "reason": "rule", "rule_id": denying_rule.rule_id, "feedback": ""}
        _settle_at_once(draft, call, CallState.REJECTED, {"result": rejection})
        return
    if owner is not draft:
        children.wait_for(draft, call)
    calls.open_call(owner, call, may_repeat=is_only_change and not answer.has_text_call)


def _check_only_one(draft: Draft, tool: Tool) -> None:
    """Raise ProtocolError INVALID_ARGUMENTS if another call of the answer already waits for this decision."""
    if any(entry.tool == tool.name for entry in draft.register.open_step_calls.values()):
        raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, f"Only one {tool.name} can wait for the user's decision")


def _settle_at_once(draft: Draft, call: CallItem, state: CallState, outcome: dict[str, Any]) -> None:
    draft.register.calls[call.call_id] = CallEntry(call.tool, CallState.EXECUTING, 0, 0)
    calls.settle(draft, call, state, outcome, was_sent=False)
