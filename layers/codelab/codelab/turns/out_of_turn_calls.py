"""Out-of-turn calls: a program makes them over HTTP, the IDE executes them, and no model sees them."""

from dataclasses import dataclass
from typing import Any

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.tools import Tool
from codelab.sessions import keys
from codelab.sessions.approval_rules import RULE_KEYS
from codelab.sessions.items import CallItem, ToolsItem, dumps, is_same
from codelab.sessions.register import CallState
from codelab.sessions.spending import Spending
from codelab.sessions.transition import Transition
from codelab.turns import approval_rules, calls, modes, own_tools, quotas
from codelab.turns.caller import Caller
from codelab.turns.connections import choose_executor, executor_for_http
from codelab.turns.decision import decision
from codelab.turns.draft import Draft
from codelab.turns.platforms import path_rules
from codelab.turns.quotas import QuotaNeed


@dataclass(frozen=True, slots=True)
class ExecuteTool:
    """A program's call. A repeat has the same `call_id`."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]


@decision(
    ExecuteTool,
    reads=lambda event: [keys.call_key(event.call_id), keys.TOOLS, *RULE_KEYS.values()],
    quota=QuotaNeed.COUNTERS,
)
def execute(draft: Draft, caller: Caller, event: ExecuteTool) -> Transition | None:
    """Make the call. None for a repeat: the call's item has its state.

    Policy and rules decide whether it needs approval, as for a model's call. Raises ProtocolError: TOOL_NOT_FOUND,
    INVALID_ARGUMENTS (also if `call_id` names another call), RATE_LIMITED, PERMISSION_DENIED if a rule denies it or the
    session's mode does not allow it, EXECUTION_FAILED without a connected IDE.
    """
    call_id, register, earlier_call = event.call_id, draft.register, draft.call(event.call_id)
    tool = _tool(draft, event.tool_name, earlier_call)
    if tool.server_side:
        raise ProtocolError(ErrorCode.TOOL_NOT_FOUND, f"{tool.name} is a server-side tool; no IDE can execute it")
    arguments = tool.check(event.arguments, **path_rules(draft))
    if earlier_call is not None:
        if (earlier_call.turn_id, earlier_call.tool) != ("", tool.name) or not is_same(
            earlier_call.arguments, arguments
        ):
            raise ProtocolError(
                ErrorCode.INVALID_ARGUMENTS, "call_id belongs to another call", details={"field": "call_id"}
            )
        return None
    modes.check(draft, tool)
    quotas.spend(draft, caller.plan, Spending(stored_bytes=len(dumps(arguments).encode())))
    if len(register.out_of_turn_calls) >= limits.OUT_OF_TURN_CALLS:
        raise ProtocolError(
            ErrorCode.RATE_LIMITED, f"{limits.OUT_OF_TURN_CALLS} calls are already open", call_id=call_id
        )
    choose_executor(draft, caller)
    if register.executor not in register.connections:
        raise ProtocolError(
            ErrorCode.EXECUTION_FAILED,
            "No connected IDE can execute the call",
            call_id=call_id,
            details={"reason": "no_ide"},
            retryable=True,
        )
    call = CallItem(
        call_id=call_id,
        turn_id="",
        agent="",
        tool=tool.name,
        arguments=arguments,
        requires_approval=False,
        state=CallState.EXECUTING.value,
        at=draft.now,
        declaration=tool.declaration,
    )
    denying_rule = approval_rules.apply(draft, call, tool)
    if denying_rule is not None:
        raise ProtocolError(
            ErrorCode.PERMISSION_DENIED,
            "A remembered decision of the user denies this call",
            call_id=call_id,
            details={"rule_id": denying_rule.rule_id},
        )
    calls.open_call(draft, call)
    return draft.finish()


def _tool(draft: Draft, name: str, earlier_call: CallItem | None) -> Tool:
    """The executor's own tool, else the catalogue's as it executes it; for an `earlier_call`, the tool that it called.

    Needs the stored tools.
    """
    if earlier_call is not None and earlier_call.tool == name:
        return calls.tool_of(earlier_call)
    executor = executor_for_http(draft.register, draft.now)
    return own_tools.tools_of_connection(ToolsItem.of(draft.item(keys.TOOLS)), executor).find(name)
