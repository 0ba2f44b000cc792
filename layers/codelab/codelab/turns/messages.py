"""The user speaks: a turn begins, or the message waits for the running one to end."""

from dataclasses import replace

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.outgoing import Queued
from codelab.sessions.items import InputItem
from codelab.sessions.register import Phase
from codelab.sessions.transition import Transition
from codelab.turns import cancel, quotas, turn
from codelab.turns.connections import Caller, lead, touch
from codelab.turns.draft import Draft


def user_message(draft: Draft, caller: Caller, message: InputItem) -> Transition:
    """Accept `message`. Its INPUT item is put if absent: a repeat brings its connection, perhaps a new one.

    Raises ProtocolError BUSY, RATE_LIMITED.
    """
    register = draft.register
    touch(draft, caller)
    if is_repeat(draft, message):
        return draft.finish()
    try:
        quotas.accept_message(draft, caller.plan)
    except ProtocolError:
        if draft.item(message.key()) is not None:
            return draft.finish()  # it was accepted when there was room
        raise
    message = replace(message, seq=register.last_seq)
    if register.phase is Phase.IDLE:
        draft.puts.append(message)
        lead(draft, caller)
        turn.begin(draft, message)
        return draft.finish()
    when_busy = register.settings.get("when_busy", "queue")
    is_full = len(register.inbox) >= limits.INBOX
    if (when_busy == "reject" or is_full) and draft.item(message.key()) is not None:
        return draft.finish()  # it was accepted when there was room: the turn that runs may be its own
    if when_busy == "reject":
        raise ProtocolError(ErrorCode.BUSY, "A turn is running; send the message again when it has ended")
    if is_full:
        raise ProtocolError(ErrorCode.BUSY, f"{limits.INBOX} messages are waiting already")
    draft.puts.append(message)
    place = 0 if when_busy == "interrupt" else len(register.inbox)
    register.inbox.insert(place, message.input_id)
    draft.emit(Queued(client_msg_id=message.input_id, position=place + 1))
    if when_busy == "interrupt":
        cancel.stop(draft)
    return draft.finish()


def is_repeat(draft: Draft, message: InputItem) -> bool:
    """Is it known that `message` was accepted before? It is found out by the attempt to put its item."""
    return draft.given.items.get(message.key()) is not None
