"""Finds the sessions that nobody has used for `session_retention_days`; the sweep hides and deletes them.

A plain turn writes nothing for this. The index by last activity is read instead, a part of it each minute, so that a
day reads all of it. No position is stored: what a sweep misses because it crashes or has no time is found a day later.
"""

from collections.abc import Callable, Iterator

from codelab.engine.engine import Engine
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.sessions import keys
from codelab.turns import lifecycle

_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
#: The parts of the index, one for each minute of a day.
_SEGMENTS = _DAY_MS // _MINUTE_MS


class Retention:
    """One per process. Finds nothing if sessions are kept for ever."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def unused(self, now: int, has_time: Callable[[], bool]) -> Iterator[str]:
        """Partition keys of unused sessions in the part of the index for the minute of `now`, as long as there is time.

        now: when (ms) the sweep began. What it does takes minutes, and each page has to be of the same part.
        """
        position, limit, segment = None, self._limit(now), self._segment(now)
        while self._engine.settings.session_retention_days and has_time():
            pks, position = self._engine.store.unused(limit, segment, position)
            yield from pks
            if position is None:
                return

    def hide(self, pk: str) -> bool:
        """Hide the session, unless its register says that it is in use: it is newer than the index. Returns whether."""
        user, session_id = keys.owner_and_session(pk)
        limit = self._limit(self._engine.clock())
        try:
            hidden = self._engine.decide(
                user, session_id, lambda draft: lifecycle.hide_unused(draft, limit), include_hidden=True
            )
        except ProtocolError as error:
            if error.code is ErrorCode.SESSION_NOT_FOUND:  # it was deleted, and the index does not know yet
                return False
            raise
        return hidden is not None

    def _limit(self, now: int) -> int:
        """The time (ms) of the last activity before which a session is unused."""
        return now - self._engine.settings.session_retention_days * _DAY_MS

    def _segment(self, now: int) -> tuple[int, int]:
        """The part for the minute of `now`. One's own machine is not on all day, so there it is the whole."""
        if self._engine.settings.codelab_local:
            return 0, 1
        return now // _MINUTE_MS % _SEGMENTS, _SEGMENTS
