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
from codelab.turns.quotas import Asks


@decision(NoneType, quota=Asks.SPENDS, creates=True)
def connect(draft: Draft, caller: Caller, _: None = None) -> Transition:
    """`$connect`: join. If the session has too many connections, close the oldest with an error.

    Raises ProtocolError RATE_LIMITED.
    """
    quotas.spend(draft, caller.plan, Spending(connections=1))
    _join(draft, caller)
    connected = draft.register.connections
    while len(connected) > limits.CONNECTIONS_PER_SESSION:
        oldest = min(connected, key=lambda found: connected[found].generation)
        del connected[oldest]
        draft.close.append(oldest)
    return draft.finish()


def disconnect(draft: Draft, connection_id: str) -> Transition:
    """`$disconnect`, or a post that was answered with 410 long after joining. Repeats are harmless.

    The newest connection that has sent a frame becomes the executor of the open calls; if there is none, the next one
    that sends a frame does. (The client may have reconnected before `$disconnect` arrives.)
    """
    leave(draft, [connection_id])
    return draft.finish()


def leave(draft: Draft, gone: Iterable[str]) -> None:
    """Remove connections and hand over the calls that they were executing; see `disconnect`."""
    register = draft.register
    if [connection_id for connection_id in gone if register.connections.pop(connection_id, None)]:
        successors = {found: it.generation for found, it in _able_to_execute(register, draft.now).items() if it.greeted}
        draft.resend.extend(_hand_over(register, max(successors, key=lambda found: successors[found], default="")))


def close_expired(draft: Draft) -> None:
    """Close the connections whose token has expired and was not refreshed in time, without a frame."""
    found = draft.register.connections.items()
    expired = [each for each, it in found if it.closes_at is not None and it.closes_at <= draft.now]
    leave(draft, expired)
    draft.cut.extend(expired)


def revoke(draft: Draft, revoked_at: int) -> Transition | None:
    """Close the connections whose token was issued at `revoked_at` (seconds) or before. None if there are none."""
    revoked = [found for found, it in draft.register.connections.items() if it.issued <= revoked_at]
    if not revoked:
        return None
    leave(draft, revoked)
    draft.cut.extend(revoked)
    return draft.finish()


def _able_to_execute(register: Register, now: int) -> dict[str, Connection]:
    """The connections that may execute calls, by id."""
    found = register.connections.items()
    return {each: it for each, it in found if not it.viewer and not it.has_expired(now)}


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
    sent_again: set[Resend] = set()
    is_first = not connection.greeted
    connection.greeted = True
    if is_first and (register.calls or register.out_of_turn_calls):
        missed = [call.seq for call in register.open_calls.values() if call.seq <= connection.joined_seq]
        sent_again.update(Resend(caller.connection_id, seq) for seq in missed)
    if not caller.viewer:
        handed_over = _hand_over(register, caller.connection_id)
        sent_again.update(handed_over)
        if is_first and not handed_over:
            others = {it.connection_id: it for it in executing(register) if it.connection_id != caller.connection_id}
            sent_again.update(it for connection_id, it in others.items() if connection_id in register.connections)
    if sent_again:
        draft.resend.extend(sorted(sent_again, key=lambda it: (it.connection_id == caller.connection_id, it.seq)))


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
    able = {found: it.generation for found, it in _able_to_execute(register, now).items()}
    return register.executor if register.executor in able else max(able, key=lambda found: able[found], default="")


def _hand_over(register: Register, successor: str) -> list[Resend]:
    """Hand over the calls of missing executors to the turn's executor, or if it is missing to `successor`, if any."""
    before = executing(register)
    if register.executor not in register.connections:
        if not successor:
            return []
        register.executor = successor
    for call in register.out_of_turn_calls.values():
        if call.executor not in register.connections:
            call.executor = register.executor
    return [resend for resend in executing(register) if resend not in before]


def executing(register: Register) -> list[Resend]:
    """The calls that wait for execution, each with its executor, by seq."""
    found = []
    for call in (*register.calls.values(), *register.out_of_turn_calls.values()):
        if call.state is CallState.EXECUTING:
            found.append(Resend(executor_of(register, call), call.seq))
    return sorted(found, key=lambda resend: resend.seq)


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
        issued=caller.issued,
        expires=caller.expires,
    )
    register.connections[caller.connection_id] = connection
    if not register.executor and register.phase is not Phase.IDLE and not caller.viewer:
        register.executor = caller.connection_id
    return connection
