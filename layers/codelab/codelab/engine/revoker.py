"""Revokes a user's tokens: earlier tokens become invalid, and the connections opened with them are closed.

The item is written first: from then on a revoked token opens no connection, and its requests and frames are refused.
Then the connections in all of the user's sessions are closed. A connection that was authorized just before the
revocation and joined after its session was processed is closed by the sweep, which repeats the second part.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from codelab.engine.engine import Engine
from codelab.observability import logger
from codelab.turns import connections
from codelab.turns.decision import BeingDeleted

#: Time (ms) reserved for the page of sessions in progress.
_MARGIN_MS = 5_000
#: Sessions per page, and how many are processed in parallel.
_PAGE, _AT_ONCE = 100, 8


@dataclass(slots=True)
class RevocationProgress:
    """The number of sessions processed and of connections closed.

    `complete`: no sessions remain; otherwise the next page begins at `position` (last activity in ms, session id).
    """

    sessions: int = 0
    connections: int = 0
    complete: bool = False
    position: tuple[int, str] | None = None


class Revoker:
    """One per process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def revoke(self, user: str, remaining_ms: Callable[[], int]) -> tuple[int, RevocationProgress]:
        """Revoke the user's tokens and close their connections. Returns the time (seconds) and what was closed."""
        revoked_at = self._engine.store.revocations.revoke(user, self._engine.clock())
        logger().warning("tokens revoked", extra={"user": user, "revoked_at": revoked_at})
        return revoked_at, self._end(user, revoked_at, remaining_ms)

    def close_remaining(self, user: str, remaining_ms: Callable[[], int]) -> None:
        """Close the connections that the revocation missed or had no time for, from where the last run stopped."""
        revoked_at, position = self._engine.store.revocations.pending(user)
        progress = self._end(user, revoked_at, remaining_ms, position)
        self._engine.store.revocations.save_progress(user, revoked_at, progress.position)

    def _end(
        self, user: str, revoked_at: int, remaining_ms: Callable[[], int], position: tuple[int, str] | None = None
    ) -> RevocationProgress:
        progress = RevocationProgress(position=position)
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="revoke") as pool:
            while remaining_ms() > _MARGIN_MS:
                page, progress.position = self._engine.store.listed(user, _PAGE, progress.position)
                closed_counts = pool.map(
                    lambda session_id: self._close(user, session_id, revoked_at),
                    [session.session_id for session in page],
                )
                progress.connections += sum(closed_counts)
                progress.sessions += len(page)
                if progress.position is None:
                    progress.complete = True
                    break
        return progress

    def _close(self, user: str, session_id: str, revoked_at: int) -> int:
        try:
            transition = self._engine.apply(
                user, session_id, lambda draft: connections.revoke(draft, revoked_at), patience_s=0
            )
        except BeingDeleted:  # the deletion has closed its connections
            return 0
        return len(transition.cut_connections) if transition is not None else 0
