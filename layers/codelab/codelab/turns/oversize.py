"""A connection that API Gateway has closed because it sent more than a WebSocket message, or a frame of one, holds."""

from codelab.protocol.errors import ErrorCode
from codelab.sessions.register import CallState
from codelab.sessions.transition import Transition
from codelab.turns import calls, connections
from codelab.turns.draft import Draft

#: Message too big (RFC 6455, 7.4.1).
CLOSE_CODE = 1009

_MESSAGE = "The result is too large for a WebSocket message and was not sent by reference; request less"


def cut_off(draft: Draft, connection_id: str) -> Transition:
    """`$disconnect` with 1009. What was sent is lost; most likely it was the result of a call.

    If the connection had one call to execute, that ends with PAYLOAD_TOO_LARGE: sent again it would be cut off again.
    Of several nobody knows which it was, so none is blamed: those whose results fit are settled when the client is
    back, until the large one is alone, or its deadline ends it. What awaits approval is not decided by this.

    A 410 may have had the connection forgotten before; it is the executor until another one takes over. After this it
    is no longer, so that a repeat does not end the next call.
    """
    register = draft.register
    seqs = {it.seq for it in connections.executing(register) if it.connection_id == connection_id}
    executed = [call_id for call_id, entry in register.open_calls.items() if entry.seq in seqs]
    if len(executed) == 1:
        call = draft.call(executed[0])
        if call is not None:
            outcome = calls.unfinished(call, ErrorCode.PAYLOAD_TOO_LARGE, _MESSAGE)
            calls.settle(draft, call, CallState.FAILED, outcome)
            calls.continue_turn(draft)
    if register.executor == connection_id:
        register.executor = ""
    return connections.disconnect(draft, connection_id)
