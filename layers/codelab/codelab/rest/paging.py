"""Cursors: where the next page of a list begins. Clients send them back unchanged."""

import base64
import json
from typing import Annotated

from fastapi import Query

from codelab.gateway.identity import SESSION_ID
from codelab.protocol.errors import ErrorCode, ProtocolError

Cursor = Annotated[
    str | None,
    Query(min_length=1, max_length=512, description="`next_cursor` of the previous page; absent for the first"),
]


def cursor(position: tuple[int, str] | None) -> str | None:
    """The cursor of a position: a number and an id, by which the list is sorted."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def position(cursor: str | None) -> tuple[int, str] | None:
    """The position of a cursor. Raises ProtocolError INVALID_ARGUMENTS for an invalid one."""
    if cursor is None:
        return None
    try:
        number, name = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if type(number) is int and 0 <= number < 2**53 and SESSION_ID.fullmatch(name):
            return number, name
    except (ValueError, TypeError):
        pass
    raise ProtocolError(ErrorCode.INVALID_ARGUMENTS, "Invalid cursor", details={"field": "cursor"})
