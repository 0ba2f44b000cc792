"""Revocation's shell: no token of a user from before is good any more, and their connections end.

The item comes first: from then on nobody connects, asks over HTTP or is heard with such a token. Then the user's
sessions are found by their index and the connections in them closed. A connection that was let in just before, and
joins just after its session was looked at, is found by the sweep, which does the same once more.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from codelab.engine.engine import Engine
from codelab.observability import logger
from codelab.turns import connections
from codelab.turns.decision import BeingDeleted

#: Time that is left for the sessions that are being looked at.
_MARGIN_MS = 5_000
#: Sessions of one page, and how many are looked at beside each other.
_PAGE, _AT_ONCE = 100, 8


@dataclass(slots=True)
class Ended:
    """How many sessions were looked at, and how many connections closed. `complete`: there are no more, else the next
    page begins at `position`."""

    sessions: int = 0
    connections: int = 0
    complete: bool = False
    position: tuple[int, str] | None = None


class Revoker:
    """One for a process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def revoke(self, user: str, remaining_ms: Callable[[], int]) -> tuple[int, Ended]:
        """Revoke the user's tokens, and end their connections. Returns the second until which, and what was done."""
        revoked_at = self._engine.store.revocations.revoke(user, self._engine.clock())
        logger().warning("tokens revoked", extra={"user": user, "revoked_at": revoked_at})
        return revoked_at, self._end(user, revoked_at, remaining_ms)

    def close_remaining(self, user: str, remaining_ms: Callable[[], int]) -> None:
        """End what the revocation itself has missed, or not come to; go on where the last look had to stop."""
        revoked_at, position = self._engine.store.revocations.pending(user)
        ended = self._end(user, revoked_at, remaining_ms, position)
        self._engine.store.revocations.save_progress(user, revoked_at, ended.position)

    def _end(
        self, user: str, revoked_at: int, remaining_ms: Callable[[], int], position: tuple[int, str] | None = None
    ) -> Ended:
        ended = Ended(position=position)
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="revoke") as pool:
            while remaining_ms() > _MARGIN_MS:
                page, ended.position = self._engine.store.listed(user, _PAGE, ended.position)
                closed = pool.map(
                    lambda session_id: self._close(user, session_id, revoked_at), [it.session_id for it in page]
                )
                ended.connections += sum(closed)
                ended.sessions += len(page)
                if ended.position is None:
                    ended.complete = True
                    break
        return ended

    def _close(self, user: str, session_id: str, revoked_at: int) -> int:
        try:
            done = self._engine.apply(
                user, session_id, lambda draft: connections.revoke(draft, revoked_at), patience_s=0
            )
        except BeingDeleted:  # its connections were closed when that began
            return 0
        return len(done.cut) if done is not None else 0
