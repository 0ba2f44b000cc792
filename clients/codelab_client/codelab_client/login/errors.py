"""Why nobody could be signed in."""

from codelab_client.session.errors import SessionError


class LoginError(SessionError):
    """The user could not be signed in. The text says why, and what to do."""


class NoProvider(LoginError):
    """The server names no provider: its operator hands out tokens."""
