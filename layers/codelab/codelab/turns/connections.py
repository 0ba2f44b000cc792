"""Connections join and leave a session. Neither cancels a turn nor decides a call."""

from collections.abc import Iterable
from types import NoneType

from codelab.protocol import limits
from codelab.sessions.register import CallEntry, CallState, Connection, OutOfTurnCall, Phase, Register
from codelab.sessions.spending import Spending
from codelab.sessions.transition import Resend, Transition
from codelab.turns import quotas
from codelab.turns.caller import Caller
from codelab.turns.decision import decision
from codelab.turns.draft import Draft
from codelab.turns.quotas import QuotaNeed


@decision(NoneType, quota=QuotaNeed.COUNTERS, creates=True)
def connect(draft: Draft, caller: Caller, _: None = None) -> Transition:
    """`$connect`: join. If the session has too many connections, close the oldest with an error.

    Raises ProtocolError RATE_LIMITED.
    """
    quotas.spend(draft, caller.plan, Spending(connections=1))
    _join(draft, caller)
    connections = draft.register.connections
    while len(connections) > limits.CONNECTIONS_PER_SESSION:
        oldest = min(connections, key=lambda connection_id: connections[connection_id].generation)
        del connections[oldest]
        draft.close.append(oldest)
    return draft.finish()


def disconnect(draft: Draft, connection_id: str) -> Transition:
    """`$disconnect`, or a post that was answered with 410 long after joining. Repeats are harmless.

    The newest connection that has sent a frame becomes the executor of the open calls; if there is none, the next one
    that sends a frame does. (The client may have reconnected before `$disconnect` arrives.)
    """
    leave(draft, [connection_id])
    return draft.finish()


def leave(draft: Draft, closed_ids: Iterable[str]) -> None:
    """Remove connections and hand over the calls that they were executing; see `disconnect`."""
    register = draft.register
    if [connection_id for connection_id in closed_ids if register.connections.pop(connection_id, None)]:
        successors = {
            connection_id: connection.generation
            for connection_id, connection in _able_to_execute(register, draft.now).items()
            if connection.greeted
        }
        draft.resend.extend(
            _hand_over(register, max(successors, key=lambda connection_id: successors[connection_id], default=""))
        )


def close_expired(draft: Draft) -> None:
    """Close the connections whose token has expired and was not refreshed in time, without a frame."""
    connections = draft.register.connections.items()
    expired_ids = [
        connection_id
        for connection_id, connection in connections
        if connection.closes_at is not None and connection.closes_at <= draft.now
    ]
    leave(draft, expired_ids)
    draft.cut_connections.extend(expired_ids)


def revoke(draft: Draft, revoked_at: int) -> Transition | None:
    """Close the connections whose token was issued at `revoked_at` (seconds) or before. None if there are none."""
    revoked_ids = [
        connection_id
        for connection_id, connection in draft.register.connections.items()
        if connection.issued_at <= revoked_at
    ]
    if not revoked_ids:
        return None
    leave(draft, revoked_ids)
    draft.cut_connections.extend(revoked_ids)
    return draft.finish()


def _able_to_execute(register: Register, now: int) -> dict[str, Connection]:
    """The connections that may execute calls, by id."""
    connections = register.connections.items()
    return {
        connection_id: connection
        for connection_id, connection in connections
        if not connection.viewer and not connection.has_expired(now)
    }


def touch(draft: Draft, caller: Caller) -> None:
    """Add the caller's connection if it is missing, and let it take over open calls. Decisions about frames call this.

    With its first frame, a connection gets the open calls from before it joined. A connection that becomes the executor
    gets the calls that wait for execution. API Gateway may fail to report a closed connection: so, with calls open, the
    first frame of a new connection causes one call to be posted again to each other executor, to detect a 410.
    """
    if not caller.connection_id:
        return
    register = draft.register
    connection = register.connections.get(caller.connection_id)
    if connection is None:
        connection = _join(draft, caller)
    connection.expires = max(connection.expires, caller.expires)
    resends: set[Resend] = set()
    is_first = not connection.greeted
    connection.greeted = True
    if is_first and (register.calls or register.out_of_turn_calls):
        missed_seqs = [call.seq for call in register.open_calls.values() if 0 < call.seq <= connection.joined_seq]
        resends.update(Resend(caller.connection_id, seq) for seq in missed_seqs)
    if not caller.viewer:
        handovers = _hand_over(register, caller.connection_id)
        resends.update(handovers)
        if is_first and not handovers:
            other_executors = {
                resend.connection_id: resend
                for resend in executing_calls(register)
                if resend.connection_id != caller.connection_id
            }
            resends.update(
                resend for connection_id, resend in other_executors.items() if connection_id in register.connections
            )
    if resends:
        draft.resend.extend(
            sorted(resends, key=lambda resend: (resend.connection_id == caller.connection_id, resend.seq))
        )


def choose_executor(draft: Draft, caller: Caller) -> None:
    """Make the caller the executor; for a viewer, nothing changes.

    Over HTTP, keep the current executor, else choose the newest connection, else the first that joins.
    """
    register = draft.register
    if caller.viewer:
        return
    if caller.connection_id:
        register.executor = caller.connection_id
    elif register.executor != (successor := executor_for_http(register, draft.now)):
        draft.resend.extend(_hand_over(register, successor))
        register.executor = successor


def executor_for_http(register: Register, now: int) -> str:
    """The executor of a call over HTTP: the current executor, else the newest connection; empty if there is none."""
    generations = {
        connection_id: connection.generation for connection_id, connection in _able_to_execute(register, now).items()
    }
    if register.executor in generations:
        return register.executor
    return max(generations, key=lambda connection_id: generations[connection_id], default="")


def _hand_over(register: Register, successor: str) -> list[Resend]:
    """Hand over the calls of missing executors to the turn's executor, or if it is missing to `successor`, if any."""
    executing_before = executing_calls(register)
    if register.executor not in register.connections:
        if not successor:
            return []
        register.executor = successor
    for call in register.out_of_turn_calls.values():
        if call.executor not in register.connections:
            call.executor = register.executor
    return [resend for resend in executing_calls(register) if resend not in executing_before]


def executing_calls(register: Register) -> list[Resend]:
    """The calls that wait for execution, each with its executor, by seq."""
    resends = []
    for call in register.open_calls.values():
        if call.state is CallState.EXECUTING and call.seq:  # children work on those without a frame
            resends.append(Resend(executor_of(register, call), call.seq))
    return sorted(resends, key=lambda resend: resend.seq)


def executor_of(register: Register, call: CallEntry) -> str:
    """The connection that executes an open call once it is approved."""
    return call.executor if isinstance(call, OutOfTurnCall) else register.executor


def _join(draft: Draft, caller: Caller) -> Connection:
    register = draft.register
    register.generation += 1
    connection = Connection(
        generation=register.generation,
        joined=draft.now,
        joined_seq=register.last_seq,
        extensions=caller.extensions,
        viewer=caller.viewer,
        args_profile=caller.args_profile,
        issued_at=caller.issued,
        expires=caller.expires,
    )
    register.connections[caller.connection_id] = connection
    if not register.executor and register.phase is not Phase.IDLE and not caller.viewer:
        register.executor = caller.connection_id
    return connection
