"""One conversation over one WebSocket: `async with connect(url, workspace) as session`."""

from codelab_client.session.address import DEFAULT_URL, Address
from codelab_client.session.errors import (
    InsecureAddress,
    InvalidAddress,
    JournalError,
    Refused,
    SessionClosed,
    SessionError,
    Unauthorized,
    Unreachable,
)
from codelab_client.session.opening import connect, new_session_id
from codelab_client.session.session import Session
from codelab_client.session.timing import Timing

__all__ = [
    "DEFAULT_URL",
    "Address",
    "InsecureAddress",
    "InvalidAddress",
    "JournalError",
    "Refused",
    "Session",
    "SessionClosed",
    "SessionError",
    "Timing",
    "Unauthorized",
    "Unreachable",
    "connect",
    "new_session_id",
]
