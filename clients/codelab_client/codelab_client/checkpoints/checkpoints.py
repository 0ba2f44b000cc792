"""Checkpoints of a workspace and how turns are taken back."""

import asyncio
import hashlib
import json
import logging
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from codelab_client.checkpoints.shadow import CheckpointFailed, Difference, Shadow, State
from codelab_client.execution import ToolCall
from codelab_client.sandbox import Sandbox
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.tree import Change
from codelab_client.tools.workspace import DiskWorkspace, finished

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Kind = Literal["turn", "command", "end", "undo"]

#: Files put back at once.
_BATCH = 100
_LABEL_CHARS = 200
#: Checkpoints that are dropped before the repository is cleaned, which takes long.
_CLEANED = 50


@dataclass(frozen=True)
class Checkpoint:
    """The state of the workspace at one time.

    kind: before a turn or a command, at the end of a turn, or before an undo. label: the user's message or the command.
    """

    number: int
    turn: int
    kind: Kind
    label: str
    tree: str = field(repr=False)

    @property
    def name(self) -> str:
        """Its name in the repository."""
        return f"checkpoints/{self.number:08}"


@dataclass(frozen=True)
class Undone:
    """What an undo did. Paths are relative to the workspace.

    label: the message of the turn; None if there was no turn to take back. restored: files that are as before.
    changed_meanwhile: files that are not as the turn left them; they stay as they are. left_out: large files and other
    repositories, which no checkpoint has.
    """

    label: str | None
    restored: tuple[str, ...] = ()
    changed_meanwhile: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class Checkpoints:
    """The checkpoints of one workspace, kept over restarts in a folder of `state`, which is outside the workspace.

    The workspace's own repository is never touched: not its index, references, settings or hooks. Files that version
    control ignores, files of more than `largest` bytes and repositories inside the workspace are not stored. `keep` is
    how many checkpoints are kept. Every method raises CheckpointFailed. One client at a time may use a workspace's.
    """

    def __init__(
        self, workspace: DiskWorkspace, state: Path, sandbox: Sandbox, *, keep: int = 200, largest: int = 5_000_000
    ) -> None:
        root, state = workspace.root, state.resolve()
        if state.is_relative_to(root):
            raise ValueError("checkpoints cannot be kept inside the workspace")
        folder = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._tree = workspace.tree
        self._shadow = Shadow(self._tree, state / "checkpoints" / folder, sandbox, largest)
        self._keep = keep
        self._known: list[Checkpoint] | None = None
        self._lock = asyncio.Lock()

    async def begin_turn(self, message: str) -> None:
        """Make the checkpoint before a turn. A turn that did not end ends here."""
        await self._locked(self._begin_turn, message)

    async def before_command(self, call: ToolCall) -> None:
        """Make the checkpoint before a command (see `Executor`). Logs a failure: the command runs all the same."""
        try:
            await self._locked(self._take, "command", str(call.arguments.get("command", "")))
        except CheckpointFailed as failed:
            _log.warning("there is no checkpoint before the command: %s", failed)

    async def end_turn(self) -> None:
        """Make the checkpoint at the end of a turn, so that later changes of the user are known from the turn's."""
        await self._locked(self._end_turn)

    async def diff(self) -> str:
        """What the last turn has changed, as a unified diff; what others changed during the turn is in it, too."""
        return await self._locked(self._diff)

    async def undo(self, *, leave_changed: bool = False) -> Undone:
        """Take back the last turn: every file that it changed is as before the turn.

        If files were changed after the turn, nothing is done, and `changed_meanwhile` names them. With `leave_changed`,
        these stay and the others are taken back. A second undo takes back the turn before.
        """
        return await self._locked(self._undo, leave_changed)

    async def taken(self) -> Sequence[Checkpoint]:
        """All checkpoints, oldest first."""
        return tuple(await self._locked(self._all))

    async def _locked(self, function: Callable[..., Result], *arguments: object) -> Result:
        async with self._lock:
            return await finished(function, *arguments)

    # -- what runs in a thread ---------------------------------------------------------------------------------------

    def _all(self) -> list[Checkpoint]:
        if self._known is None:
            self._shadow.prepare()
            self._known = []
            for name, tree, message in self._shadow.kept():
                said = json.loads(message)
                number = int(name.rpartition("/")[2])
                self._known.append(Checkpoint(number, said["turn"], said["kind"], said["label"], tree))
        return self._known

    def _take(self, kind: Kind, label: str, turn: int | None = None) -> State:
        known = self._all()
        last = known[-1] if known else None
        found = self._shadow.state()
        number = last.number + 1 if last else 1
        if turn is None:
            turn = last.turn if last else 0
        made = Checkpoint(number, turn, kind, label[:_LABEL_CHARS], found.tree)
        message = json.dumps({"turn": turn, "kind": kind, "label": made.label})
        self._shadow.keep(made.name, found.tree, message)
        known.append(made)
        self._prune()
        return found

    def _prune(self) -> None:
        known = self._all()
        surplus = known[: -self._keep] if len(known) >= self._keep + _CLEANED else []
        if surplus:
            self._shadow.drop(checkpoint.name for checkpoint in surplus)
            del known[: len(surplus)]
            self._shadow.clean()

    def _begin_turn(self, message: str) -> None:
        known = self._all()
        self._end_turn()
        self._take("turn", message, known[-1].turn + 1 if known else 1)

    def _end_turn(self) -> None:
        known = self._all()
        if known and known[-1].kind not in ("end", "undo"):
            self._take("end", "")

    def _last_turn(self) -> tuple[Checkpoint, Checkpoint | None] | None:
        """The checkpoint before the last turn that was not taken back, and the one at its end."""
        known = self._all()
        before = next((found for found in reversed(known) if found.kind == "turn"), None)
        if before is None:
            return None
        after = next((found for found in known if found.turn == before.turn and found.kind == "end"), None)
        return before, after

    def _diff(self) -> str:
        turn = self._last_turn()
        if turn is None:
            return ""
        before, after = turn
        return self._shadow.diff(before.tree, after.tree if after else self._shadow.state().tree)

    def _undo(self, leave_changed: bool) -> Undone:
        turn = self._last_turn()
        if turn is None:
            return Undone(None)
        before, after = turn
        now = self._take("undo", before.label)
        changes = self._shadow.differences(before.tree, after.tree if after else now.tree)
        touched = {found.path for found in self._shadow.differences(after.tree, now.tree)} if after else set()
        others = {path for path in now.left_out if self._exists(path)}
        conflicts = [found for found in changes if found.path in touched | others]
        if conflicts and not leave_changed:
            return Undone(before.label, (), tuple(found.path for found in conflicts), now.left_out)
        wanted = [found for found in changes if found not in conflicts]
        failed = self._restore(wanted)
        gone = [found for found in self._all() if found.turn == before.turn and found.kind != "undo"]
        self._shadow.drop(found.name for found in gone)
        self._known = [found for found in self._all() if found not in gone]
        restored = tuple(found.path for found in wanted if found.path not in failed)
        unchanged = (*(found.path for found in conflicts), *failed)
        return Undone(before.label, restored, unchanged, now.left_out)

    def _exists(self, path: str) -> bool:
        return self._tree.kind(tuple(path.split("/"))) is not None

    def _restore(self, wanted: Sequence[Difference]) -> list[str]:
        """Put files back as they were. Returns those that could not be."""
        failed = []
        for found in wanted:  # What the turn has made goes first: a file may have taken a directory's place.
            if found.old is None:
                try:
                    self._tree.apply([Change(found.names, None, replaces_links=True)])
                except ToolFailure as failure:
                    if failure.code != "FILE_NOT_FOUND":
                        failed.append(found.path)
                self._tree.delete_empty_directories(found.names[:-1])
        back = [found for found in wanted if found.old is not None]
        for start in range(0, len(back), _BATCH):
            batch = back[start : start + _BATCH]
            contents = self._shadow.contents([found.old or "" for found in batch])
            for found, data in zip(batch, contents, strict=True):
                try:
                    self._tree.apply([self._change(found, data)])
                except ToolFailure as failure:
                    _log.warning("%s is not restored: %s", found.path, failure.message)
                    failed.append(found.path)
        return failed

    def _change(self, found: Difference, data: bytes) -> Change:
        mode = None if found.new is not None else 0o777 if found.was_executable else 0o666
        with suppress(OSError, ToolFailure):
            if found.new is not None and not found.was_link:
                old = stat.S_IMODE(self._tree.status(found.names).st_mode)
                mode = old | (old & 0o444) >> 2 if found.was_executable else old & ~0o111
        return Change(found.names, data, mode, link=found.was_link, replaces_links=True)
