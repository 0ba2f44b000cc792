"""The executor of the command `codelab`: the package's tools in a folder, in the best sandbox that works here."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client import project
from codelab_client.execution import OnOutput, ToolCall, ToolOutcome

if TYPE_CHECKING:
    from codelab_client.checkpoints import Checkpoints
    from codelab_client.session import events as on
    from codelab_client.tools.commands import CommandRunner
    from codelab_client.tools.dialogue import Dialogue
    from codelab_client.tools.executor import Executor
    from codelab_client.tools.expectations import Expectations
    from codelab_client.tools.workspace import DiskWorkspace

_log = logging.getLogger(__name__)

#: The tools that ask the user.
_DIALOGUE = ("apply_patch_review", "prompt_user")
_CHANGED = (
    "The command was approved because the user has allowed it before. Before it began, what it depends on changed, or "
    "another call was running that may change it, so it was not executed. Call it again alone: the user is asked."
)


class LocalExecutor:
    """Executes calls in `workspace`. It looks for a sandbox when it is first needed, because that takes a while.

    dialogue: asks the user; without it, the tools that ask are not supported. state: the folder that keeps what calls
    change; None: nothing can be taken back. commands: runs commands, in place of the sandbox. session: the
    conversation, of which `/undo` takes back the turns. other_folders: those that calls and commands can
    only read, by name (see `folders`).
    """

    def __init__(
        self,
        workspace: "Path | DiskWorkspace",
        dialogue: "Dialogue | None" = None,
        state: Path | None = None,
        commands: "CommandRunner | None" = None,
        *,
        session: str = "",
        other_folders: "Mapping[str, DiskWorkspace] | None" = None,
    ) -> None:
        self._workspace_or_path, self._dialogue, self._state, self._commands = workspace, dialogue, state, commands
        self._session, self._other_folders = session, other_folders or {}
        self._making: asyncio.Task[tuple[Executor, Checkpoints | None]] | None = None
        self._waiting: set[str] = set()  # calls that the executor does not have yet
        self._turn = asyncio.Lock()
        self._has_begun = False
        #: The user's message that began the turn, which names the turn's checkpoint.
        self.label = ""
        #: Whether a call that may change any file may begin, by its id: asked last, just before it does.
        self.may_begin: Callable[[str], Awaitable[bool]] | None = None

    @functools.cached_property
    def workspace(self) -> "DiskWorkspace":
        """The folder."""
        from codelab_client.tools.workspace import DiskWorkspace

        return (
            DiskWorkspace(self._workspace_or_path)
            if isinstance(self._workspace_or_path, Path)
            else self._workspace_or_path
        )

    @functools.cached_property
    def expectations(self) -> "Expectations":
        """What the model knows of the files, and the user has seen of the calls."""
        from codelab_client.tools.expectations import Expectations

        return Expectations()

    def showing(self, call: "on.ToolCall") -> AbstractContextManager[None]:
        """While a call is being shown to the user: the approval is about the files as they are then."""
        from codelab_client.tools.expectations import showing

        fingerprint = self.workspace.tree.fingerprint
        return showing(self.expectations, call.call_id, call.tool_name, call.arguments or {}, fingerprint)

    def note_edit(self, call: "on.ToolCall", arguments: Mapping[str, Any]) -> None:
        """The user has given a call other arguments, which may name other files."""
        from codelab_client.tools.expectations import view

        self.expectations.note_edit(call.call_id, view(call.tool_name, arguments, self.workspace.tree.fingerprint))

    @property
    def tools_supported(self) -> Sequence[str]:
        """The names of the tools that it executes."""
        from codelab_client.tools.arguments import ARGUMENTS

        return [name for name in ARGUMENTS if self._dialogue is not None or name not in _DIALOGUE]

    @property
    def confines_commands(self) -> bool:
        """Whether it is known that a sandbox holds whatever a command does (see `Executor.confines_commands`)."""
        executor = self._executor
        return executor is not None and executor.confines_commands

    @property
    def has_processes(self) -> bool:
        """Whether something still runs that run_persistent has started."""
        executor = self._executor
        return executor is not None and executor.has_processes

    @property
    def _executor(self) -> "Executor | None":
        """The executor, if there is one by now."""
        making = self._making
        if making is None or not making.done() or making.cancelled() or making.exception() is not None:
            return None
        return making.result()[0]

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """See ToolExecutor."""
        self._waiting.add(call.call_id)
        executor, _ = await self._made()
        if call.risk != "read":
            await self._begin_turn()
        if call.call_id not in self._waiting:
            return ToolOutcome.failed("CANCELLED", "The call was cancelled before it began")
        self._waiting.discard(call.call_id)
        return await executor.execute(call, on_output)

    @asynccontextmanager
    async def around_change(self, call: ToolCall) -> AsyncIterator[None]:
        """Around a call of another's tool, which may change any file."""
        checkpoints = await self._begin_turn()
        if checkpoints is None:
            yield
            return
        async with checkpoints.around(call):
            yield

    @asynccontextmanager
    async def _around(self, checkpoints: "Checkpoints | None", call: ToolCall) -> AsyncIterator[None]:
        """Around a command. Raises ToolFailure for one that may not begin any more."""
        from codelab_client.tools.failure import ToolFailure

        async with nullcontext() if checkpoints is None else checkpoints.around(call):
            if self.may_begin is not None and not await self.may_begin(call.call_id):
                raise ToolFailure("PERMISSION_DENIED", _CHANGED)
            yield

    async def about(self) -> tuple[list[dict[str, str]], dict[str, str]]:
        """What the model is told of the folder: the project's instructions (AGENTS.md files), and where calls run."""
        executor, _ = await self._made()
        return await asyncio.gather(executor.instructions(), executor.environment())

    async def situation(self) -> dict[str, str]:
        """How things stand there as a message is sent, for the model; nothing if calls cannot be executed."""
        try:
            executor, _ = await self._made()
        except Exception as error:  # A message needs none, and whoever needs one tells the user.
            _log.warning("the model is told nothing of the folder: %s", error)
            return {}
        return await executor.situation()

    async def prepare(self) -> None:
        """Find a sandbox and the programs before the first call."""
        await self._made()

    async def end_turn(self) -> None:
        """The turn has ended: later changes are the user's."""
        async with self._turn:
            checkpoints = (await self._made())[1]
            if checkpoints is not None and self._has_begun:
                self._has_begun = False
                await checkpoints.end_turn()

    async def checkpoints(self) -> "Checkpoints | None":
        """The checkpoints of the workspace, if there are any."""
        return (await self._made())[1]

    async def cancel(self, call_id: str) -> None:
        """See ToolExecutor."""
        if call_id in self._waiting:
            self._waiting.discard(call_id)
        elif self._making is not None:
            await (await self._made())[0].cancel(call_id)

    async def aclose(self) -> None:
        """See ToolExecutor."""
        if self._making is not None:
            executor, checkpoints = await self._made()
            await executor.aclose()
            if checkpoints is not None:
                await checkpoints.end_turn()
                checkpoints.close()

    async def _begin_turn(self) -> "Checkpoints | None":
        """Begin a turn in the record before its first change. If that fails, the call runs all the same."""
        from codelab_client.checkpoints import CheckpointFailed

        checkpoints = (await self._made())[1]
        if checkpoints is None:
            return None
        async with self._turn:
            if not self._has_begun:
                self._has_begun = True
                try:
                    await checkpoints.begin_turn(self.label)
                except CheckpointFailed as failure:
                    _log.warning("the turn cannot be taken back: %s", failure)
        return checkpoints

    async def _made(self) -> "tuple[Executor, Checkpoints | None]":
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make))
        return await asyncio.shield(self._making)

    def _make(self) -> "tuple[Executor, Checkpoints | None]":
        from codelab_client.checkpoints import Checkpoints
        from codelab_client.config import load
        from codelab_client.sandbox import choose
        from codelab_client.tools.executor import Executor, Settings
        from codelab_client.trust import TrustFile

        workspace = self.workspace
        allowed, sandbox = load(workspace.root).sandbox, choose().sandbox
        trusted_files = TrustFile(self._state, workspace.root).files if self._state and workspace.root else tuple
        settings = Settings(
            network=allowed.network,
            readable=(
                *(Path(path).expanduser() for path in allowed.readable),
                *(folder.root for folder in self._other_folders.values()),
            ),
            variables=allowed.variables,
            protects=lambda: [*trusted_files(), *project.files_of(workspace.root)] if workspace.root else (),
        )
        checkpoints = None
        if self._state is not None and not self._state.resolve().is_relative_to(workspace.root):
            checkpoints = Checkpoints(workspace, self._state, sandbox, self._session)
            workspace.recorder = checkpoints.recorder
        executor = Executor(
            workspace,
            sandbox,
            settings,
            dialogue=self._dialogue,
            commands=self._commands,
            around=functools.partial(self._around, checkpoints),
            expectations=self.expectations,
            other_folders=self._other_folders,
        )
        return executor, checkpoints
