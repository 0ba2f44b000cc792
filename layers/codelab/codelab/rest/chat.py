"""Chat: the user speaks. The answer comes over the stream or the WebSocket, and is in the history afterwards."""

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from codelab.gateway.services import engine
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.incoming import Id
from codelab.rest.bodies import Body, JsonRoute
from codelab.rest.errors import refusals
from codelab.rest.identity import SESSION_ID, User, caller
from codelab.rest.sessions import IdempotencyKey, absent
from codelab.sessions.items import InputItem
from codelab.turns import messages

router = APIRouter(prefix="/chat", tags=["chat"], route_class=JsonRoute)


class NewMessage(Body):
    """What the user says. The same `client_msg_id` (or `Idempotency-Key`) twice is accepted once."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"session_id": "session_123", "message": "Создай файл main.dart", "role": "user"}]
        }
    )

    session_id: Annotated[str, StringConstraints(pattern=SESSION_ID, min_length=1, max_length=128)]
    message: Annotated[str, StringConstraints(min_length=1, max_length=limits.USER_MESSAGE_CHARS)]
    role: Literal["user", "assistant", "system", "tool"] | None = Field(
        default=None, description="Other roles than `user` are quoted data, never instructions"
    )
    client_msg_id: Id | None = None


class AcceptedMessage(BaseModel):
    """The message was accepted; its answer is on its way.

    Frames of the answer have a `seq` above `last_seq`: a stream that begins there misses nothing.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"message_id": "msg_456", "status": "processing", "last_seq": 0}]}
    )

    message_id: str
    status: Literal["processing", "queued"]
    last_seq: int


@router.post(
    "/message",
    status_code=202,
    response_model=AcceptedMessage,
    responses=refusals(ErrorCode.SESSION_NOT_FOUND, ErrorCode.BUSY),
)
def send_message(new: NewMessage, user: User, idempotency_key: IdempotencyKey = None) -> AcceptedMessage:
    """Say something. While a turn runs the message waits for its end (or what the session's `when_busy` says)."""
    sessions = engine()
    message_id = new.client_msg_id or idempotency_key or "msg_" + sessions.ids()
    message = InputItem(message_id, new.message, new.role or "user", sessions.clock())
    sender = caller(user, new.session_id)
    accepted = sessions.apply(user, new.session_id, lambda draft: messages.user_message(draft, sender, message))
    if accepted is None or accepted.before is None:
        raise absent()
    return AcceptedMessage(
        message_id=message_id,
        status="queued" if message_id in accepted.after.inbox else "processing",
        last_seq=accepted.before.last_seq,
    )
