"""Completes the frames about settled calls: the log has only the state, because the call's item has everything.

The item was written with the frame and never changes again, so it is read when a client gets the frame. The connection
that settled the call is not: a session with one connection costs no read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from codelab.aws.errors import AwsError
from codelab.delivery.payloads import Payloads
from codelab.observability import logger
from codelab.protocol.outgoing import CallUpdate
from codelab.sessions.items import CallItem, EventItem, Reference, dumps
from codelab.sessions.register import CallState, Register
from codelab.sessions.store import SessionStore

_TYPE = "call_update"
#: Bytes of edited arguments in the frame; the `tool_call` after the edit has larger ones.
_EDIT_BYTES = 4_000
#: States in which the call has an outcome of its own; in the others, the human's decision is all there is.
_WITH_OUTCOME = frozenset({CallState.COMPLETED, CallState.FAILED, CallState.CANCELLED})


def with_outcomes_for(
    store: SessionStore, payloads: Payloads, events: Sequence[EventItem], register: Register, targets: Iterable[str]
) -> Sequence[EventItem]:
    """The events with all that frames about settled calls say, if one of the `targets` (connection ids) is shown it.

    If the calls cannot be read, the frames say only the state.
    """
    extended_targets = {target for target in targets if register.connections[target].extensions}
    settled_events = [event for event in events if event.frame["type"] == _TYPE and extended_targets - {event.sender}]
    if not settled_events:
        return events
    try:
        return with_outcomes(store, payloads, events, register)
    except AwsError as error:
        logger().warning("calls shown without their results", extra={"session": register.pk, "error": str(error)})
        return events


def with_outcomes(
    store: SessionStore, payloads: Payloads, events: Sequence[EventItem], register: Register
) -> Sequence[EventItem]:
    """The events with all that frames about settled calls say. Raises AwsError."""
    call_ids = [event.frame["call_id"] for event in events if event.frame["type"] == _TYPE]
    if not call_ids:
        return events
    calls = {call.call_id: call for call in store.calls(register.pk, call_ids)}

    def full(event: EventItem) -> EventItem:
        call = calls.get(event.frame["call_id"]) if event.frame["type"] == _TYPE else None
        return (
            event if call is None else replace(event, frame={**event.frame, **_call_fields(call, payloads, register)})
        )

    return [full(event) for event in events]


def for_sender(frame: dict[str, Any]) -> dict[str, Any]:
    """The frame without what its receiver has sent itself."""
    return {name: value for name, value in frame.items() if name not in CallUpdate.of_the_call}


def _call_fields(call: CallItem, payloads: Payloads, register: Register) -> dict[str, Any]:
    decision, edited_arguments, outcome = call.decision, call.edited_arguments, call.outcome
    fields: dict[str, Any] = {name: decision[name] for name in ("decision", "feedback") if decision.get(name)}
    if isinstance(edited_arguments, dict) and len(dumps(edited_arguments).encode()) <= _EDIT_BYTES:
        fields["arguments"] = edited_arguments
    if outcome is None or CallState(call.state) not in _WITH_OUTCOME:
        return fields
    if isinstance(outcome, Reference):
        url = payloads.url(register.user, register.session_id, outcome.digest)
        return {**fields, "payload_url": url, "payload_bytes": outcome.bytes}
    return {**fields, **outcome}
