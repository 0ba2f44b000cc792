"""Cancel: the running turn ends, its open calls are cancelled, and the streamed text stays."""

from codelab.protocol.errors import ErrorCode
from codelab.protocol.incoming import Cancel
from codelab.sessions import keys
from codelab.sessions.register import CallState, Phase
from codelab.sessions.transition import Transition
from codelab.turns import calls, turn
from codelab.turns.caller import Caller
from codelab.turns.connections import touch
from codelab.turns.decision import decision
from codelab.turns.draft import Draft


@decision(Cancel)
def cancel(draft: Draft, caller: Caller, frame: Cancel) -> Transition | None:
    """Cancel the running turn, or only the turn that the frame names. None, without an error, if it does not run."""
    register = draft.register
    if register.phase is Phase.IDLE or frame.turn_id not in (None, register.turn_id):
        return None
    touch(draft, caller)
    stop(draft)
    return draft.finish()


def stop(draft: Draft) -> None:
    """End the turn now or, if a step runs, let its owner end it: only the owner knows what was streamed."""
    register = draft.register
    if register.phase is Phase.RUNNING:
        register.cancelled_at = register.cancelled_at or draft.now
        return
    if register.message_id:  # an attempt of this step has crashed; its text stays
        turn.cancelled(draft, draft.streamed())
        return
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
    turn.end(draft, "cancelled")
