"""Lines of the log about what the agent did: how turns ended, and how long calls waited. They are there for metrics.

They are derived from what a transaction has written, so no state is kept for them. One of a process that dies between
its transaction and its line is missing.
"""

from collections.abc import Iterator

from codelab.config import settings
from codelab.observability import metrics, record
from codelab.sessions.items import CallItem
from codelab.sessions.register import CallState
from codelab.sessions.transition import Transition

#: The characters of a tool's name that a line has: the model may have invented the name.
_NAME_CHARS = 64


def note(transition: Transition) -> None:
    """Log the calls and the turn that a committed transition has ended, if there are alarms (`METRICS`)."""
    before = transition.before
    if before is None or not settings().metrics:
        return
    ids = {"session": before.pk, "turn": before.turn_id}
    calls = list(settled_calls(transition))
    if calls:
        waits = metrics(
            ToolWaitMs=[call.settled_at - started_at(call) for call in calls if _was_executed(call)],
            ApprovalWaitMs=[decided_at(call) - call.at for call in calls if call.requires_approval],
        )
        tools, states = [call.tool[:_NAME_CHARS] for call in calls], [call.state for call in calls]
        record("calls settled", **ids, tools=tools, states=states, **waits)
    end = turn_end(transition)
    if end is not None:
        record("turn ended", **ids, reason=end["reason"], **metrics(TurnSteps=before.step))


def settled_calls(transition: Transition) -> Iterator[CallItem]:
    """The calls of the turn that were open before the transition and are settled by it."""
    before = transition.before
    open_calls = {} if before is None else before.open_step_calls
    for item in transition.puts:
        if isinstance(item, CallItem) and item.call_id in open_calls and item.settled_at:
            yield item


def decided_at(call: CallItem) -> int:
    """When (ms) a human decided about a settled call; without a decision, when it ended."""
    return int(call.decision.get("at", call.settled_at))


def started_at(call: CallItem) -> int:
    """When (ms) the client could execute a settled call: at once, or after the approval."""
    return decided_at(call) if call.requires_approval else call.at


def turn_end(transition: Transition) -> dict[str, object] | None:
    """The `turn_end` frame of the transition, None if no turn has ended."""
    return next((event.frame for event in transition.events if event.frame["type"] == "turn_end"), None)


def _was_executed(call: CallItem) -> bool:
    return call.state in (CallState.COMPLETED, CallState.FAILED)
