"""The messages that wait for the running turn to end, or for its next step."""

from collections.abc import Sequence

from codelab.protocol.incoming import Withdraw
from codelab.protocol.outgoing import QueuedMessage, Withdrawn
from codelab.sessions import keys
from codelab.sessions.items import InputItem
from codelab.sessions.spending import Spending
from codelab.sessions.transition import Transition
from codelab.turns import quotas
from codelab.turns.caller import Caller
from codelab.turns.connections import touch
from codelab.turns.decision import decision
from codelab.turns.draft import Draft, Outcome
from codelab.turns.quotas import Asks

#: Characters of a waiting message that everybody is shown.
_PREVIEW_CHARS = 200


@decision(Withdraw, reads=lambda frame: [keys.input_key(frame.client_msg_id)], quota=Asks.SPENDS)
def withdraw(draft: Draft, caller: Caller, frame: Withdraw) -> Transition | None:
    """Take back a message that waits or has not arrived yet. None: it is being answered, or was."""
    if not take_back(draft, caller, frame.client_msg_id):
        draft.outcome = Outcome("nothing_to_withdraw", client_msg_id=frame.client_msg_id)
        return None
    return draft.finish()


def take_back(draft: Draft, caller: Caller, message_id: str) -> bool:
    """Withdraw the message if it waits; if it has not arrived yet, keep it from being accepted.

    API Gateway may deliver this frame before the message, although the client sent it later. The user's quota counts a
    message that has not arrived now, because something is stored for it. Raises ProtocolError RATE_LIMITED.
    """
    register = draft.register
    if message_id not in register.inbox:
        if draft.item(keys.input_key(message_id)) is not None:
            return False
        quotas.spend(draft, caller.plan, Spending(messages=1))
        until = draft.now // 1000 + draft.settings.event_retention_s
        draft.puts.append(InputItem(message_id, "", "user", draft.now, register.last_seq, withdrawn_until=until))
    touch(draft, caller)
    remove(draft, [message_id])
    draft.outcome = Outcome("withdrawn", client_msg_id=message_id)
    return True


def remove(draft: Draft, message_ids: Sequence[str]) -> None:
    """Remove those of the messages that wait, and tell everybody."""
    register = draft.register
    gone = [waiting for waiting in register.inbox if waiting in message_ids]
    register.inbox = [waiting for waiting in register.inbox if waiting not in gone]
    register.steering = [waiting for waiting in register.steering if waiting not in gone]
    if gone:
        draft.emit(Withdrawn(client_msg_ids=gone))


def preview(content: str) -> str:
    """The beginning of a message."""
    return content if len(content) <= _PREVIEW_CHARS else content[: _PREVIEW_CHARS - 1] + "…"


def wanted(draft: Draft) -> list[str]:
    """The sort keys of the items that `shown` needs."""
    return [keys.input_key(waiting) for waiting in draft.register.inbox]


def shown(draft: Draft) -> list[QueuedMessage]:
    """The messages that wait, in their order."""
    found = []
    for waiting in draft.register.inbox:
        item = draft.item(keys.input_key(waiting))
        if item is not None:
            message, steer = InputItem.of(item), True if waiting in draft.register.steering else None
            found.append(
                QueuedMessage(client_msg_id=waiting, preview=preview(message.content), at=message.at, steer=steer)
            )
    return found
