"""Deletes a session: all its items and objects in bounded batches, the register last.

The request that asks for the deletion runs it. The sweep continues if the request died, ran out of time, or had to wait
for the owner of a step that might still write. Only one process deletes a session at a time.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from codelab.engine.engine import Engine
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.limits import CONNECTIONS_PER_SESSION
from codelab.protocol.outgoing import Error
from codelab.sessions.register import LEASE_MARGIN_MS, Register
from codelab.sessions.transition import Transition
from codelab.turns import lifecycle
from codelab.turns.caller import Caller
from codelab.turns.lifecycle import SessionLease

#: Items that are listed and deleted between two checks of the remaining time.
_BATCH = 500
#: Time (ms) reserved for leaving an unfinished deletion to the sweep.
_MARGIN_MS = 6_000


class Deleter:
    """One per process. `remaining_ms` returns the time that the invocation has left."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def delete(self, user: str, session_id: str, remaining_ms: Callable[[], int], caller: Caller | None = None) -> bool:
        """Hide the session and delete it. Returns False if something remains, which the sweep will delete.

        `caller` is the sender of the request; None for the sweep.

        Raises ProtocolError SESSION_NOT_FOUND if there is no such session.
        """
        engine = self._engine
        lease = SessionLease(engine.ids(), engine.clock() + remaining_ms() + LEASE_MARGIN_MS)
        deletion = engine.decide(
            user, session_id, lambda draft: lifecycle.begin_deletion(draft, lease), caller=caller, include_hidden=True
        )
        if deletion is None:
            return False
        self._close_connections(deletion)
        if not self._purge(deletion.after, remaining_ms):
            return self._leave_to_sweep(deletion.after, lease, engine.clock())
        if deletion.after.purge_after > engine.clock():
            return self._leave_to_sweep(deletion.after, lease, deletion.after.purge_after)
        engine.store.remove(deletion.after)
        return True

    def _close_connections(self, deletion: Transition) -> None:
        """Send the session's connections an error and close them: their frames would no longer find the session."""
        assert deletion.before is not None
        frame = Error.of(ProtocolError(ErrorCode.SESSION_NOT_FOUND, "The session was deleted")).wire()
        connections, now = deletion.before.connections, self._engine.clock()

        def tell(connection_id: str) -> None:
            if not connections[connection_id].has_expired(now):
                self._engine.poster.attempt(connection_id, frame)
            self._engine.poster.close(connection_id)

        # One try each and in parallel, because connections that do not answer must not use up the request's time.
        with ThreadPoolExecutor(max_workers=CONNECTIONS_PER_SESSION) as pool:
            list(pool.map(tell, connections))

    def _purge(self, register: Register, remaining_ms: Callable[[], int]) -> bool:
        """Delete the items, then the objects that they refer to. Returns False if the time has run out."""
        bulk, payloads = self._engine.store.bulk, self._engine.payloads
        while remaining_ms() > _MARGIN_MS:
            sort_keys = bulk.keys(register.pk, _BATCH)
            if sort_keys:
                bulk.delete(register.pk, sort_keys)
            elif payloads.delete(register.user, register.session_id):
                return True
        return False

    def _leave_to_sweep(self, register: Register, lease: SessionLease, erase_at: int) -> bool:
        self._engine.decide(
            register.user,
            register.session_id,
            lambda draft: lifecycle.release(draft, lease, erase_at),
            include_hidden=True,
        )
        return False
