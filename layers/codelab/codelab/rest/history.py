"""The messages of a session's history, as the API shows them."""

from typing import Any

from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from codelab.rest.bodies import timestamp
from codelab.sessions.items import MessageItem
from codelab.sessions.register import Register
from codelab.wiring import engine

#: Messages per read, and the bytes that fill a page: Lambda's answers have at most 6 MB.
_CHUNK = 25
_PAGE_BYTES = 2_000_000


def example(message_id: str, n: int, role: str, content: str, created_at: str) -> JsonDict:
    """An example of a `Message`."""
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


class MadeCall(BaseModel):
    """A call made by the model."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]


class Message(BaseModel):
    """A message of the history. `n` counts from 1; `id` is the `message_id` of its frames.

    An `assistant` message may have `calls`; a `tool` message is the result of the call `call_id`, as the model saw it.
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
    whole: int | None = Field(description="Characters of the whole content, if only its beginning and end are stored")


def page(register: Register, last_n: int, limit: int) -> tuple[list[Message], int]:
    """At most `limit` messages up to number `last_n`, oldest first, and the number before the first of them.

    A page ends early if its messages are large. Numbers count from 1; 0 means that no earlier messages exist.
    """
    items: list[MessageItem] = []
    room = _PAGE_BYTES
    while last_n and len(items) < limit and room > 0:
        first_n = max(1, last_n - min(_CHUNK, limit - len(items)) + 1)
        chunk = engine().store.history(register.pk, first_n, last_n)
        room -= sum(message.bytes for message in chunk)
        items[:0] = chunk
        last_n = first_n - 1
    return [_message_of(message) for message in items], last_n


def _message_of(message: MessageItem) -> Message:
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
