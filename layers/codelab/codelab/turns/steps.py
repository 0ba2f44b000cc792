"""A step: one schema-enforced Request to the model, run under a lease and committed once."""

from dataclasses import dataclass, field
from typing import Any

from codelab.agents import Agent
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import MessageDiscarded, Status
from codelab.protocol.tools import Tool
from codelab.sessions.items import CallItem, CallRequest, dumps
from codelab.sessions.register import CallEntry, CallState, Phase, Register
from codelab.sessions.transition import Step, Transition
from codelab.turns import approval_rules, calls, server_tools, titles, turn
from codelab.turns.draft import Draft
from codelab.turns.text import shortened

#: Acquires of one step before its turn ends with an error.
MAX_ATTEMPTS = 3
#: Failures of one and the same call before it is not sent again, and before the turn ends because of it.
MAX_FAILURES = 3
_FAILURES_ENDING_TURN = 5
#: Bytes that are kept of arguments that are too large.
_REFUSED_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Lease:
    """What an owner holds: its `token`, until when (ms), and the id of the message this attempt streams."""

    token: str
    until: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's validated answer. `text` is what was streamed, `agent` who gave it, `tools` what it could call.

    `title` is what it calls the session, if it was asked.
    """

    text: str
    calls: tuple[CallRequest, ...]
    agent: Agent
    tools: dict[str, Tool]
    usage: dict[str, int] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The model gave no valid answer, or the owner was told to stop. `streamed` is what the user has seen of it."""

    error: ProtocolError
    usage: dict[str, int]
    streamed: str


def token(invocation: str, random_id: str) -> str:
    """A lease's token: whose it is, and what makes it another one than that of the step before."""
    return f"{invocation}:{random_id}"


def is_leased_by(register: Register, invocation: str) -> bool:
    """Is the owner of the running step this invocation of the function?"""
    return register.phase is Phase.RUNNING and register.lease.partition(":")[0] == invocation


def is_current(register: Register, step: Step) -> bool:
    """Does `step` name what the register waits for? A duplicate or late invoke does not."""
    return register.phase is Phase.DISPATCHED and (register.turn_id, register.step, register.attempt) == (
        step.turn_id,
        step.step,
        step.attempt,
    )


def acquire(draft: Draft, step: Step, lease: Lease) -> Transition | None:
    """Take the step, once: None for a duplicate. The message of an attempt that died while it streamed is closed."""
    register = draft.register
    if owns(register, lease):
        return draft.finish()  # we had won, and were told of a conflict with ourselves
    if not is_current(register, step):
        return None
    dead = register.message_id if register.message_id and draft.streamed() else ""
    register.attempt += 1
    register.phase = Phase.RUNNING
    register.lease, register.lease_until, register.message_id = lease.token, lease.until, lease.message_id
    register.message_seq = register.last_seq
    if dead:
        draft.emit(turn.delta(draft, "", dead, is_final=True, aborted=True))
        draft.emit(MessageDiscarded(message_id=dead, turn_id=register.turn_id))
    draft.set_status(Status.THINKING, "Thinking")
    return draft.finish()


def owns(register: Register, lease: Lease) -> bool:
    """Is the lease still this owner's? One that sees a foreign token stops."""
    return register.phase is Phase.RUNNING and register.lease == lease.token


def commit(draft: Draft, lease: Lease, result: Answer | Failure, log_end: int) -> Transition | None:
    """End the step with the model's answer or without one. A turn that was cancelled keeps what was streamed.

    `log_end` is the seq of the last frame that was streamed. None: the lease is no longer ours.
    """
    register = draft.register
    if not owns(register, lease):
        return None
    register.last_seq = max(register.last_seq, log_end)
    count(register, result.usage)
    if register.cancelled_at:
        turn.cancelled(draft, result.text if isinstance(result, Answer) else result.streamed)
        return draft.finish()
    if isinstance(result, Failure):
        return _commit_failure(draft, lease, result)
    return _commit_answer(draft, lease, result)


def _commit_answer(draft: Draft, lease: Lease, answer: Answer) -> Transition:
    """The answer goes into the history, its calls into the register and on their way; the turn goes on or ends."""
    register = draft.register
    titles.set_title(register, answer.title)
    wanted = _within_limits(answer)
    made = _for_the_history([request for request, _ in wanted])
    draft.append_message("assistant", answer.text, calls=made, message_id=lease.message_id)
    if answer.text:
        draft.emit(turn.delta(draft, "", lease.message_id, is_final=True))
    register.calls = {}
    called = [answer.tools[request.tool] for request, _ in wanted if request.tool in answer.tools]
    changing = sum(tool.risk != "read" for tool in called)
    for request, problem in wanted:
        _make_call(draft, request, answer, problem, alone=changing <= 1)
    register.release()
    register.message_id = ""
    if not answer.calls:
        turn.end(draft, "completed", answer.text)
        return draft.finish()
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
            return draft.finish()
        turn.next_step(draft)
        return draft.finish()
    calls.show_what_is_open(draft)
    return draft.finish()


def _commit_failure(draft: Draft, lease: Lease, failure: Failure) -> Transition:
    """The turn ends with an `error` frame."""
    if failure.streamed:
        draft.emit(turn.delta(draft, "", lease.message_id, is_final=True, aborted=True))
    turn.fail(draft, failure.error)
    return draft.finish()


def _within_limits(answer: Answer) -> list[tuple[CallRequest, ProtocolError | None]]:
    """The calls that are kept, each with what is wrong with it.

    One call over the number is kept, to fail and so to tell the model that it and the rest were not made.
    """
    found: list[tuple[CallRequest, ProtocolError | None]] = []
    for request in answer.calls[: limits.CALLS_PER_STEP]:
        size = len(dumps(request.arguments).encode())
        if size <= limits.PAYLOAD_BYTES:
            found.append((request, None))
            continue
        message = f"The arguments have {size} bytes; at most {limits.PAYLOAD_BYTES} are allowed. Split the work"
        found.append((_cut(request, _REFUSED_BYTES), ProtocolError(ErrorCode.PAYLOAD_TOO_LARGE, message)))
    if len(answer.calls) > limits.CALLS_PER_STEP:
        message = (
            f"At most {limits.CALLS_PER_STEP} calls are allowed at once; this one and the later ones were not made"
        )
        problem = ProtocolError(ErrorCode.INVALID_ARGUMENTS, message)
        found.append((_cut(answer.calls[limits.CALLS_PER_STEP], _REFUSED_BYTES), problem))
    return found


def _for_the_history(requests: list[CallRequest]) -> tuple[CallRequest, ...]:
    """The calls as their message keeps them: the CALL items have the arguments whole."""
    share = min(limits.CONTENT_BYTES, limits.MESSAGE_CALLS_BYTES // max(1, len(requests)))
    return tuple(_cut(request, share) for request in requests)


def _cut(request: CallRequest, most: int) -> CallRequest:
    return CallRequest(request.call_id, request.tool, shortened(request.arguments, most))


def _make_call(
    draft: Draft, request: CallRequest, answer: Answer, problem: ProtocolError | None, *, alone: bool
) -> None:
    """Open a call, or settle it at once: the client sees none that is bad, denied by a rule or executed here.

    `alone`: the others of the answer only read.
    """
    call = CallItem(
        call_id=request.call_id,
        turn_id=draft.register.turn_id,
        agent=answer.agent.name,
        tool=request.tool,
        arguments=request.arguments,
        requires_approval=False,
        state=CallState.EXECUTING.value,
        at=draft.now,
    )
    try:
        if problem is not None:
            raise problem
        tool = answer.tools.get(request.tool)
        if tool is None:
            raise ProtocolError(ErrorCode.TOOL_NOT_FOUND, f"Unknown tool {request.tool[:64]!r}")
        call.declaration = tool.declaration
        call.arguments = tool.check(request.arguments, lenient_paths=draft.settings.paths_lenient)
        answer.agent.check(tool, call.arguments)
        failed = draft.register.failures.get(calls.call_digest(call.tool, call.arguments), 0)
        if failed >= MAX_FAILURES:
            raise ProtocolError(
                ErrorCode.EXECUTION_FAILED,
                f"This call failed {failed} times in this turn and was not made again; try something else",
            )
        if tool.server_side:
            result = server_tools.execute(draft, tool, call.arguments)
            _settle_at_once(draft, call, CallState.COMPLETED, {"result": result})
            return
    except ProtocolError as error:
        outcome = {"error": {"code": error.code.value, "message": error.message}}
        _settle_at_once(draft, call, CallState.FAILED, outcome)
        return
    denied = approval_rules.apply(draft, call, tool, alone=alone)
    if denied is not None:
        call.decision = {"decision": "reject", "rule_id": denied.rule_id, "at": draft.now}
        rejected = {"status": "rejected", "reason": "rule", "rule_id": denied.rule_id, "feedback": ""}
        _settle_at_once(draft, call, CallState.REJECTED, {"result": rejected})
        return
    calls.open_call(draft, call)


def _settle_at_once(draft: Draft, call: CallItem, state: CallState, outcome: dict[str, Any]) -> None:
    draft.register.calls[call.call_id] = CallEntry(call.tool, CallState.EXECUTING, 0, 0)
    calls.settle(draft, call, state, outcome, was_sent=False)


def count(register: Register, usage: dict[str, int]) -> None:
    """Add the usage of a Request to the turn's."""
    for name, value in usage.items():
        register.usage[name] = register.usage.get(name, 0) + value
