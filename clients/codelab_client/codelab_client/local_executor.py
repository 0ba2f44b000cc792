"""The executor of the command `codelab`: the package's tools in a folder, in the best sandbox that works here."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codelab_client.execution import OnOutput, ToolCall, ToolOutcome

if TYPE_CHECKING:
    from codelab_client.tools.dialogue import Dialogue
    from codelab_client.tools.executor import Executor

#: The tools that ask the user.
_DIALOGUE = ("apply_patch_review", "prompt_user")


class LocalExecutor:
    """Executes calls in `workspace`. It looks for a sandbox when it is first needed, because that takes a while.

    dialogue: asks the user; without it, the tools that ask are not supported. before_change: awaited before every
    command and every change of files, for a checkpoint.
    """

    def __init__(
        self,
        workspace: Path,
        dialogue: "Dialogue | None" = None,
        before_change: Callable[[ToolCall], Awaitable[None]] | None = None,
    ) -> None:
        self._workspace, self._dialogue, self._before_change = workspace, dialogue, before_change
        self._making: asyncio.Task[Executor] | None = None
        self._waiting: set[str] = set()  # calls that the executor does not have yet

    @property
    def tools_supported(self) -> Sequence[str]:
        """The names of the tools that it executes."""
        from codelab_client.tools.arguments import ARGUMENTS

        return [name for name in ARGUMENTS if self._dialogue is not None or name not in _DIALOGUE]

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """See ToolExecutor."""
        self._waiting.add(call.call_id)
        executor = await self.prepare()
        if self._before_change is not None and call.risk == "write":
            await self._before_change(call)
        if call.call_id not in self._waiting:
            return ToolOutcome.failed("CANCELLED", "The call was cancelled before it began")
        self._waiting.discard(call.call_id)
        return await executor.execute(call, on_output)

    async def prepare(self) -> "Executor":
        """Find a sandbox and the programs, once."""
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make))
        return await asyncio.shield(self._making)

    def _make(self) -> "Executor":
        from codelab_client.sandbox import choose
        from codelab_client.tools.executor import Executor
        from codelab_client.tools.workspace import DiskWorkspace

        return Executor(
            DiskWorkspace(self._workspace),
            choose().sandbox,
            dialogue=self._dialogue,
            before_command=self._before_change,
        )

    async def cancel(self, call_id: str) -> None:
        """See ToolExecutor."""
        if call_id in self._waiting:
            self._waiting.discard(call_id)
        elif self._making is not None:
            await (await asyncio.shield(self._making)).cancel(call_id)

    async def aclose(self) -> None:
        """See ToolExecutor."""
        if self._making is not None:
            await (await asyncio.shield(self._making)).aclose()
