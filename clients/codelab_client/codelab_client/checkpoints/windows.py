"""What commands change: everything that differs between two states and that no tool for files has recorded.

A file system does not say who has written a file. While a command runs, the user and other programs may write, too. So
what is found here counts as unsure, and nothing of it is taken back unless the user wants it.
"""

import logging

from codelab_client.checkpoints import unstored
from codelab_client.checkpoints.folder import CheckpointFailed
from codelab_client.checkpoints.record import Change, Record, Step
from codelab_client.checkpoints.session_record import SessionRecord
from codelab_client.checkpoints.shadow import Difference, States
from codelab_client.tools.paths import joined

_log = logging.getLogger(__name__)

_LABEL_CHARS = 200
#: Turns that are dropped before the space is freed, which takes long.
_CLEANED = 50
_DIED = "the client ended while it ran"


class Windows:
    """Sees the workspace before and after each command of a session. Raises CheckpointFailed."""

    def __init__(self, session: SessionRecord, states: States) -> None:
        self._session, self._states = session, states

    def begin(self, label: str) -> int:
        """A command is about to run. Returns the number of its window. If its state is not seen, undo says so."""
        with self._session.locked() as record:
            with record.transaction():
                turn = self._session.turn(record)
                step = record.begin_step(turn, "window", label[:_LABEL_CHARS], self._session.folder.owner)
            try:
                state = self._states.state()
            except CheckpointFailed as failed:
                _log.warning("what the command changes cannot be taken back: %s", failed)
                record.see(step, None, {}, str(failed))
            else:
                record.see(step, state.tree, state.unstored)
        return step

    def end(self, step: int) -> None:
        """The command has ended."""
        with self._session.locked() as record:
            for window in record.open_windows():
                if window.number == step:
                    self._close(record, window)

    def recover(self, record: Record) -> None:
        """Close the windows of clients that have died: what happened until now may be their commands' work."""
        for window in record.open_windows():
            if not self._session.folder.lives(window.owner):
                self._close(record, window, _DIED)

    def clean(self, record: Record, keep: int) -> None:
        """Forget old turns, and free their space, unless a command runs."""
        if not record.open_windows() and record.prune(keep, _CLEANED):
            record.vacuum()
            self._states.clean()

    def _close(self, record: Record, window: Step, because: str = "") -> None:
        """Record what has changed in a window."""
        try:
            if window.tree is None:
                raise CheckpointFailed(window.because or _DIED)
            now = self._states.state()
            with record.transaction():
                end = record.begin_step(window.turn, "end", window.label, window.owner)
                exact = record.exact_since(window.number)
                for difference in self._states.differences(window.tree, now.tree):
                    _add(record, window, end, difference, exact.get(difference.names, []))
                recorded = {joined(names) for names in exact}
                became = unstored.changes(window.unstored, now.unstored)
                became = {path: how for path, how in became.items() if path not in recorded}
                record.finish(end, unstored=became, because=because)
                record.finish(window.number)
        except CheckpointFailed as failed:
            record.finish(record.begin_step(window.turn, "end", window.label, window.owner), because=str(failed))
            record.finish(window.number)


def _add(record: Record, window: Step, end: int, found: Difference, exact: list[Change]) -> None:
    """Record a difference, but not what calls have changed in the meantime."""
    for captured in (found.old, found.new):
        if captured.data is not None:
            record.store(captured.data)
    old, new = found.old.state, found.new.state
    if exact:
        if not old.same(exact[0].old):
            record.add(window.number, Change(found.names, old, exact[0].old, exact=False))
        old = exact[-1].new
    if not old.same(new):
        record.add(end, Change(found.names, old, new, exact=False))
