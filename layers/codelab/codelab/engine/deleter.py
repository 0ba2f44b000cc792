"""Deleting a session: every item and object of it, in bounded batches, the register last.

Run by the request that asks for it, and by the sweep where that has died, had no time left, or had to wait for the
owner of a step who might still write. Only one process deletes a session at a time.
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
from codelab.turns.lifecycle import Lease

#: Items that are looked up and deleted before the time is looked at.
_BATCH = 500
#: Time that is left for giving back what could not be finished.
_MARGIN_MS = 6_000


class Deleter:
    """One for a process. `remaining_ms` is what the invocation has left."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def delete(self, user: str, session_id: str, remaining_ms: Callable[[], int], caller: Caller | None = None) -> bool:
        """Make the session absent and delete it. False: something remains, and the sweep will delete it.

        `caller` is who asks for it, where anybody does.

        Raises ProtocolError SESSION_NOT_FOUND where there is none.
        """
        engine = self._engine
        lease = Lease(engine.ids(), engine.clock() + remaining_ms() + LEASE_MARGIN_MS)
        begun = engine.decide(
            user, session_id, lambda draft: lifecycle.begin_deletion(draft, lease), caller=caller, include_hidden=True
        )
        if begun is None:
            return False
        self._close_connections(begun)
        if not self._purge(begun.after, remaining_ms):
            return self._leave_to_sweep(begun.after, lease, engine.clock())
        if begun.after.purge_after > engine.clock():
            return self._leave_to_sweep(begun.after, lease, begun.after.purge_after)
        engine.store.remove(begun.after)
        return True

    def _close_connections(self, begun: Transition) -> None:
        """The windows are told, and closed: nothing they send would find the session."""
        assert begun.before is not None
        frame = Error.of(ProtocolError(ErrorCode.SESSION_NOT_FOUND, "The session was deleted")).wire()
        connected, now = begun.before.connections, self._engine.clock()

        def tell(connection_id: str) -> None:
            if not connected[connection_id].has_expired(now):
                self._engine.poster.attempt(connection_id, frame)
            self._engine.poster.close(connection_id)

        # Once and beside each other: of eight that do not answer none may take the request's time.
        with ThreadPoolExecutor(max_workers=CONNECTIONS_PER_SESSION) as pool:
            list(pool.map(tell, connected))

    def _purge(self, register: Register, remaining_ms: Callable[[], int]) -> bool:
        """Items first: what they refer to is no longer asked for. False if the time has run out."""
        bulk, payloads = self._engine.store.bulk, self._engine.payloads
        while remaining_ms() > _MARGIN_MS:
            found = bulk.keys(register.pk, _BATCH)
            if found:
                bulk.delete(register.pk, found)
            elif payloads.delete(register.user, register.session_id):
                return True
        return False

    def _leave_to_sweep(self, register: Register, lease: Lease, erase_at: int) -> bool:
        self._engine.decide(
            register.user,
            register.session_id,
            lambda draft: lifecycle.release(draft, lease, erase_at),
            include_hidden=True,
        )
        return False
