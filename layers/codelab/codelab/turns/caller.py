"""The sender of an event."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The user and the connection as authorized; `connection_id` is empty for a request over HTTP.

    `issued` and `expires` are the token's times in seconds, 0 without tokens. `plan` is the user's plan.
    """

    user: str
    session_id: str
    connection_id: str
    extensions: bool = False
    viewer: bool = False
    args_profile: bool = False
    expires: int = 0
    plan: str = ""
    issued: int = 0
