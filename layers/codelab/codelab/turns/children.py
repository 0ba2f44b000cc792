"""Children: another agent works on a `delegate` call of the turn, in a context of its own.

A child is a session that no client can address: its id is that of its parent and of the call. It has a register, a
history and steps like every session, one turn and no connections. What concerns both is written in one transaction of
both, so that neither can miss it: the child's beginning, its calls, their outcomes, and its end. Its calls are the
parent's: they are opened, decided and executed there, under the parent's mode and rules. However the child's turn
ends, that settles the parent's call, and the child is erased (`calls.end_child`).
"""

from dataclasses import replace
from typing import Any

from codelab.agents import Agent, subagents
from codelab.llm.tokens import estimate_tokens
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import SubagentInfo, SubagentState, SubagentUpdate
from codelab.sessions import keys
from codelab.sessions.items import Assignment, CallItem, InputItem, InstructionsItem, ToolsItem
from codelab.sessions.register import CallEntry, CallState
from codelab.turns import assignments, turn
from codelab.turns.decision import BeingDeleted
from codelab.turns.draft import Draft, Ending

#: How long (ms) a child may take at most: a week. Its steps and calls have limits of their own.
_DELEGATION_MS = 604_800_000
#: Characters of what a child has written that clients see while it works.
_TEXT_CHARS = 500


def owner(draft: Draft) -> Draft:
    """The draft of the session whose clients execute the agent's calls: a child's parent, else the session itself.

    Raises BeingDeleted if the parent does not exist any more.
    """
    delegation = draft.register.delegation
    if delegation is None:
        return draft
    parent = draft.relative(delegation[0])
    if parent is None:
        raise BeingDeleted
    return parent


def begin(draft: Draft, call: CallItem, agent: Agent) -> None:
    """Open the checked call of `agent`, and begin the child that works on it.

    Raises ProtocolError: RATE_LIMITED if too many work, or have worked in this turn; INVALID_ARGUMENTS if the schema of
    the result cannot be used.
    """
    register, arguments = draft.register, draft.value(call.arguments)
    if len(register.delegations) >= limits.CHILDREN:
        raise ProtocolError(
            ErrorCode.RATE_LIMITED, f"{limits.CHILDREN} subagents already work; delegate the rest when they are done"
        )
    if register.subagents >= limits.CHILDREN_PER_TURN:
        raise ProtocolError(
            ErrorCode.RATE_LIMITED,
            f"{limits.CHILDREN_PER_TURN} subagents have worked on this turn; do the rest yourself",
        )
    draft.need([keys.TOOLS, *([keys.INSTRUCTIONS] if register.instructions else [])])
    tools_item = ToolsItem.of(draft.item(keys.TOOLS))
    result_schema, name = assignments.checked_schema(arguments), arguments["agent"]
    # As the agent was offered it: a client that is away for a moment has not taken it back.
    declaration = None if name in subagents() else agent.declared_agents[name]
    assignment = Assignment() if declaration is None else assignments.of_agent(declaration, agent)
    register.subagents += 1
    register.calls[call.call_id] = CallEntry(call.tool, CallState.EXECUTING, draft.now + _DELEGATION_MS, seq=0)
    draft.puts.append(call)
    child = draft.new_child(call.call_id)
    heir = child.register
    heir.title = arguments["task"][: limits.SUBAGENT_TASK_CHARS]
    heir.settings, heir.user_plan, heir.executor = dict(register.settings), register.user_plan, register.executor
    if declaration is None:
        heir.agent = name
    else:  # A version of this code without clients' agents takes it for one that may do what its agent may.
        heir.agent = agent.name
        assignments.configure(child, declaration)
    assignment = replace(assignment, result_schema=result_schema)
    child.puts.append(replace(tools_item, agents={}, assignment=assignment))
    if register.instructions and (item := draft.item(keys.INSTRUCTIONS)) is not None:
        heir.instructions, heir.instructions_tokens = register.instructions, register.instructions_tokens
        child.puts.append(InstructionsItem.of(item))
    heir.instructions_tokens += estimate_tokens(assignment.prompt)
    turn.begin(child, InputItem(call.call_id, _task(arguments), "user", draft.now))
    heir.last_activity = 0  # no list of sessions contains it
    draft.emit(_update(draft, call.call_id, arguments, "running"))


def _task(arguments: dict[str, Any]) -> str:
    """The message that begins the child's turn."""
    task, files = str(arguments["task"]), arguments.get("files")
    return f"{task}\n\nFiles to begin with: {', '.join(files)}" if files else task


def wait_for(draft: Draft, call: CallItem) -> None:
    """Make a child's new call one of its parent's. The child waits for its outcome."""
    delegation = draft.register.delegation
    assert delegation is not None
    draft.register.calls[call.call_id] = CallEntry(call.tool, CallState.EXECUTING, due=0, seq=0)
    call.turn_id, call.delegation = owner(draft).register.turn_id, delegation[1]


def report(draft: Draft, agent: str, text: str) -> None:
    """Tell the parent's clients what a child has done."""
    register, parent = draft.register, owner(draft)
    _, call_id = register.delegation or ("", "")
    update = _update(parent, call_id, {"agent": agent, "task": register.title}, "running")
    update.step, update.text = register.step, text[:_TEXT_CHARS] or None
    parent.emit(update)


def outcome_of(ending: Ending) -> tuple[CallState, dict[str, Any]]:
    """The outcome of the call on which a child has worked."""
    if ending.reason == "completed":
        return CallState.COMPLETED, {"result": {"answer": ending.text if ending.result is None else ending.result}}
    if ending.error is not None:
        error = {"code": ending.error.code.value, "message": f"The subagent failed: {ending.error.message}"}
    else:
        error = {"code": ErrorCode.EXECUTION_FAILED.value, "message": f"The subagent was stopped: {ending.reason}"}
    return CallState.FAILED, {"error": {**error, **({"answer_so_far": ending.text} if ending.text else {})}}


def working(draft: Draft) -> list[SubagentInfo]:
    """The children that work. Needs the calls on which they do."""
    items = [call for call_id in draft.register.delegations if (call := draft.call(call_id)) is not None]
    return [SubagentInfo(call_id=call.call_id, **_shown(draft.value(call.arguments))) for call in items]


def _shown(arguments: dict[str, Any]) -> dict[str, str]:
    return {"agent": arguments["agent"], "task": arguments["task"][: limits.SUBAGENT_TASK_CHARS]}


def tell_end(draft: Draft, call: CallItem, state: CallState) -> None:
    """Tell the clients that the child which worked on the call has ended."""
    states: dict[CallState, SubagentState] = {CallState.COMPLETED: "completed", CallState.CANCELLED: "cancelled"}
    draft.emit(_update(draft, call.call_id, draft.value(call.arguments), states.get(state, "failed")))


def _update(draft: Draft, call_id: str, arguments: dict[str, Any], state: SubagentState) -> SubagentUpdate:
    return SubagentUpdate(call_id=call_id, turn_id=draft.register.turn_id, state=state, **_shown(arguments))
