"""Tools that need no IDE: executed in the very decision that commits the answer which calls them."""

from collections.abc import Callable, Mapping
from typing import Any

from codelab.protocol.outgoing import Plan, PlanStep
from codelab.protocol.tools import Tool
from codelab.sessions.items import PlanItem
from codelab.turns import handover, shown_results
from codelab.turns.draft import Draft

#: Takes the draft and the checked arguments, gives the result as JSON. It may ask for items of the session
#: (`draft.item`) and for their contents (`draft.value`); a ProtocolError becomes the call's error, so it is raised
#: before anything is changed.
Execute = Callable[[Draft, dict[str, Any]], Any]


def execute(draft: Draft, tool: Tool, arguments: dict[str, Any]) -> Any:
    """The call's result. Raises ProtocolError, which the model is told."""
    return TOOLS[tool.name](draft, arguments)


def _update_plan(draft: Draft, arguments: dict[str, Any]) -> Any:
    draft.put(PlanItem(arguments["items"]))
    steps = [PlanStep.model_validate(item) for item in arguments["items"]]
    draft.emit(Plan(turn_id=draft.register.turn_id, items=steps))
    return {"status": "shown"}


TOOLS: Mapping[str, Execute] = {
    "switch_agent": handover.hand_over,
    "update_plan": _update_plan,
    "read_result": shown_results.read_result,
}
