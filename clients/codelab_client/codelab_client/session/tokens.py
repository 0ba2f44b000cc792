"""Tokens: where they come from, and when they expire."""

import base64
import inspect
import json
import time
from collections.abc import Awaitable, Callable

#: A token, or what gives the newest one: a function, also an asynchronous one.
Token = str | Callable[[], str | Awaitable[str]] | None

#: A token is refreshed so many seconds before it expires, or after nine tenths of its life if that is later.
_AHEAD_S = 60.0


async def current(token: Token) -> str:
    """The newest token; empty if there is none."""
    if callable(token):
        found = token()
        token = await found if inspect.isawaitable(found) else found
    return (token or "").strip()


def refresh_at(token: str) -> float | None:
    """When (seconds since the epoch) to ask for a newer token; None if this one does not say when it expires."""
    said = claims(token)
    expires, issued = said.get("exp"), said.get("iat")
    if not isinstance(expires, int | float):
        return None
    issued = issued if isinstance(issued, int | float) else time.time()
    return max(expires - _AHEAD_S, issued + (expires - issued) * 0.9)


def expires_at(token: str) -> float | None:
    """When (seconds since the epoch) a token expires, if it says so."""
    expires = claims(token).get("exp")
    return float(expires) if isinstance(expires, int | float) else None


def claims(token: str) -> dict[str, object]:
    """The claims of a JWT, which only the server can verify; none if it is no JWT."""
    try:
        part = token.split(".")[1]
        said = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def subject(token: str) -> str:
    """The user of a token; empty if it does not say."""
    return str(claims(token).get("sub") or "")
