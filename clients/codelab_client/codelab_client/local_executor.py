"""The executor of the command `codelab`: the package's tools in a folder, in the best sandbox that works here."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codelab_client.execution import OnOutput, ToolCall, ToolOutcome

if TYPE_CHECKING:
    from codelab_client.checkpoints import Checkpoints
    from codelab_client.tools.commands import CommandRunner
    from codelab_client.tools.dialogue import Dialogue
    from codelab_client.tools.executor import Executor
    from codelab_client.tools.workspace import DiskWorkspace

_log = logging.getLogger(__name__)

#: The tools that ask the user.
_DIALOGUE = ("apply_patch_review", "prompt_user")


class LocalExecutor:
    """Executes calls in `workspace`. It looks for a sandbox when it is first needed, because that takes a while.

    dialogue: asks the user; without it, the tools that ask are not supported. state: the folder in which checkpoints
    are kept; None: there are none. commands: runs commands, in place of the sandbox.
    """

    def __init__(
        self,
        workspace: "Path | DiskWorkspace",
        dialogue: "Dialogue | None" = None,
        state: Path | None = None,
        commands: "CommandRunner | None" = None,
    ) -> None:
        self._workspace, self._dialogue, self._state, self._commands = workspace, dialogue, state, commands
        self._making: asyncio.Task[tuple[Executor, Checkpoints | None]] | None = None
        self._waiting: set[str] = set()  # calls that the executor does not have yet
        self._turn = asyncio.Lock()
        self._has_begun = False
        #: The user's message that began the turn, which names the turn's checkpoint.
        self.label = ""

    @property
    def tools_supported(self) -> Sequence[str]:
        """The names of the tools that it executes."""
        from codelab_client.tools.arguments import ARGUMENTS

        return [name for name in ARGUMENTS if self._dialogue is not None or name not in _DIALOGUE]

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """See ToolExecutor."""
        self._waiting.add(call.call_id)
        executor, _ = await self._made()
        if call.risk != "read":
            await self.before_change(call)
        if call.call_id not in self._waiting:
            return ToolOutcome.failed("CANCELLED", "The call was cancelled before it began")
        self._waiting.discard(call.call_id)
        return await executor.execute(call, on_output)

    async def before_change(self, _: ToolCall) -> None:
        """A call of this turn may change files: make the turn's checkpoint, if it has none."""
        checkpoints = (await self._made())[1]
        if checkpoints is not None:
            await self._begin_turn(checkpoints)

    async def instructions(self) -> list[dict[str, str]]:
        """The project's instructions for agents: all AGENTS.md files."""
        return await (await self._made())[0].instructions()

    async def prepare(self) -> None:
        """Find a sandbox and the programs before the first call."""
        await self._made()

    async def end_turn(self) -> None:
        """The turn has ended: later changes are the user's."""
        from codelab_client.checkpoints import CheckpointFailed

        async with self._turn:
            checkpoints = (await self._made())[1]
            if checkpoints is not None and self._has_begun:
                self._has_begun = False
                try:
                    await checkpoints.end_turn()
                except CheckpointFailed as failed:
                    _log.warning("there is no checkpoint after the turn: %s", failed)

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
            await (await self._made())[0].aclose()

    async def _begin_turn(self, checkpoints: "Checkpoints") -> None:
        """Make the checkpoint before a turn's first change. If that fails, the call runs all the same."""
        from codelab_client.checkpoints import CheckpointFailed

        async with self._turn:
            if not self._has_begun:
                self._has_begun = True
                try:
                    await checkpoints.begin_turn(self.label)
                except CheckpointFailed as failed:
                    _log.warning("there is no checkpoint before the turn: %s", failed)

    async def _made(self) -> "tuple[Executor, Checkpoints | None]":
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make))
        return await asyncio.shield(self._making)

    def _make(self) -> "tuple[Executor, Checkpoints | None]":
        from codelab_client.checkpoints import Checkpoints
        from codelab_client.config import load
        from codelab_client.mcp.trust import Trust
        from codelab_client.sandbox import choose
        from codelab_client.tools.executor import Executor, Settings
        from codelab_client.tools.workspace import DiskWorkspace

        given = self._workspace
        workspace = DiskWorkspace(given) if isinstance(given, Path) else given
        allowed, sandbox = load(workspace.root).sandbox, choose().sandbox
        settings = Settings(
            network=allowed.network,
            readable=tuple(Path(path).expanduser() for path in allowed.readable),
            variables=allowed.variables,
            protects=Trust(self._state, workspace.root).files if self._state and workspace.root else tuple,
        )
        checkpoints = None
        if self._state is not None and not self._state.resolve().is_relative_to(workspace.root):
            checkpoints = Checkpoints(workspace, self._state, sandbox)
        before = checkpoints.before_command if checkpoints is not None else None
        made = Executor(
            workspace,
            sandbox,
            settings,
            dialogue=self._dialogue,
            commands=self._commands,
            before_command=before,
        )
        return made, checkpoints
