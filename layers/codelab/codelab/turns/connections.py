"""Connections come and go; neither cancels nor decides anything."""

from dataclasses import dataclass

from codelab.protocol import limits
from codelab.sessions.register import CallState, Connection, Phase, Register
from codelab.sessions.transition import Resend, Transition
from codelab.turns.draft import Circumstances, Draft


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent an event, as the authorizer said. `expires` is in seconds since the epoch, 0 never.

    A request over HTTP has no connection: `connection_id` is empty.
    """

    user: str
    session_id: str
    connection_id: str
    extensions: bool = False
    viewer: bool = False
    args_profile: bool = False
    expires: int = 0


def create(caller: Caller, given: Circumstances) -> Transition:
    """`$connect` to a session that does not exist."""
    register = Register(
        user=caller.user,
        session_id=caller.session_id,
        created_at=given.now,
        last_activity=given.now,
        agent=given.settings.default_agent,
    )
    draft = Draft(before=None, register=register, given=given)
    _join(draft, caller)
    return draft.finish()


def connect(draft: Draft, caller: Caller) -> Transition:
    """`$connect` to a session that exists. Over the limit the oldest connection is told, and closed."""
    _join(draft, caller)
    connected = draft.register.connections
    while len(connected) > limits.CONNECTIONS_PER_SESSION:
        oldest = min(connected, key=lambda found: connected[found].generation)
        del connected[oldest]
        draft.close.append(oldest)
    return draft.finish()


def disconnect(draft: Draft, connection_id: str) -> Transition:
    """`$disconnect`, or a post that was answered by 410 long after joining. Repeats are harmless.

    `$disconnect` may come after the client is back and has sent its first frame: then that connection, the newest that
    has spoken, takes over what waits for execution; otherwise the next one that speaks does.
    """
    register = draft.register
    if register.connections.pop(connection_id, None) and register.executor == connection_id:
        heirs = [found for found, it in register.connections.items() if it.greeted and not it.viewer]
        if heirs:
            heir = max(heirs, key=lambda found: register.connections[found].generation)
            draft.resend.extend(Resend(heir, seq) for seq in _hand_over(register, heir))
    return draft.finish()


def touch(draft: Draft, caller: Caller) -> None:
    """Every inbound frame re-adds its connection in the write it makes anyway, and may take over the open calls.

    A connection that has not sent a frame yet gets the calls that were opened before it joined; whoever becomes the
    executor because the last one is gone gets those that wait for execution. API Gateway does not promise to say that
    one is gone: with calls open, the first frame of a new connection has one of them posted to their executor again,
    and a 410 tells.
    """
    if not caller.connection_id:
        return
    register = draft.register
    connection = register.connections.get(caller.connection_id)
    if connection is None:
        connection = _join(draft, caller)
    connection.expires = max(connection.expires, caller.expires)
    missed, is_first = set(), not connection.greeted
    if is_first:
        connection.greeted = True
        missed = {call.seq for call in register.open_calls.values() if call.seq <= connection.joined_seq}
    if not caller.viewer and register.executor not in register.connections:
        missed.update(_hand_over(register, caller.connection_id))
    elif is_first and not caller.viewer and register.executor != caller.connection_id:
        draft.resend.extend(Resend(register.executor, seq) for seq in _executing(register)[:1])
    draft.resend.extend(Resend(caller.connection_id, seq) for seq in sorted(missed))


def lead(register: Register, caller: Caller) -> None:
    """Who begins a turn executes its calls. Over HTTP nobody can: then the executor there was does, else the newest
    window, else the first that joins.
    """
    if caller.viewer:
        return
    if caller.connection_id:
        register.executor = caller.connection_id
    elif register.executor not in register.connections:
        able = {found: it.generation for found, it in register.connections.items() if not it.viewer}
        register.executor = max(able, key=lambda found: able[found], default="")


def _hand_over(register: Register, connection_id: str) -> list[int]:
    """Make `connection_id` the executor. Returns the seqs of the calls that it is to execute."""
    register.executor = connection_id
    return _executing(register)


def _executing(register: Register) -> list[int]:
    return sorted(call.seq for call in register.open_calls.values() if call.state is CallState.EXECUTING)


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
        expires=caller.expires,
    )
    register.connections[caller.connection_id] = connection
    if not register.executor and register.phase is not Phase.IDLE and not caller.viewer:
        register.executor = caller.connection_id
    return connection
