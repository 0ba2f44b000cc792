"""What ends a session, or refuses one of its frames."""

from collections.abc import Mapping
from typing import Any


class SessionError(Exception):
    """Base of the errors that a session raises. The text is for a human."""


class InvalidAddress(SessionError):
    """The address is not one of a CodeLab server."""


class InsecureAddress(InvalidAddress):
    """A token would be sent where others can read it."""


class Unreachable(SessionError):
    """Nothing answers at the address, or what answers is not a CodeLab server."""


class Unauthorized(SessionError):
    """The server refused the token (HTTP 401 or 403), or the token expired and there is no newer one."""


class SessionClosed(SessionError):
    """The server closed the session for good.

    It was deleted, the user's tokens were revoked, or newer connections replaced this one.
    """


class Refused(SessionError):
    """The server refused a frame with an `error` frame, which changed nothing.

    code: one of docs/errors.md. retry_after: seconds, or None. details: of the `error` frame.
    """

    def __init__(
        self, code: str, message: str, retry_after: int | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.details = dict(details or {})


class JournalError(SessionError):
    """The journal of executed calls cannot be read or written."""
