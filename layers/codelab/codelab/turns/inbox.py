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
from codelab.turns.quotas import QuotaNeed

#: Characters of a queued message's preview.
_PREVIEW_CHARS = 200


@decision(Withdraw, reads=lambda frame: [keys.input_key(frame.client_msg_id)], quota=QuotaNeed.COUNTERS)
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
        withdrawn_until = draft.now // 1000 + draft.settings.event_retention_s
        draft.puts.append(
            InputItem(message_id, "", "user", draft.now, register.last_seq, withdrawn_until=withdrawn_until)
        )
    touch(draft, caller)
    remove(draft, [message_id])
    draft.outcome = Outcome("withdrawn", client_msg_id=message_id)
    return True


def remove(draft: Draft, message_ids: Sequence[str]) -> None:
    """Remove those of the messages that are queued, and notify all connections."""
    register = draft.register
    removed_ids = [message_id for message_id in register.inbox if message_id in message_ids]
    register.inbox = [message_id for message_id in register.inbox if message_id not in removed_ids]
    register.steering = [message_id for message_id in register.steering if message_id not in removed_ids]
    if removed_ids:
        draft.emit(Withdrawn(client_msg_ids=removed_ids))


def preview(content: str) -> str:
    """The beginning of a message."""
    return content if len(content) <= _PREVIEW_CHARS else content[: _PREVIEW_CHARS - 1] + "…"


def item_keys(draft: Draft) -> list[str]:
    """The sort keys of the items that `queued_messages` needs."""
    return [keys.input_key(message_id) for message_id in draft.register.inbox]


def queued_messages(draft: Draft) -> list[QueuedMessage]:
    """The messages that wait, in their order."""
    queue = []
    for message_id in draft.register.inbox:
        item = draft.item(keys.input_key(message_id))
        if item is not None:
            message, steer = InputItem.of(item), True if message_id in draft.register.steering else None
            queue.append(
                QueuedMessage(client_msg_id=message_id, preview=preview(message.content), at=message.at, steer=steer)
            )
    return queue
