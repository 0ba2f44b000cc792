"""Who sent an event."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The user and the connection, as the authorizer said; a request over HTTP has an empty `connection_id`.

    `issued` and `expires` are the token's, in seconds, 0 without tokens. `plan` names the row of limits.
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
