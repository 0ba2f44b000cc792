"""Server tools: executed in the decision that commits the answer with their calls."""

from collections.abc import Callable, Mapping
from typing import Any

from codelab.protocol.outgoing import Plan, PlanStep
from codelab.protocol.tools import Tool
from codelab.sessions.items import PlanItem
from codelab.turns import handover, shown_results
from codelab.turns.draft import Draft

#: Takes the draft and the checked arguments, and returns the result as JSON. It may read items (`draft.item`) and their
#: contents (`draft.value`), as they were before the answer with the call. A ProtocolError becomes the call's error, so
#: it must be raised before any change.
Execute = Callable[[Draft, dict[str, Any]], Any]


def execute(draft: Draft, tool: Tool, arguments: dict[str, Any]) -> Any:
    """Execute the tool and return its result. Raises ProtocolError, which the model sees."""
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
