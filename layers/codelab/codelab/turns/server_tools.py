"""Server tools: executed in the decision that commits the answer with their calls, or in a human's that accepts one."""

from collections.abc import Callable, Mapping
from typing import Any

from codelab.protocol.modes import Mode, acting_mode
from codelab.protocol.outgoing import Plan, PlanStep
from codelab.protocol.tools import Tool
from codelab.sessions.items import CallItem, PlanItem
from codelab.turns import handover, modes, shown_results
from codelab.turns.draft import Draft

#: Takes the draft, the checked arguments and the call, and returns the result as JSON. It may read items
#: (`draft.item`) and their contents (`draft.value`), as they were before the answer with the call. A ProtocolError
#: becomes the call's error, so it must be raised before any change.
Execute = Callable[[Draft, dict[str, Any], CallItem], Any]


def execute(draft: Draft, tool: Tool, arguments: dict[str, Any], call: CallItem) -> Any:
    """Execute the tool and return its result. Raises ProtocolError, which the model sees."""
    return TOOLS[tool.name](draft, arguments, call)


def _update_plan(draft: Draft, arguments: dict[str, Any], _call: CallItem) -> Any:
    _show_plan(draft, arguments["items"])
    return {"status": "shown"}


def _accept_plan(draft: Draft, arguments: dict[str, Any], call: CallItem) -> Any:
    """The human's decision about the call has accepted the plan: it is what is shown, and the agent may act."""
    _show_plan(draft, [{"text": text, "status": "pending"} for text in arguments["steps"]])
    mode: Mode = call.decision.get("mode") or acting_mode(draft.register.settings)
    modes.set_mode(draft, mode, call.call_id)
    return {"status": "accepted", "mode": mode, "note": "Carry out the plan, and keep it up to date by update_plan"}


def _show_plan(draft: Draft, items: list[dict[str, Any]]) -> None:
    draft.put(PlanItem(items))
    draft.emit(Plan(turn_id=draft.register.turn_id, items=[PlanStep.model_validate(item) for item in items]))


TOOLS: Mapping[str, Execute] = {
    "switch_agent": lambda draft, arguments, _call: handover.hand_over(draft, arguments),
    "update_plan": _update_plan,
    "propose_plan": _accept_plan,
    "read_result": lambda draft, arguments, _call: shown_results.read_result(draft, arguments),
}
