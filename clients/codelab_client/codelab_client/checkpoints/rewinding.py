"""How files go back to the moment before some calls: it is shown first, and done only as it was shown."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from codelab_client.checkpoints.files import FileState, Restoring
from codelab_client.checkpoints.record import Record, Step, Turn
from codelab_client.checkpoints.session_record import SessionRecord
from codelab_client.checkpoints.undoing import Extent, Plan, Undoing, gaps, shown
from codelab_client.tools.paths import joined
from codelab_client.tools.tree import Names


@dataclass(frozen=True)
class FilesBack:
    """What going back does to files, or has done. Paths are relative to the workspace.

    edited_paths: restored; only calls of tools for files have changed them. command_paths: changed while commands ran,
    and restored from the state before. changed_since: changed by somebody else since, and left unless the user wants
    them back, too; by_sessions: those of them that another session has changed. deleted_paths: those of all that go,
    because they did not exist. not_stored, unknown_changes: what cannot be taken back, see `Undone`.
    recorded_calls: the calls that are known to have changed something, or may have.

    Only of what was done: replaced_paths: changed since, and restored as the user wanted. left_paths: changed while
    commands ran, and left as the user wanted. failed_paths: what could not be restored.
    """

    edited_paths: tuple[str, ...] = ()
    command_paths: tuple[str, ...] = ()
    changed_since: tuple[str, ...] = ()
    by_sessions: tuple[str, ...] = ()
    deleted_paths: tuple[str, ...] = ()
    not_stored: tuple[str, ...] = ()
    unknown_changes: tuple[str, ...] = ()
    replaced_paths: tuple[str, ...] = ()
    left_paths: tuple[str, ...] = ()
    failed_paths: tuple[str, ...] = ()
    recorded_calls: frozenset[str] = frozenset()
    states: Mapping[str, FileState] = field(default_factory=dict, repr=False, compare=False)

    @property
    def restored_paths(self) -> tuple[str, ...]:
        """What is restored without a further question, or was restored."""
        return tuple(sorted({*self.edited_paths, *self.command_paths, *self.replaced_paths}))


class Rewinding:
    """Takes back what calls did, whichever turns and sessions they are of. Raises CheckpointFailed."""

    def __init__(self, session: SessionRecord, undoing: Undoing) -> None:
        self._session, self._undoing = session, undoing

    def files_back(self, record: Record, call_ids: Collection[str]) -> FilesBack:
        """What would become of the files. Changes nothing."""
        steps = record.of_calls(call_ids)
        extents: tuple[Extent, ...] = ("edits", "commands", "everything")
        edit_plan, command_plan, whole_plan = (self._plan(record, steps, extent) for extent in extents)
        edited_names = [item.names for item in edit_plan.shown]
        not_stored, unknown_changes = gaps(command_plan, [step for step in steps if step.kind in ("window", "end")])
        return FilesBack(
            edited_paths=shown(edited_names),
            command_paths=shown(item.names for item in command_plan.shown if item.names not in edited_names),
            changed_since=shown(command_plan.of("changed")),
            by_sessions=shown(self._undoing.anothers(record, command_plan)),
            deleted_paths=shown(item.names for item in whole_plan.shown if item.target.kind == "absent"),
            not_stored=tuple(not_stored),
            unknown_changes=tuple(unknown_changes),
            recorded_calls=frozenset(step.call_id for step in steps),
            states={joined(item.names): item.now.state for item in whole_plan.restorings},
        )

    def rewind(
        self, record: Record, call_ids: Collection[str], label: str, extent: Extent, preview: FilesBack
    ) -> FilesBack:
        """Restore what the user has seen as it is now."""
        now = self.files_back(record, call_ids)
        steps = record.of_calls(call_ids)
        plan = self._plan(record, steps, extent)
        unseen_items = [item for item in plan.restorings if not _is_seen(item, preview)]
        plan = Plan([item for item in plan.restorings if item not in unseen_items], plan.skipped_paths)
        failures: list[Names] = []
        if plan.restorings:
            self._session.end_turn()
            turns = {step.turn for step in steps}
            number = record.begin_rewind(label, [turn for turn in turns if record.is_whole(turn, steps)])
            record.settle(number, "undone")
            failures = self._undoing.carry_out(record, Turn(number, label), plan, "undo")
        done_paths = {joined(item.names) for item in plan.shown if item.names not in failures}
        replaced_paths = done_paths & {*now.changed_since} if extent == "everything" else set[str]()
        other_paths = {joined(item.names) for item in unseen_items} & {*now.restored_paths, *now.changed_since}
        return replace(
            now,
            edited_paths=_among(now.edited_paths, done_paths),
            command_paths=_among(now.command_paths, done_paths),
            replaced_paths=tuple(sorted(replaced_paths)),
            changed_since=tuple(sorted({*now.changed_since} - replaced_paths | other_paths)),
            deleted_paths=_among(now.deleted_paths, done_paths),
            left_paths=tuple(path for path in now.command_paths if path not in done_paths | other_paths),
            failed_paths=shown(failures),
        )

    def _plan(self, record: Record, steps: Sequence[Step], extent: Extent) -> Plan:
        """Which paths become as they were. A path that cannot go back all the way stays as it is."""
        plan = self._undoing.planned(record, record.of_steps({step.number for step in steps}), extent)
        return Plan([item for item in plan.restorings if item.names not in plan.skipped_paths], plan.skipped_paths)


def _among(paths: Collection[str], chosen_paths: Collection[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if path in chosen_paths)


def _is_seen(restoring: Restoring, preview: FilesBack) -> bool:
    """Whether what is at the path now is what the user has seen there."""
    state = preview.states.get(joined(restoring.names))
    return state is not None and state.matches(restoring.now.state)
