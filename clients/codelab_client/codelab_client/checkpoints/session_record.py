"""The record as one session writes it: its turns, and the changes that its tools for files make."""

import logging
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from codelab_client.checkpoints.files import ABSENT, DIRECTORY, Captured, FileState, capture, digest_of
from codelab_client.checkpoints.folder import CheckpointFailed, RecordFolder
from codelab_client.checkpoints.record import Change, Record
from codelab_client.tools import tree as files
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.recording import running_call
from codelab_client.tools.tree import Names, Tree

_log = logging.getLogger(__name__)

#: Bytes of a file that a tool replaces, and of everything that one call replaces, which are still kept.
_KEPT, _KEPT_TOGETHER = 50_000_000, 200_000_000
_LABEL_CHARS = 200

_NOTHING: Mapping[Names, bytes] = {}
#: What a call is about to do to a path.
_Planned = tuple[Names, Captured, FileState]


class SessionRecord:
    """Records what the calls of `session` change in the workspace of `tree`. See tools.recording.Recorder.

    A change that cannot be recorded is made all the same; `recording_failures` says why not.
    """

    def __init__(self, tree: Tree, state: Path, session: str) -> None:
        self.tree, self.session = tree, session
        self.folder = RecordFolder(state, tree.root)
        self.recording_failures: list[str] = []
        self._record: Record | None = None
        self._label = ""
        self._turn: int | None = None

    @contextmanager
    def locked(self) -> Iterator[Record]:
        """The record, while every other session in the folder waits. Raises CheckpointFailed."""
        with self.folder.locked():
            if self._record is None:
                self._record = Record(self.folder, self.session)
            yield self._record

    def close(self) -> None:
        """Close the record, and leave the folder."""
        if self._record is not None:
            self._record.close()
            self._record = None
        self.folder.close()

    def begin_turn(self, record: Record, label: str) -> int:
        """Begin a turn. Returns its number."""
        self._label = label[:_LABEL_CHARS].encode(errors="replace").decode()
        self._turn = record.begin_turn(self._label)
        return self._turn

    def end_turn(self) -> None:
        """The next change begins another turn."""
        self._turn = None

    def turn(self, record: Record) -> int:
        """The running turn. It is about to change something, so nothing undone can be brought back any more."""
        record.forget_undone()
        if self._turn is not None and record.is_done(self._turn):
            return self._turn
        return self.begin_turn(record, self._label)

    # -- the tools for files: see Recorder -----------------------------------------------------------------------

    @contextmanager
    def changing(
        self, changes: Sequence[files.Change], *, alone: bool = True, editor_contents: Mapping[Names, bytes] = _NOTHING
    ) -> Iterator[Sequence[files.Change]]:
        """See Recorder."""

        def planned(_: Record) -> list[_Planned]:
            plans = [(change.names, self._replaced(change.names, editor_contents), _made(change)) for change in changes]
            new_names = [change.names for change in changes if change.data is not None]
            return [*self._directories(new_names), *plans]

        contents = [change.data for change in changes if change.data is not None]
        with self._step(planned, contents, alone=alone) as before:
            yield [_expecting(change, before.get(change.names)) for change in changes]

    @contextmanager
    def deleting(self, names: Names) -> Iterator[None]:
        """See Recorder."""
        with self._step(lambda _: [(path, now, ABSENT) for path, now in self._everything(names)]):
            yield

    @contextmanager
    def moving(self, source: Names, target: Names) -> Iterator[None]:
        """See Recorder."""

        def planned(_: Record) -> list[_Planned]:
            source_entries = self._everything(source)
            coming = [((*target, *path[len(source) :]), Captured(ABSENT), now.state) for path, now in source_entries]
            going = [(path, now, ABSENT) for path, now in source_entries]
            free = capture(self.tree, target, _KEPT).state == ABSENT
            return [*self._directories([target]), *coming, *going] if free else []

        with self._step(planned):
            yield

    @contextmanager
    def making(self, names: Names) -> Iterator[None]:
        """See Recorder."""
        with self._step(lambda _: self._directories([(*names, "")])):
            yield

    @contextmanager
    def _step(
        self, plan: Callable[[Record], list[_Planned]], contents: Sequence[bytes] = (), *, alone: bool = True
    ) -> Iterator[dict[Names, Captured]]:
        """Record what a call is about to change, and afterwards what it has changed."""
        with ExitStack() as holding:
            step, before, gap = self._begin(holding, plan, contents)
            if not alone:
                holding.close()
            try:
                yield before
            except BaseException:
                self._finish(holding, step, alone=alone, failed=True)
                raise
            self._finish(holding, step, alone=alone, failed=False)
            if gap:
                self._not_recorded(CheckpointFailed(gap))

    def _begin(
        self, holding: ExitStack, plan: Callable[[Record], list[_Planned]], contents: Sequence[bytes]
    ) -> tuple[int | None, dict[Names, Captured], str]:
        """The number of the step, what it replaces, and why it cannot be recorded if it can be made all the same."""
        try:
            record = holding.enter_context(self.locked())
            try:
                changes = plan(record)
            except ToolFailure as failure:  # The call should fail for the same reason, and say it.
                return None, {}, failure.message
            except OSError as error:
                return None, {}, str(error)
            with record.transaction():
                step = record.begin_step(self.turn(record), "call", self._label, self.folder.owner, running_call.get())
                for data in (*contents, *(now.data for _, now, _ in changes)):
                    if data is not None:
                        record.store(data)
                for names, now, new in changes:
                    record.add(step, Change(names, now.state, new))
        except CheckpointFailed as cause:
            self._not_recorded(cause)
            return None, {}, ""
        return step, {names: now for names, now, _ in changes}, ""

    def _finish(self, holding: ExitStack, step: int | None, *, alone: bool, failed: bool) -> None:
        if step is None:
            return
        try:
            record = self._record if alone else holding.enter_context(self.locked())
            assert record is not None
            with record.transaction():
                changes = record.of_step(step)
                now = {change.names: self._now(change.names) for change in changes} if failed else {}
                if failed and all(now[change.names].matches(change.old) for change in changes):
                    record.drop(step)
                    return
                self._correct(record, changes, record.exact_between(step, record.next_step()) if not alone else {})
                record.finish(step)
        except CheckpointFailed as wrong:
            self._not_recorded(wrong)

    def _correct(self, record: Record, changes: Sequence[Change], foreign_changes: dict[Names, list[Change]]) -> None:
        """Record the modes of what was made, and what others changed meanwhile."""
        for change in changes:
            new = change.new
            if new.kind == "file":
                with suppress(ToolFailure):
                    mode = stat.S_IMODE(self.tree.status(change.names).st_mode) & 0o777
                    new = replace(new, mode=f"{mode:04o}")
            is_alone = change.names not in foreign_changes
            if new != change.new or not is_alone:
                record.correct(change, new, exact=is_alone)

    def _replaced(self, names: Names, editor_contents: Mapping[Names, bytes]) -> Captured:
        """What a change replaces: what is on the disk, or what an editor has in its place."""
        now = capture(self.tree, names, _KEPT)
        if names not in editor_contents or now.state.kind != "file":
            return now
        return replace(
            now, state=replace(now.state, digest=digest_of(editor_contents[names])), data=editor_contents[names]
        )

    def _now(self, names: Names) -> FileState:
        try:
            return capture(self.tree, names, _KEPT).state
        except ToolFailure:
            return FileState("special")

    def _directories(self, new_names: Sequence[Names]) -> list[_Planned]:
        """The directories above these names that do not exist yet, and so are made as well."""
        above = dict.fromkeys(names[:length] for names in new_names for length in range(1, len(names)))
        return [(names, Captured(ABSENT), DIRECTORY) for names in above if capture(self.tree, names, 0).state == ABSENT]

    def _everything(self, names: Names) -> list[tuple[Names, Captured]]:
        """What is at a path, and everything in it."""
        top, remaining = capture(self.tree, names, _KEPT), _KEPT_TOGETHER
        entries = [(names, top)]
        for path in self.tree.below(names) if top.state.kind == "directory" else ():
            now = capture(self.tree, path, min(_KEPT, remaining))
            remaining -= len(now.data or b"")
            entries.append((path, now))
        return entries

    def _not_recorded(self, failure: CheckpointFailed) -> None:
        _log.warning("a change cannot be taken back: %s", failure)
        self.recording_failures.append(str(failure))


def _made(change: files.Change) -> FileState:
    """What a change leaves. The mode of a file is known afterwards."""
    if change.data is None:
        return ABSENT
    return FileState("link" if change.link else "file", digest_of(change.data))


def _expecting(change: files.Change, now: Captured | None) -> files.Change:
    """The change of exactly what was recorded: if somebody else is quicker, it fails."""
    if now is None or change.expected != files.ANY:
        return change
    if now.state == ABSENT:
        return replace(change, expected=None)
    return replace(change, expected=now.version)
