"""A user's message begins a turn, or is queued behind the running one."""

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import UserMessage
from codelab.protocol.outgoing import Queued
from codelab.sessions import keys
from codelab.sessions.items import InputItem
from codelab.sessions.register import Phase
from codelab.sessions.transition import Transition
from codelab.turns import cancel, quotas, turn
from codelab.turns.caller import Caller
from codelab.turns.connections import choose_executor, touch
from codelab.turns.decision import Decided, decision
from codelab.turns.draft import Draft
from codelab.turns.quotas import Asks


@decision(UserMessage, quota=Asks.TURN)
def user_message(draft: Draft, caller: Caller, frame: UserMessage) -> Transition:
    """Accept the message. Its INPUT item is only put if absent: a repeat only adds its connection.

    Raises ProtocolError BUSY, RATE_LIMITED.
    """
    return accept(draft, caller, frame.client_msg_id, frame.content, frame.role)


def accept(draft: Draft, caller: Caller, message_id: str | None, content: str, role: str = "user") -> Transition:
    """Accept a message from any frame. Without the client's `message_id`, a repeat is another message."""
    register = draft.register
    if register.phase is Phase.DISPATCHED and (unposted := draft.announced_messages):
        # They will be posted before `queued`. One round trip also tells whether this is a repeat.
        draft.need([keys.input_key(message_id or draft.inputs.event_id), *unposted])
    repeats = is_repeat(draft, message_id)
    touch(draft, caller)
    if repeats:
        return draft.finish()
    message = InputItem(message_id or draft.inputs.event_id, content, role, draft.now, register.last_seq)
    try:
        quotas.accept_message(draft, caller.plan)
    except ProtocolError:
        if draft.item(message.key()) is not None:  # a repeat of an accepted message
            return draft.finish()
        raise
    if register.phase is Phase.IDLE:
        draft.puts.append(message)
        choose_executor(draft, caller)
        turn.begin(draft, message)
        return draft.finish()
    when_busy = register.settings.get("when_busy", "queue")
    is_full = len(register.inbox) >= limits.INBOX
    if (when_busy == "reject" or is_full) and draft.item(message.key()) is not None:
        return draft.finish()  # a repeat of an accepted message, perhaps that of the running turn
    if when_busy == "reject":
        raise ProtocolError(ErrorCode.BUSY, "A turn is running; send the message again after it ends")
    if is_full:
        raise ProtocolError(ErrorCode.BUSY, f"{limits.INBOX} messages are already queued")
    draft.puts.append(message)
    place = 0 if when_busy == "interrupt" else len(register.inbox)
    register.inbox.insert(place, message.input_id)
    draft.emit(Queued(client_msg_id=message.input_id, position=place + 1))
    if when_busy == "interrupt":
        cancel.stop(draft)
    return draft.finish()


def accepted(decided: Decided) -> InputItem | None:
    """The message that the decision accepted; None for a repeat."""
    puts = () if decided.transition is None else decided.transition.puts
    return next((put for put in puts if isinstance(put, InputItem)), None)


def is_repeat(draft: Draft, message_id: str | None) -> bool:
    """Is this message known to have been accepted before? Putting its item detects the other repeats."""
    return draft.inputs.items.get(keys.input_key(message_id or draft.inputs.event_id)) is not None
