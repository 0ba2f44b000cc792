"""How a turn is taken back, and brought back again: each path by itself, as far as nobody else has touched it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from codelab_client.checkpoints.files import ABSENT, Captured, FileState, Restoring, capture, restore
from codelab_client.checkpoints.record import Change, Record, Step, Turn, by_path
from codelab_client.checkpoints.session_record import SessionRecord
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import joined
from codelab_client.tools.tree import Names

#: Bytes of a file that undo replaces, and so keeps for redo.
_KEPT = 50_000_000
#: Why a path is not taken back: somebody changed it since; it is not sure who changed it; its content is not stored.
_Reason = Literal["", "changed", "unsure", "not stored"]
#: What is taken back: what only calls of tools for files have changed; also what changed while commands ran, unless
#: somebody changed it since; or all.
Extent = Literal["edits", "commands", "everything"]


@dataclass(frozen=True)
class Undone:
    """What an undo or a redo did. Paths are relative to the workspace.

    label: the message of the turn; None if there was no turn. restored_paths: what is as before. changed_since: what
    somebody changed after the session, and is left as it is; by_sessions: those of them that another session has
    changed. unsure: what changed while a command ran, and is left. not_stored: what changed and is not stored, with
    how. unknown_changes: commands of which it is not known what they changed, with the reason. failed_paths: what
    cannot be restored.
    """

    label: str | None
    restored_paths: tuple[str, ...] = ()
    changed_since: tuple[str, ...] = ()
    by_sessions: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    not_stored: tuple[str, ...] = ()
    unknown_changes: tuple[str, ...] = ()
    failed_paths: tuple[str, ...] = ()

    @property
    def asks(self) -> tuple[str, ...]:
        """What is left until the user says that it shall be taken back, too."""
        return (*self.changed_since, *self.unsure)


@dataclass
class Plan:
    """What becomes of the paths. skipped_paths: the reason why, by path."""

    restorings: list[Restoring] = field(default_factory=list)
    skipped_paths: dict[Names, _Reason] = field(default_factory=dict)

    @property
    def shown(self) -> list[Restoring]:
        """What is worth naming: a directory that comes or goes with its files is not."""
        folder_kinds = {"absent", "directory"}
        return [item for item in self.restorings if not {item.now.state.kind, item.target.kind} <= folder_kinds]

    def of(self, reason: _Reason) -> list[Names]:
        return [names for names, path_reason in self.skipped_paths.items() if path_reason == reason]


class Undoing:
    """Takes back the turns of a session. Raises CheckpointFailed."""

    def __init__(self, session: SessionRecord) -> None:
        self._session, self._tree = session, session.tree

    def undo(self, record: Record, *, everything: bool) -> Undone:
        """Take back the last turn, or with `everything` what the undo just before has left of its turn."""
        turn = self._unfinished_turn(record, record.last_undone(), "undo") if everything else None
        if turn is None:
            turn = record.last_turn()
            if turn is None:
                return Undone(None)
            record.spend(turn.number)
        self._session.end_turn()
        # A rewind has no calls of its own. If it was brought back, that is taken back.
        changes = record.changes(turn.number, ("call", "window", "end")) or record.changes(turn.number, ("redo",))
        plan, failures = self._take_back(record, turn, changes, "undo", everything=everything)
        record.settle(turn.number, "undone", remains=bool(plan.skipped_paths))
        return self._undone(record, turn, plan, failures, with_commands=True)

    def redo(self, record: Record, *, everything: bool) -> Undone:
        """Bring back the turn that was taken back last, or the rest of it."""
        turn = self._unfinished_turn(record, record.last_turn(), "redo") if everything else None
        turn = turn or record.last_undone()
        if turn is None:
            return Undone(None)
        changes = record.changes(turn.number, ("undo",))
        plan, failures = self._take_back(record, turn, changes, "redo", everything=everything)
        record.settle(turn.number, "done", remains=bool(plan.skipped_paths))
        return self._undone(record, turn, plan, failures, with_commands=False)

    def _unfinished_turn(self, record: Record, turn: Turn | None, kind: Literal["undo", "redo"]) -> Turn | None:
        """The turn, if the last thing that happened was its undo or redo, and that has left something."""
        last = record.last_step()
        is_last = turn is not None and last is not None and (last.kind, last.turn) == (kind, turn.number)
        return turn if turn is not None and turn.remains and is_last else None

    def _take_back(
        self, record: Record, turn: Turn, changes: Sequence[Change], kind: Literal["undo", "redo"], *, everything: bool
    ) -> tuple[Plan, list[Names]]:
        """Take changes of a turn back. Returns what was planned, and what failed."""
        plan = self.planned(record, changes, "everything" if everything else "edits")
        return plan, self.carry_out(record, turn, plan, kind)

    def planned(self, record: Record, changes: Sequence[Change], extent: Extent) -> Plan:
        """What becomes of the paths if these changes are taken back."""
        plan = Plan()
        for names, of_path in sorted(by_path(changes).items()):
            self._plan(record, plan, names, of_path, extent)
        return plan

    def carry_out(self, record: Record, turn: Turn, plan: Plan, kind: Literal["undo", "redo"]) -> list[Names]:
        """Restore what is planned, after it is recorded with the content that it replaces. Returns what failed."""
        with record.transaction():
            step = record.begin_step(turn.number, kind, turn.label, self._session.folder.owner)
            for restoring in plan.restorings:
                if restoring.now.data is not None:
                    record.store(restoring.now.data)
                record.add(step, Change(restoring.names, restoring.now.state, restoring.target))
        failures = restore(self._tree, plan.restorings)
        record.finish(step)
        return failures

    def _plan(self, record: Record, plan: Plan, names: Names, changes: list[Change], extent: Extent) -> None:
        above = [names[:length] for length in range(1, len(names))]
        try:
            now = capture(self._tree, names, _KEPT)
        except ToolFailure:  # A link is in its way.
            if not any(item.names in above and item.target.kind == "directory" for item in plan.restorings):
                plan.skipped_paths[names] = next(
                    (plan.skipped_paths[item] for item in above if item in plan.skipped_paths), "changed"
                )
                return
            now = Captured(ABSENT)
        target, reason = _target(changes, now.state, extent)
        data = record.content(target.digest) if target.kind in ("file", "link") else None
        if not target.matches(now.state):
            if Captured(target, data).is_whole and now.is_whole:
                plan.restorings.append(Restoring(names, now, target, data))
            else:
                reason = "not stored"
        if reason and any("directory" not in (item.old.kind, item.new.kind) for item in changes):
            plan.skipped_paths[names] = reason

    def _undone(self, record: Record, turn: Turn, plan: Plan, failures: list[Names], *, with_commands: bool) -> Undone:
        not_stored, unknown_changes = gaps(plan, record.windows(turn.number) if with_commands else ())
        if with_commands:
            unknown_changes += self._session.recording_failures
            self._session.recording_failures = []
        return Undone(
            turn.label,
            restored_paths=shown(item.names for item in plan.shown if item.names not in failures),
            changed_since=shown(plan.of("changed")),
            by_sessions=shown(self.anothers(record, plan)),
            unsure=shown(plan.of("unsure")),
            not_stored=tuple(not_stored),
            unknown_changes=tuple(dict.fromkeys(unknown_changes)),
            failed_paths=shown(failures),
        )

    def anothers(self, record: Record, plan: Plan) -> list[Names]:
        """Of what was changed since: what another session has changed."""
        return [names for names in plan.of("changed") if record.is_anothers(names, self._state(names))]

    def _state(self, names: Names) -> FileState:
        try:
            return capture(self._tree, names, _KEPT).state
        except ToolFailure:
            return FileState("special")


def _target(changes: Sequence[Change], now: FileState, extent: Extent) -> tuple[FileState, _Reason]:
    """What a path becomes when these changes of it are taken back, and why no more of them can be.

    The changes are followed from what is there now. They are taken back as long as each left what the next one found:
    what lies before somebody else's change stays untouched below it. Changes that were taken back already are passed:
    what is there is what the first of them found.
    """
    first, at, place = changes[0].old, now, len(changes)
    reason: _Reason = ""
    while place and not reason:
        change = changes[place - 1]
        earlier = next((number for number in range(place) if at.matches(changes[number].old)), None)
        if at.matches(change.new) and (change.exact or extent != "edits"):
            at, place = change.old, place - 1
        elif at.matches(change.old) and not change.done:
            place -= 1  # The client died before it made the change.
        elif earlier is not None:
            place = earlier
        else:
            reason = "unsure" if at.matches(change.new) else "changed"
    return (first, "") if extent == "everything" else (at, reason)


def gaps(plan: Plan, windows: Sequence[Step]) -> tuple[list[str], list[str]]:
    """What is not stored, with how, and the commands of which it is not known what they changed, with the reason."""
    missing = [f"{joined(names)} (too large, or not readable)" for names in plan.of("not stored")]
    unknown_changes: list[str] = []
    for window in windows:
        missing += [f"{path} ({sign})" for path, sign in window.unstored_signs.items() if window.kind == "end"]
        if window.because or not window.done:
            unknown_changes.append(f"{window.label} ({window.because or 'it still runs'})")
    return list(dict.fromkeys(missing)), list(dict.fromkeys(unknown_changes))


def shown(paths: Iterable[Names]) -> tuple[str, ...]:
    """Paths as people read them."""
    return tuple(sorted(map(joined, paths)))
