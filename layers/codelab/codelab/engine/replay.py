"""Resume: a returning client gets every frame after its `last_seq` once, in order, and then live ones.

While the replay runs, writers log their frames but do not post them to this connection. At the log's end a transaction
switches the connection to live, and the log is read once more: a writer that still saw the connection as replaying had
logged its frame before. If the connection does not take a frame, it is switched to live at once: if it still exists,
its client notices the gap at the next live frame and resumes again.
"""

import time
from collections.abc import Sequence
from typing import Any

from codelab.delivery.post import PostResult, render
from codelab.delivery.settled_calls import with_outcomes_for
from codelab.engine.engine import Engine
from codelab.protocol import limits
from codelab.protocol.outgoing import Resumed, ResyncRequired
from codelab.sessions.items import EventItem
from codelab.sessions.register import Register
from codelab.sessions.transition import Transition
from codelab.turns import control
from codelab.turns.caller import Caller

_PAGE = 100
#: Seconds between two tries to post to a connection that is still being opened.
_NOT_YET_S = 0.05


def resume(
    engine: Engine, caller: Caller, last_seq: int, patience_s: float = 0.0, request_id: str | None = None
) -> None:
    """Replay to the caller's connection and end with `resumed`, or with `resync_required` if the log is too short.

    That answer repeats the `request_id`. Waits at most `patience_s` seconds for a connection whose `$connect` has not
    returned yet.
    """
    transition = engine.decide(
        caller.user, caller.session_id, lambda draft: control.begin_replay(draft, caller, last_seq), caller=caller
    )
    if transition is None:
        return
    engine.revive(transition.after)
    replay = _Replay(engine, caller, last_seq, patience_s)
    try:
        _replay(engine, caller, transition, replay, request_id)
    except _Stopped:
        _switch_to_live(engine, caller)


def _replay(engine: Engine, caller: Caller, transition: Transition, replay: "_Replay", request_id: str | None) -> None:
    last_seq, end = replay.seq, engine.store.log_end(transition.after.pk, transition.after.last_seq)
    if last_seq > end or not replay.up_to(transition.after, min(end, last_seq + limits.REPLAY_FRAMES)):
        _switch_to_live(engine, caller)
        replay.post(ResyncRequired(last_seq=end, request_id=request_id).wire())
        return
    engine.run_effects(transition)  # sends the calls that this connection executes from now on
    register, has_more = transition.after, replay.seq < end
    if not has_more:
        register = _switch_to_live(engine, caller) or register
        replay.up_to(register, engine.store.log_end(register.pk, max(register.last_seq, replay.seq)))
        if replay.seq > register.last_seq:  # the last frames may contain a call that was opened after the switch
            register = engine.store.read(register.pk) or register
    reply = Resumed(
        last_seq=replay.seq, open_calls=control.pending_calls(register), more=has_more or None, request_id=request_id
    )
    replay.post(reply.wire())


def _switch_to_live(engine: Engine, caller: Caller) -> Register | None:
    transition = engine.decide(caller.user, caller.session_id, lambda draft: control.end_replay(draft, caller))
    return transition.after if transition is not None else None


class _Stopped(Exception):
    """The connection does not take frames: it is gone, refuses for too long, or its token has expired."""


class _Replay:
    """Posts the log to one connection; `seq` is the number of the last posted frame."""

    def __init__(self, engine: Engine, caller: Caller, last_seq: int, patience_s: float) -> None:
        self._patience = time.monotonic() + patience_s
        self._engine = engine
        self._connection_id = caller.connection_id
        self.seq = last_seq

    def post(self, frame: dict[str, Any]) -> None:
        """Post one frame. Raises _Stopped if the connection does not take it."""
        while (outcome := self._engine.poster.post(self._connection_id, frame)) is not PostResult.DONE:
            if outcome is not PostResult.GONE or time.monotonic() >= self._patience:
                raise _Stopped
            time.sleep(_NOT_YET_S)

    def _check_time(self, register: Register) -> None:
        """Raise _Stopped if the connection's token has expired: it must not receive the session's frames."""
        connection = register.connections.get(self._connection_id)
        if connection is not None and connection.has_expired(self._engine.clock()):
            raise _Stopped

    def _completed(self, events: Sequence[EventItem], register: Register) -> Sequence[EventItem]:
        target = [self._connection_id] if self._connection_id in register.connections else []
        return with_outcomes_for(self._engine.store, self._engine.payloads, events, register, target)

    def up_to(self, register: Register, last_seq: int) -> bool:
        """Post all frames up to `last_seq`. Returns False if the log has a gap because its beginning has expired."""
        while self.seq < last_seq:
            self._check_time(register)
            stop = min(last_seq, self.seq + _PAGE)
            events = self._engine.store.events(register.pk, self.seq + 1, stop, self._engine.clock())
            if len(events) != stop - self.seq:
                return False
            for event in self._completed(events, register):
                if self._connection_id in register.connections:
                    frame = render(event, self._connection_id, register, self._engine.payloads)
                    if frame is not None:
                        self.post(_not_again(frame, register))
                self.seq = event.seq
        return True


def _not_again(frame: dict[str, Any], register: Register) -> dict[str, Any]:
    """The frame; a call that is settled is only to be shown. The register knows of all calls up to its `last_seq`."""
    is_settled = frame["type"] == "tool_call" and frame["call_id"] not in register.open_calls
    return {**frame, "execute": False} if is_settled and frame["seq"] <= register.last_seq else frame
