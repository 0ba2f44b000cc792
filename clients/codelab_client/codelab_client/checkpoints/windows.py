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

    def begin(self, label: str, call_id: str) -> int:
        """A command is about to run. Returns the number of its window. If its state is not seen, undo says so."""
        with self._session.locked() as record:
            with record.transaction():
                turn = self._session.turn(record)
                owner = self._session.folder.owner
                step = record.begin_step(turn, "window", label[:_LABEL_CHARS], owner, call_id)
            try:
                state = self._states.state()
            except CheckpointFailed as failure:
                _log.warning("what the command changes cannot be taken back: %s", failure)
                record.see(step, None, {}, str(failure))
            else:
                record.see(step, state.tree, state.unstored_signs)
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
            self.compare(record)
            record.vacuum()
            self._states.clean()

    def compare(self, record: Record) -> None:
        """Find out what has changed in each window that has ended. That takes longer than a command should wait."""
        for window, end in record.unknown_windows():
            try:
                with record.transaction():
                    self._compare(record, window, end)
                    record.finish(end.number)
            except CheckpointFailed as failure:
                record.finish(end.number, str(failure))

    def _close(self, record: Record, window: Step, because: str = "") -> None:
        """Record the state at the end of a window."""
        try:
            now = self._states.state() if window.tree is not None else None
        except CheckpointFailed as failure:
            _log.warning("what the command has changed cannot be taken back: %s", failure)
            now, because = None, str(failure)
        with record.transaction():
            end = record.end_window(window)
            if now is None:
                record.finish(end, because or window.because or _DIED)
                return
            exact_paths = {joined(names) for names in record.exact_between(window.number, end)}
            changes = unstored.changes(window.unstored_signs, now.unstored_signs)
            record.see(
                end, now.tree, {path: change for path, change in changes.items() if path not in exact_paths}, because
            )

    def _compare(self, record: Record, window: Step, end: Step) -> None:
        """Record what differs between a window's start and its end."""
        if window.tree is None or end.tree is None or window.tree == end.tree:
            return
        exact = record.exact_between(window.number, end.number)
        for difference in self._states.differences(window.tree, end.tree):
            _add(record, window, end.number, difference, exact.get(difference.names, []))


def _add(record: Record, window: Step, end: int, difference: Difference, exact: list[Change]) -> None:
    """Record a difference, but not what calls have changed in the meantime."""
    for side in (difference.old, difference.new):
        if side.data is not None:
            record.store(side.data)
    old, new = difference.old.state, difference.new.state
    if exact:
        if not old.matches(exact[0].old):
            record.add(window.number, Change(difference.names, old, exact[0].old, exact=False))
        old = exact[-1].new
    if not old.matches(new):
        record.add(end, Change(difference.names, old, new, exact=False))
