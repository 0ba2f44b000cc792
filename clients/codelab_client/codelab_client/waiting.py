"""What people read while a session waits before it tries again."""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from codelab_client.safe_text import safe_line
from codelab_client.session import events as on


@dataclass(frozen=True)
class Waiting:
    """A session that waits. until: the end of the pause (monotonic)."""

    reason: str
    until: float

    def __str__(self) -> str:
        """The reason and the time that is left, for a status line."""
        remaining = math.ceil(self.until - time.monotonic())
        return f"{self.reason}, trying again in {remaining} s" if remaining > 0 else f"{self.reason}, trying again"


def waiting(event: on.Event) -> Waiting | None:
    """How long the session waits now; None if the event begins no pause."""
    match event:
        case on.Busy(why=reason, retry_in=seconds):
            return Waiting(f"the server is busy ({safe_line(reason)})", time.monotonic() + seconds)
        case on.Disconnected(why=reason, retry_in=seconds):
            return Waiting(f"connection lost: {safe_line(reason)}", time.monotonic() + seconds)
    return None


def notice(event: on.Event) -> str:
    """The sentence for people; empty if the event begins no pause."""
    pause = waiting(event)
    text = str(pause) if pause is not None else ""
    return text[:1].upper() + text[1:]


def tell_until_open() -> Callable[[on.Event], None]:
    """What writes to stderr until the session is open: then a window shows its events."""
    is_open = False

    def take(event: on.Event) -> None:
        nonlocal is_open
        is_open = is_open or isinstance(event, on.Connected)
        if not is_open:
            tell(event)

    return take


def tell(event: on.Event) -> None:
    """Write the sentence to stderr, where there is nothing else that shows events."""
    if text := notice(event):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
