"""Replay: a client that comes back gets every frame after its `last_seq`, in order, and learns which calls are open."""

from codelab.delivery.post import Poster, render
from codelab.protocol.outgoing import PendingCall, Resumed, ResyncRequired
from codelab.sessions.register import Register
from codelab.sessions.store import SessionStore

#: Frames of one replay; a client that is further behind asks again.
REPLAY_FRAMES = 500
_PAGE = 100


def replay(
    store: SessionStore,
    poster: Poster,
    register: Register,
    connection_id: str,
    last_seq: int,
    open_calls: list[PendingCall],
    now: int,
) -> None:
    """Post the frames after `last_seq` to one connection, then `resumed`; or `resync_required` if the log has a gap."""
    end = store.log_end(register.pk, register.last_seq)
    last = min(end, last_seq + REPLAY_FRAMES)
    if last_seq > end:
        poster.post(connection_id, ResyncRequired(last_seq=end).wire())
        return
    for start in range(last_seq + 1, last + 1, _PAGE):
        stop = min(last, start + _PAGE - 1)
        events = store.events(register.pk, start, stop, now)
        if len(events) != stop - start + 1:
            poster.post(connection_id, ResyncRequired(last_seq=end).wire())
            return
        for event in events:
            frame = render(event, connection_id, register)
            if frame is not None and not poster.post(connection_id, frame):
                return
    more = True if last < end else None
    poster.post(connection_id, Resumed(last_seq=last, open_calls=open_calls, more=more).wire())
