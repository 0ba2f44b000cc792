"""One conversation over one WebSocket: `async with connect(url, workspace) as session`."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
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

#: What is imported when it is first used, because it takes a while. `codelab acp` must answer before that.
_LATE = {"Session": "session", "Timing": "timing", "connect": "opening", "new_session_id": "opening"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
