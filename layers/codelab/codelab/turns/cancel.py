"""Cancel: the running turn ends, its open calls are cancelled, and the streamed text stays."""

from codelab.protocol.errors import ErrorCode
from codelab.protocol.incoming import Cancel
from codelab.sessions import keys
from codelab.sessions.register import CallState, Phase
from codelab.sessions.transition import Transition
from codelab.turns import calls, inbox, turn
from codelab.turns.caller import Caller
from codelab.turns.connections import touch
from codelab.turns.decision import decision
from codelab.turns.draft import Draft, Outcome
from codelab.turns.quotas import QuotaNeed


@decision(
    Cancel,
    reads=lambda frame: [keys.input_key(frame.client_msg_id)] if frame.client_msg_id else [],
    quota=lambda frame: QuotaNeed.COUNTERS if frame.client_msg_id else QuotaNeed.NONE,
)
def cancel(draft: Draft, caller: Caller, frame: Cancel) -> Transition | None:
    """Cancel the running turn, or only what the frame names: a turn, or a message in any state.

    None, without an error, if there is nothing to cancel. Raises ProtocolError RATE_LIMITED, see `inbox.take_back`.
    """
    register = draft.register
    message_id = frame.client_msg_id
    stops_turn = register.phase is not Phase.IDLE and frame.turn_id in (None, register.turn_id)
    withdrawn_ids = list(register.inbox) if frame.queued else []
    if message_id is not None:
        is_answered = message_id not in register.inbox and draft.item(keys.input_key(message_id)) is not None
        if not is_answered and inbox.take_back(draft, caller, message_id):
            stops_turn = False
        else:
            stops_turn = stops_turn and message_id in _answered_messages(draft)
    if not (stops_turn or withdrawn_ids or draft.outcome.outcome == "withdrawn"):
        draft.outcome = Outcome("nothing_to_cancel", client_msg_id=message_id)
        return None
    touch(draft, caller)
    if withdrawn_ids:
        inbox.remove(draft, withdrawn_ids)
        draft.outcome = Outcome("withdrawn", client_msg_id=message_id)
    if stops_turn:
        draft.outcome = Outcome("cancelling", register.turn_id, message_id)
        stop(draft)
    return draft.finish()


def _answered_messages(draft: Draft) -> list[str]:
    """The messages that the running turn answers."""
    first_message = draft.item(keys.message_key(draft.register.turn_n))
    return [
        *draft.register.steered_messages,
        *([first_message["message_id"]] if first_message and "message_id" in first_message else []),
    ]


def stop(draft: Draft) -> None:
    """End the turn now or, if a step runs, let its owner end it: only the owner knows what was streamed."""
    register = draft.register
    if register.phase is Phase.RUNNING:
        register.cancelled_at = register.cancelled_at or draft.now
        return
    if register.message_id:  # an attempt of this step has crashed; its text stays
        turn.count_lost(draft)
        turn.end_cancelled(draft, draft.streamed())
        return
    calls.stop_children(draft, register.delegations, "The user cancelled the turn")
    draft.need(keys.call_key(call_id) for call_id in register.open_step_calls)
    for call_id in register.open_step_calls:
        call = draft.call(call_id)
        if call is not None:
            calls.settle(
                draft,
                call,
                CallState.CANCELLED,
                calls.unfinished(call, ErrorCode.CANCELLED, "The user cancelled the turn"),
            )
    calls.tell_settled(draft)
    turn.end(draft, "cancelled")
