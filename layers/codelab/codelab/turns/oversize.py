"""Handles a connection that API Gateway closed because its message or WebSocket frame was too large."""

from codelab.protocol.errors import ErrorCode
from codelab.sessions.register import CallState
from codelab.sessions.transition import Transition
from codelab.turns import calls, connections
from codelab.turns.draft import Draft

#: Message too big (RFC 6455, 7.4.1).
CLOSE_CODE = 1009

_MESSAGE = "The result is too large for a WebSocket message and was not sent by reference; request less"


def cut_off(draft: Draft, connection_id: str) -> Transition:
    """`$disconnect` with 1009: what was sent is lost, most likely the result of a call.

    If the connection was executing exactly one call, the call fails with PAYLOAD_TOO_LARGE, because the same result
    would be cut off again. With several calls the cause is unknown, so no call fails: the client settles the others
    after it reconnects, until the large one is alone or reaches its deadline. Calls that await approval do not change.

    A 410 may have removed the connection already, but it stays the executor until another one takes over. This decision
    removes it as executor, so that a repeat does not fail the next call.
    """
    register = draft.register
    seqs = {resend.seq for resend in connections.executing_calls(register) if resend.connection_id == connection_id}
    call_ids = [call_id for call_id, entry in register.open_calls.items() if entry.seq in seqs]
    if len(call_ids) == 1:
        call = draft.call(call_ids[0])
        if call is not None:
            outcome = calls.unfinished(call, ErrorCode.PAYLOAD_TOO_LARGE, _MESSAGE)
            calls.settle(draft, call, CallState.FAILED, outcome)
            calls.continue_turn(draft)
    if register.executor == connection_id:
        register.executor = ""
    return connections.disconnect(draft, connection_id)
