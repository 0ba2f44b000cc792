"""A user's message begins a turn, or is queued behind the running one."""

from collections.abc import Sequence
from dataclasses import replace

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import Attachment, UserMessage, WhenBusy
from codelab.protocol.outgoing import Queued
from codelab.sessions import keys
from codelab.sessions.items import InputItem
from codelab.sessions.register import Phase
from codelab.sessions.transition import Transition
from codelab.turns import attachments, cancel, inbox, quotas, turn
from codelab.turns.caller import Caller
from codelab.turns.connections import choose_executor, touch
from codelab.turns.decision import DecisionResult, decision
from codelab.turns.draft import Draft, Outcome
from codelab.turns.quotas import QuotaNeed


@decision(UserMessage, quota=QuotaNeed.TURN)
def user_message(draft: Draft, caller: Caller, frame: UserMessage) -> Transition:
    """Accept the message. Its INPUT item is only put if absent: a repeat only adds its connection.

    Raises ProtocolError BUSY, RATE_LIMITED, INVALID_ARGUMENTS for a text that is too long for the connection, or an
    image that the model does not take.
    """
    connection = draft.register.connections.get(caller.connection_id)
    max_chars = (
        limits.LONG_MESSAGE_CHARS if connection is not None and connection.extensions else limits.USER_MESSAGE_CHARS
    )
    if len(frame.content) > max_chars:
        raise ProtocolError(
            ErrorCode.INVALID_ARGUMENTS,
            f"Invalid content: String should have at most {max_chars} characters",
            details={"field": "content"},
        )
    return accept(
        draft,
        caller,
        frame.client_msg_id,
        frame.content,
        frame.role,
        frame.when_busy,
        new_attachments=frame.attachments,
        environment="" if frame.environment is None or caller.viewer else frame.environment.text,
    )


def accept(
    draft: Draft,
    caller: Caller,
    message_id: str | None,
    content: str,
    role: str = "user",
    when_busy: WhenBusy | None = None,
    *,
    new_attachments: Sequence[Attachment] = (),
    environment: str = "",
) -> Transition:
    """Accept a message from any frame. Without the client's `message_id`, a repeat is another message.

    `when_busy` overrides the session's setting. The model reads `environment` after the message.
    """
    register = draft.register
    if register.phase is Phase.DISPATCHED and (unposted_keys := draft.announced_keys):
        # They will be posted before `queued`. One round trip also tells whether this is a repeat.
        draft.need([keys.input_key(message_id or draft.inputs.event_id), *unposted_keys])
    is_known_repeat = is_repeat(draft, message_id)
    touch(draft, caller)
    message = InputItem(message_id or draft.inputs.event_id, content, role, draft.now, register.last_seq)
    message = replace(message, environment=environment) if environment else message
    if is_known_repeat:
        return _repeat(draft, message)
    if new_attachments:
        attachments.check(draft, new_attachments)
        message = replace(
            message, attachments=attachments.store(draft, [attachment.wire() for attachment in new_attachments])
        )
    try:
        quotas.accept_message(draft, caller.plan)
    except ProtocolError:
        if draft.item(message.key()) is not None:  # a repeat of an accepted message
            return _repeat(draft, message)
        raise
    if register.phase is Phase.IDLE:
        draft.puts.append(message)
        choose_executor(draft, caller)
        turn.begin(draft, message)
        draft.outcome = Outcome("started", register.turn_id, message.input_id)
        return draft.finish()
    when_busy = when_busy or register.settings.get("when_busy", "queue")
    is_full = len(register.inbox) >= limits.INBOX
    if (when_busy == "reject" or is_full) and draft.item(message.key()) is not None:
        return _repeat(draft, message)  # perhaps that of the running turn
    if when_busy == "reject":
        raise ProtocolError(ErrorCode.BUSY, "A turn is running; send the message again after it ends")
    if is_full:
        raise ProtocolError(ErrorCode.BUSY, f"{limits.INBOX} messages are already queued")
    draft.puts.append(message)
    steers = when_busy == "steer" and not register.cancelled_at
    places = (
        [register.inbox.index(queued_id) + 1 for queued_id in register.steering] if steers else [len(register.inbox)]
    )
    place = 0 if when_busy == "interrupt" else max(places, default=0)
    register.inbox.insert(place, message.input_id)
    if steers:
        register.steering.append(message.input_id)
    draft.emit(
        Queued(
            client_msg_id=message.input_id,
            position=place + 1,
            preview=inbox.preview(content),
            steer=steers or None,
        )
    )
    draft.outcome = Outcome("queued", client_msg_id=message.input_id)
    if when_busy == "interrupt":
        cancel.stop(draft)
    return draft.finish()


def _repeat(draft: Draft, message: InputItem) -> Transition:
    item = draft.item(message.key())
    is_withdrawn = item is not None and InputItem.of(item).withdrawn_until
    draft.outcome = Outcome("withdrawn" if is_withdrawn else "repeated", client_msg_id=message.input_id)
    return draft.finish()


def accepted_message(result: DecisionResult) -> InputItem | None:
    """The message that the decision accepted; None for a repeat."""
    items = () if result.transition is None else result.transition.puts
    return next((item for item in items if isinstance(item, InputItem)), None)


def is_repeat(draft: Draft, message_id: str | None) -> bool:
    """Is this message known to have been accepted before? Putting its item detects the other repeats."""
    return draft.inputs.items.get(keys.input_key(message_id or draft.inputs.event_id)) is not None
