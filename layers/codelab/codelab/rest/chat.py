"""Chat: the user speaks, and what was said. The answer itself comes over the stream or the WebSocket."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from codelab.gateway.services import engine
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.incoming import Id
from codelab.rest import paging
from codelab.rest.bodies import Body, JsonRoute, timestamp
from codelab.rest.errors import refusals
from codelab.rest.identity import SESSION_ID, SessionId, User, caller
from codelab.rest.sessions import IdempotencyKey, existing
from codelab.sessions import keys
from codelab.sessions.items import InputItem, MessageItem
from codelab.turns import messages

router = APIRouter(prefix="/chat", tags=["chat"], route_class=JsonRoute)


#: Messages that are read at once, and bytes after which a page is full: an answer of Lambda has 6 MB at most.
_CHUNK = 25
_PAGE_BYTES = 2_000_000


def _example(message_id: str, n: int, role: str, content: str, created_at: str) -> JsonDict:
    return {
        "id": message_id,
        "n": n,
        "role": role,
        "content": content,
        "created_at": created_at,
        "message_id": message_id,
        "turn_id": "8c2f0e7c1a5b4d3e9f6a7b8c",
        "calls": [],
        "call_id": None,
        "whole": None,
    }


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


class MadeCall(BaseModel):
    """A call as the model made it."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]


class Message(BaseModel):
    """A message of the history. `n` counts from 1; `id` is the `message_id` of its frames.

    Role `assistant` may have made `calls`; role `tool` is the result of the one with `call_id`, as the model saw it.
    """

    id: str
    n: int
    role: str
    content: str
    created_at: str
    message_id: str
    turn_id: str
    calls: list[MadeCall]
    call_id: str | None
    whole: int | None = Field(
        description="Characters of the whole content, where it is long and only its beginning and end are kept"
    )


class History(BaseModel):
    """A page of the history. Frames behind `last_seq` tell of nothing that is in it: resume from there."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "messages": [
                        _example("msg_1", 1, "user", "Привет", "2024-01-09T10:00:00.000Z"),
                        _example("msg_2", 2, "assistant", "Здравствуйте!", "2024-01-09T10:00:01.000Z"),
                    ],
                    "total": 2,
                    "last_seq": 5,
                    "next_cursor": None,
                }
            ]
        }
    )

    messages: list[Message]
    total: int
    last_seq: int
    next_cursor: str | None = Field(description="Give it as `cursor` for the messages before; null on the last page")


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
    assert accepted is not None  # a message is accepted or refused, never ignored
    assert accepted.before is not None
    return AcceptedMessage(
        message_id=message_id,
        status="queued" if message_id in accepted.after.inbox else "processing",
        last_seq=accepted.before.last_seq,
    )


@router.get("/history/{session_id}", response_model=History, responses=refusals(ErrorCode.SESSION_NOT_FOUND))
def get_history(
    session_id: SessionId,
    user: User,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    cursor: paging.Cursor = None,
) -> History:
    """The newest messages, the oldest of them first. `next_cursor` gives those before them.

    A page may hold fewer than `limit` where messages are large.
    """
    before = paging.position(cursor)
    store = engine().store
    register = existing(store.read(keys.partition(user, session_id)))
    last = min(register.history_n, register.history_n if before is None else before[0] - 1)
    found: list[MessageItem] = []
    room = _PAGE_BYTES
    while last and len(found) < limit and room > 0:
        first = max(1, last - min(_CHUNK, limit - len(found)) + 1)
        chunk, _ = store.history(register.pk, first, last)
        room -= sum(message.bytes for message in chunk)
        found[:0] = chunk
        last = first - 1
    return History(
        messages=[_shown(message) for message in found],
        total=register.history_n,
        last_seq=register.last_seq,
        next_cursor=paging.cursor((last + 1, session_id) if last else None),
    )


def _shown(message: MessageItem) -> Message:
    message_id = message.message_id or f"msg_{message.n}"
    return Message(
        id=message_id,
        n=message.n,
        role=message.role,
        content=message.content,
        created_at=timestamp(message.at),
        message_id=message_id,
        turn_id=message.turn_id,
        calls=[MadeCall(call_id=call.call_id, tool_name=call.tool, arguments=call.arguments) for call in message.calls],
        call_id=message.call_id or None,
        whole=message.whole or None,
    )
