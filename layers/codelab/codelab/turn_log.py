"""What the agent did, for who operates it: lines of the log for metrics and for the webhook, and the spans of turns.

Both are derived from what a transaction has written, so no state is kept for them. Those of a process that dies between
its transaction and its line are missing.
"""

import os
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from codelab.config import settings
from codelab.observability import began_at, metrics, record, write_line
from codelab.sessions.items import CallItem
from codelab.sessions.register import CallState, Phase
from codelab.sessions.transition import Transition

if TYPE_CHECKING:
    from codelab.otlp import Collector
    from codelab.turn_spans import TurnSpans

#: The characters of a tool's name that a line has: the model may have invented the name.
_NAME_CHARS = 64
#: The least time (ms) that an invocation has left when spans are sent.
_LEAST_MS = 2_000
#: The message of a line that the webhook is told. The template's filters know it.
NOTICE = "webhook notice"
#: What the webhook can be told, by the reason for which a turn ended.
_ENDS = {"completed": "turn_ended", "error": "turn_failed"}


@cache
def spans() -> "TurnSpans | None":
    """The spans of this process; None without a collector (`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`)."""
    if not settings().otel_exporter_otlp_traces_endpoint:
        return None
    from codelab.turn_spans import TurnSpans  # not without a collector

    return TurnSpans(settings().otel_traces_sampler_arg)


@cache
def collector() -> "Collector":
    """The collector that spans are sent to."""
    from codelab.otlp import Collector

    return Collector(settings().otel_exporter_otlp_traces_endpoint, os.environ.get("POWERTOOLS_SERVICE_NAME", ""))


def note(transition: Transition) -> None:
    """Note what a committed transition has ended: steps, calls, the turn."""
    if (turn_spans := spans()) is not None:
        turn_spans.add_transition(transition)
    if settings().metrics:
        _log(transition)
    if settings().webhook_events:
        _write_notices(transition)


def note_event(name: str, transition: Transition | None, call: str = "") -> None:
    """Note that this process has handled a frame: `name` is its type, `call` the call that it is about."""
    if (turn_spans := spans()) is None or not name or transition is None or not (transition.events or transition.puts):
        return
    before = transition.before
    register = transition.after if before is None or before.phase is Phase.IDLE else before
    turn_spans.add_event(name, register, began_at(), call)


def end(remaining_ms: int) -> None:
    """At the end of an event, send the spans of this process to the collector. Takes half a second at most.

    remaining_ms: the time that the invocation has left. Never raises; what the collector does not take is lost.
    """
    if (turn_spans := spans()) is None:
        return
    batch, lost_count = turn_spans.take()
    reason = "too many"
    if batch and remaining_ms < _LEAST_MS:
        lost_count, reason = lost_count + len(batch), "no time"
    elif batch:
        unsent_count, cause = collector().send(batch)
        lost_count, reason = lost_count + unsent_count, cause or reason
    if lost_count:
        record("spans lost", reason=reason, **metrics(SpansLost=lost_count))


def _log(transition: Transition) -> None:
    before = transition.before
    if before is None:
        return
    ids = {"session": before.pk, "turn": before.turn_id}
    calls = list(_settled_calls(transition))
    if calls:
        waits = metrics(
            ToolWaitMs=[call.settled_at - _started_at(call) for call in calls if _was_executed(call)],
            ApprovalWaitMs=[call.decided_at - call.at for call in calls if call.requires_approval],
        )
        tools, states = [call.tool[:_NAME_CHARS] for call in calls], [call.state for call in calls]
        record("calls settled", **ids, tools=tools, states=states, **waits)
    turn_end = transition.turn_end
    if turn_end is not None:
        record("turn ended", **ids, reason=turn_end["reason"], **metrics(TurnSteps=before.step))


def _settled_calls(transition: Transition) -> Iterator[CallItem]:
    """The calls of the turn that were open before the transition and are settled by it."""
    before = transition.before
    open_calls = {} if before is None else before.open_step_calls
    for item in transition.puts:
        if isinstance(item, CallItem) and item.call_id in open_calls and item.settled_at:
            yield item


def _started_at(call: CallItem) -> int:
    """When (ms) the client could execute a settled call: at once, or after the approval."""
    return call.decided_at if call.requires_approval else call.at


def _was_executed(call: CallItem) -> bool:
    return call.state in (CallState.COMPLETED, CallState.FAILED)


def _write_notices(transition: Transition) -> None:
    """Write a line for each of what the webhook is to be told. There is nothing in it that a user or a model wrote."""
    for kind, facts in _notices(transition):
        if kind in settings().webhook_events:
            register = transition.before or transition.after
            ids = {"session_id": register.session_id, "user": register.user, "turn": register.turn_id}
            write_line(NOTICE, **ids, kind=kind, **facts)


def _notices(transition: Transition) -> Iterator[tuple[str, dict[str, Any]]]:
    frames = [event.frame for event in transition.events]
    asking = [frame for frame in frames if frame["type"] == "tool_call" and frame["requires_approval"]]
    if asking:
        calls = {frame["call_id"]: frame["tool_name"][:_NAME_CHARS] for frame in asking}
        yield "approval_requested", {"call_ids": list(calls), "tools": list(calls.values())}
    turn_end = transition.turn_end
    if turn_end is not None and turn_end["reason"] in _ENDS:
        yield _ENDS[turn_end["reason"]], {}
