"""Messages and their history. The answer to a message arrives over the stream or the WebSocket."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, StringConstraints

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.incoming import Id, UserMessage, WhenBusy
from codelab.rest import paging
from codelab.rest.bodies import Body, JsonRoute, with_example
from codelab.rest.error_responses import refusals
from codelab.rest.history import Message, example, page
from codelab.rest.identity import Sender, SessionId, SessionName, User
from codelab.rest.sessions import IdempotencyKey, existing
from codelab.sessions import keys
from codelab.turns import messages
from codelab.wiring import engine

router = APIRouter(prefix="/chat", tags=["chat"], route_class=JsonRoute)


class NewMessage(Body):
    """A message of the user. The server accepts each `client_msg_id` (or `Idempotency-Key`) only once."""

    model_config = with_example(session_id="session_123", message="Создай файл main.dart", role="user")

    session_id: SessionName
    message: Annotated[str, StringConstraints(min_length=1, max_length=limits.USER_MESSAGE_CHARS)]
    role: Literal["user", "assistant", "system", "tool"] | None = Field(
        default=None, description="The model sees other roles than `user` as quoted text, never as instructions"
    )
    client_msg_id: Id | None = None
    when_busy: WhenBusy | None = Field(
        default=None, description="What to do if a turn is running, instead of the session's `when_busy`"
    )


class AcceptedMessage(BaseModel):
    """The message was accepted.

    The answer's frames have a `seq` above `last_seq`: a stream from there misses nothing.
    """

    model_config = with_example(message_id="msg_456", status="processing", last_seq=0)

    message_id: str
    status: Literal["processing", "queued"]
    last_seq: int


class History(BaseModel):
    """A page of the history. To continue live, resume from `last_seq`."""

    model_config = with_example(
        messages=[
            example("msg_1", 1, "user", "Привет", "2024-01-09T10:00:00.000Z"),
            example("msg_2", 2, "assistant", "Здравствуйте!", "2024-01-09T10:00:01.000Z"),
        ],
        total=2,
        last_seq=5,
        next_cursor=None,
    )

    messages: list[Message]
    total: int
    last_seq: int
    next_cursor: str | None = Field(description="The `cursor` for earlier messages; null on the last page")


@router.post(
    "/message", status_code=202, responses=refusals(ErrorCode.SESSION_NOT_FOUND, ErrorCode.BUSY, ErrorCode.RATE_LIMITED)
)
def send_message(new_message: NewMessage, sender: Sender, idempotency_key: IdempotencyKey = None) -> AcceptedMessage:
    """Send a message. During a turn, `when_busy` decides, else the session's; by default the message waits."""
    sessions = engine()
    message_id = new_message.client_msg_id or idempotency_key or "msg_" + sessions.ids()
    frame = UserMessage.model_construct(
        type="user_message",
        content=new_message.message,
        role=new_message.role or "user",
        client_msg_id=message_id,
        when_busy=new_message.when_busy,
    )
    result = sessions.handle(messages.user_message, frame, sender(new_message.session_id))
    register, message = result.register, messages.accepted_message(result)
    if message is None:  # accepted before: give the same answer
        message = sessions.store.message(register.pk, message_id)
    return AcceptedMessage(
        message_id=message_id,
        status="queued" if message_id in register.inbox else "processing",
        last_seq=register.last_seq if message is None else message.seq,
    )


@router.get("/history/{session_id}", responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def get_history(
    session_id: SessionId,
    user: User,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    cursor: paging.Cursor = None,
) -> History:
    """The newest messages, oldest first. `next_cursor` leads to earlier ones.

    A page may have fewer than `limit` messages if they are large.
    """
    position = paging.position(cursor)
    register = existing(engine().store.read(keys.partition(user, session_id)))
    last_n = min(register.history_n, register.history_n if position is None else position[0] - 1)
    messages, earlier_n = page(register, last_n, limit)
    return History(
        messages=messages,
        total=register.history_n,
        last_seq=register.last_seq,
        next_cursor=paging.cursor((earlier_n + 1, session_id) if earlier_n else None),
    )
