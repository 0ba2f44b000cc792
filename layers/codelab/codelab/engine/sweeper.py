"""Runs the sweep: finds what is due and has the engine repair it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from codelab.engine.deleter import Deleter
from codelab.engine.engine import Engine
from codelab.engine.retention import Retention
from codelab.engine.revoker import Revoker
from codelab.observability import bound, logger
from codelab.sessions import keys
from codelab.turns import sweep
from codelab.turns.decision import BeingDeleted

#: Time (ms) reserved for the page of sessions in progress. Sessions are hidden until half of it is left.
_MARGIN_MS = 10_000
#: Sessions that are repaired in parallel.
_AT_ONCE = 8
#: The most unused sessions that one sweep hides, less those that it could not delete: so the due index has no more of
#: them, even if deletions fail.
_MOST_HIDDEN = 500


@dataclass(frozen=True, slots=True)
class SweepReport:
    """How many sessions and users were due, for how long (ms) the oldest was, and how many sessions were unused."""

    due_count: int
    oldest_ms: int
    unused_count: int


class Sweeper:
    """One per process. What a sweep has no time for stays due for the next one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._deleter = Deleter(engine)
        self._revoker = Revoker(engine)
        self._retention = Retention(engine)
        #: Sessions to delete after all repairs, because a large one may take all the time that is left.
        self._to_delete: list[tuple[str, str]] = []
        #: Users whose revocation is continued after that, because their sessions may take all the time that is left.
        self._revoked_users: list[str] = []
        self._pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="sweep")

    def sweep(self, remaining_ms: Callable[[], int]) -> SweepReport:
        """Repair every session that is due, and hide those that nobody has used for too long: then they are due."""
        visited: set[str] = set()
        oldest_ms, began_at = 0, self._engine.clock()
        self._to_delete.clear()
        self._revoked_users.clear()
        for shard in keys.DUE_SHARDS:
            position, has_more = None, True
            # By its position, because what is only visited now and deleted later stays in the index.
            while has_more and remaining_ms() > _MARGIN_MS:
                now = self._engine.clock()
                page, position = self._engine.store.due(shard, now, position)
                has_more = position is not None
                # A repaired session may come again: it is due at a later time, or the index does not know yet.
                due_at = {pk: at for pk, at in page if pk not in visited}
                oldest_ms = max([oldest_ms, *(now - at for at in due_at.values())])
                visited.update(due_at)
                list(self._pool.map(self._visit, due_at))
        deleted = self._pool.map(lambda session: self._delete(session[0], session[1], remaining_ms), self._to_delete)
        most_hidden = max(0, _MOST_HIDDEN - sum(not done for done in deleted))
        for user in self._revoked_users:
            with _failures_logged(keys.of_user(user)):
                self._revoker.close_remaining(user, remaining_ms)
        return SweepReport(len(visited), oldest_ms, self._hide_unused(began_at, most_hidden, remaining_ms))

    def recover(self, user: str, session_id: str, dead: str) -> None:
        """Give the step of the failed invocation `dead` to another attempt now, before its lease ends."""
        with _failures_logged(keys.partition(user, session_id)), suppress(BeingDeleted):
            self._engine.apply(user, session_id, lambda draft: sweep.tick(draft, dead))

    def _visit(self, pk: str) -> None:
        user = keys.user_of(pk)
        if user is None:
            self._repair(*keys.owner_and_session(pk))
        else:
            self._revoked_users.append(user)

    def _repair(self, user: str, session_id: str) -> None:
        with _failures_logged(keys.partition(user, session_id)):
            try:
                # The sweep is itself the retry of a refused post, and has many sessions to repair.
                self._engine.apply(user, session_id, sweep.tick, patience_s=0)
            except BeingDeleted:
                self._to_delete.append((user, session_id))

    def _hide_unused(self, began_at: int, most: int, remaining_ms: Callable[[], int]) -> int:
        unused = self._retention.unused(began_at, lambda: remaining_ms() > _MARGIN_MS)
        with _failures_logged("unused"):  # of the index; a day later, this part of it is read again
            return sum(self._pool.map(lambda pk: self._hide(pk, remaining_ms), islice(unused, most)))
        return 0

    def _hide(self, pk: str, remaining_ms: Callable[[], int]) -> bool:
        if remaining_ms() > _MARGIN_MS // 2:
            with _failures_logged(pk):
                return self._retention.hide(pk)
        return False

    def _delete(self, user: str, session_id: str, remaining_ms: Callable[[], int]) -> bool:
        """Returns False if it failed, or there is no time: then the session is still due."""
        if remaining_ms() > _MARGIN_MS:
            with _failures_logged(keys.partition(user, session_id)):
                self._deleter.delete(user, session_id, remaining_ms)
                return True
        return False


@contextmanager
def _failures_logged(pk: str) -> Iterator[None]:
    """Log a failure, so that one session's failure does not stop the repair of the others."""
    with bound(session=pk):
        try:
            yield
        except Exception:
            logger().exception("session repair failed")
