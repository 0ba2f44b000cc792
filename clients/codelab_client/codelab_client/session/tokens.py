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
        value = token()
        token = await value if inspect.isawaitable(value) else value
    return (token or "").strip()


def refresh_at(token: str) -> float | None:
    """When (seconds since the epoch) to ask for a newer token; None if this one does not say when it expires."""
    token_claims = claims(token)
    expires, issued_at = token_claims.get("exp"), token_claims.get("iat")
    if not isinstance(expires, int | float):
        return None
    issued_at = issued_at if isinstance(issued_at, int | float) else time.time()
    return max(expires - _AHEAD_S, issued_at + (expires - issued_at) * 0.9)


def expires_at(token: str) -> float | None:
    """When (seconds since the epoch) a token expires, if it says so."""
    expires = claims(token).get("exp")
    return float(expires) if isinstance(expires, int | float) else None


def claims(token: str) -> dict[str, object]:
    """The claims of a JWT, which only the server can verify; empty if the token is not a JWT."""
    try:
        part = token.split(".")[1]
        content = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def subject(token: str) -> str:
    """The user of a token; empty if it does not say."""
    return str(claims(token).get("sub") or "")
