"""What a session's turns changed in a workspace, and how that is taken back and brought back again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from codelab_client.checkpoints.diffs import unified
from codelab_client.checkpoints.folder import CheckpointFailed
from codelab_client.checkpoints.record import Record
from codelab_client.checkpoints.rewinding import FilesBack, Rewinding
from codelab_client.checkpoints.session_record import SessionRecord
from codelab_client.checkpoints.shadow import Shadow, States
from codelab_client.checkpoints.undoing import Extent, Undoing, Undone
from codelab_client.checkpoints.windows import Windows
from codelab_client.execution import ToolCall
from codelab_client.sandbox import Sandbox
from codelab_client.tools.arguments import ALIASES
from codelab_client.tools.recording import Recorder
from codelab_client.tools.workspace import DiskWorkspace, finished

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Checkpoints:
    """The changes of one session in a workspace, kept over restarts in folders of `state`, outside the workspace.

    What its tools for files change is recorded by themselves (`recorder`), whatever version control ignores. What a
    command changes is seen by comparing the workspace before and after it, in `states` (None: in a git repository of
    our own); there, files that version control ignores, files of more than `largest` bytes and repositories inside the
    workspace are only named. The workspace's own repository is never touched: not its index, references, settings or
    hooks. Any number of sessions may work in the same folder. `keep` is how many of their turns are kept. Methods raise
    CheckpointFailed.
    """

    def __init__(
        self,
        workspace: DiskWorkspace,
        state: Path,
        sandbox: Sandbox,
        session: str = "",
        *,
        keep: int = 200,
        largest: int = 5_000_000,
        states: States | None = None,
    ) -> None:
        root, state = workspace.root, state.resolve()
        if state.is_relative_to(root):
            raise ValueError("checkpoints cannot be kept inside the workspace")
        self._session = SessionRecord(workspace.tree, state, session)
        states = states or Shadow(workspace.tree, self._session.folder.git_dir, sandbox, largest)
        self._windows = Windows(self._session, states)
        self._undoing = Undoing(self._session)
        self._rewinding = Rewinding(self._session, self._undoing)
        self._keep = keep
        self._lasting: list[int] = []
        self._lock = asyncio.Lock()

    @property
    def recorder(self) -> Recorder:
        """What the workspace tells about changes, see DiskWorkspace."""
        return self._session

    async def begin_turn(self, message: str) -> None:
        """A turn begins. A turn that did not end ends here."""
        await self.end_turn()
        await self._within(self._begin_turn, message)

    @asynccontextmanager
    async def around(self, call: ToolCall) -> AsyncIterator[None]:
        """Around a call that may change any file: a command, or a tool that is not ours. It runs in any case, unless it
        was cancelled while this looked at the files, which is done to its end.

        What run_persistent starts is watched to the end of the turn.
        """
        tool = ALIASES.get(call.tool_name, call.tool_name)
        label = call.arguments.get("command", tool)
        step = await self._safely(self._windows.begin, str(label), call.own_call_id)
        try:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError
            yield
        finally:
            if step is not None and tool == "run_persistent":
                self._lasting.append(step)
            elif step is not None:
                await self._safely(self._windows.end, step)

    async def end_turn(self) -> None:
        """The turn has ended: later changes are the user's."""
        lasting, self._lasting = self._lasting, []
        for step in lasting:
            await self._safely(self._windows.end, step)
        self._session.end_turn()

    async def diff(self) -> str:
        """What the calls of the session's last turn have changed, as a unified diff."""
        return await self._within(self._diff)

    async def undo(self, *, everything: bool = False) -> Undone:
        """Take back the session's last turn: every file that only its calls have changed is as before the turn.

        What somebody else may have changed stays and is named. With `everything`, it is taken back as well, also by a
        second call after one without. A second undo takes back the turn before.
        """
        return await self._within(self._recovered, self._undoing.undo, everything)

    async def redo(self, *, everything: bool = False) -> Undone:
        """Bring back the turn that was taken back last, by the same rules, until the session changes anything else."""
        return await self._within(self._recovered, self._undoing.redo, everything)

    async def files_back(self, call_ids: Collection[str]) -> FilesBack:
        """What would become of the files if everything that these calls did was taken back. Changes nothing.

        call_ids: of the agent itself, see `execution.ToolCall.own_call_id`. They may be of any session in the folder.
        """
        return await self._within(self._files_back, call_ids)

    async def rewind(self, call_ids: Collection[str], label: str, extent: Extent, preview: FilesBack) -> FilesBack:
        """Take back what these calls did. Returns what was done, and what was left.

        preview: what `files_back` has said, and the user has seen. What is another file than it was then stays. label:
        names it for `redo`, which brings all of it back together.
        """
        return await self._within(self._rewind, call_ids, label, extent, preview)

    def close(self) -> None:
        """Leave the folder."""
        self._session.close()

    async def _within(self, function: Callable[..., Result], *arguments: object) -> Result:
        async with self._lock:
            return await finished(function, *arguments)

    async def _safely(self, function: Callable[..., Result], *arguments: object) -> Result | None:
        """Run what a call must not fail for."""
        try:
            return await self._within(function, *arguments)
        except CheckpointFailed as failure:
            _log.warning("what a command changes cannot be taken back: %s", failure)
            self._session.recording_failures.append(str(failure))
            return None

    # -- what runs in a thread ---------------------------------------------------------------------------------------

    def _begin_turn(self, message: str) -> None:
        with self._session.locked() as record:
            self._windows.recover(record)
            self._windows.clean(record, self._keep)
            self._session.begin_turn(record, message)

    def _recovered(self, take_back: Callable[..., Undone], everything: bool) -> Undone:
        return self._seen(lambda record: take_back(record, everything=everything))

    def _files_back(self, call_ids: Collection[str]) -> FilesBack:
        return self._seen(lambda record: self._rewinding.files_back(record, call_ids))

    def _rewind(self, call_ids: Collection[str], label: str, extent: Extent, preview: FilesBack) -> FilesBack:
        return self._seen(lambda record: self._rewinding.rewind(record, call_ids, label, extent, preview))

    def _seen(self, work: Callable[[Record], Result]) -> Result:
        """Do something with the record when it is known what commands have changed."""
        with self._session.locked() as record:
            self._windows.recover(record)
            self._windows.compare(record)
            return work(record)

    def _diff(self) -> str:
        with self._session.locked() as record:
            self._windows.compare(record)
            turn = record.last_turn()
            return unified(record, record.changes(turn.number, ("call", "window", "end"))) if turn else ""
