"""Tools besides those of the catalogue, which the client declares in `hello`: skills, and tools of MCP servers."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from codelab_client.execution import DeclaredTool, OnOutput, ToolCall, ToolExecutor, ToolOutcome


class ToolSource(Protocol):
    """Some tools of the client's own."""

    @property
    def declared_tools(self) -> Sequence[DeclaredTool]:
        """The tools that it has now."""
        ...

    async def execute(self, call: ToolCall) -> ToolOutcome:
        """Execute a call of one of them. It may be cancelled."""
        ...

    async def aclose(self) -> None:
        """Stop everything that it has started."""
        ...


class WithOwnTools:
    """A `ToolExecutor` that executes the tools of another executor and of further sources.

    around: entered around a call of a source's tool that may change something.
    """

    def __init__(
        self,
        executor: ToolExecutor,
        sources: Sequence[ToolSource],
        around: Callable[[ToolCall], AbstractAsyncContextManager[None]] | None = None,
    ) -> None:
        self._executor, self._sources, self._around = executor, sources, around
        self._running: dict[str, asyncio.Task[ToolOutcome]] = {}

    @property
    def tools_supported(self) -> Sequence[str]:
        """See ToolExecutor."""
        return [*self._executor.tools_supported, *(tool.name for tool in self.declared_tools)]

    @property
    def declared_tools(self) -> Sequence[DeclaredTool]:
        """See DeclaresTools."""
        return [tool for source in self._sources for tool in source.declared_tools]

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """See ToolExecutor."""
        own_tool = self._found(call.tool_name)
        if own_tool is None:
            return await self._executor.execute(call, on_output)
        source, tool = own_tool
        task = self._running[call.call_id] = asyncio.ensure_future(self._execute(source, tool, call))
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            del self._running[call.call_id]
        return ToolOutcome.failed("CANCELLED", "The call was cancelled") if task.cancelled() else task.result()

    async def cancel(self, call_id: str) -> None:
        """See ToolExecutor."""
        task = self._running.get(call_id)
        if task is None:
            await self._executor.cancel(call_id)
        else:
            task.cancel()
            await asyncio.wait({task})

    async def aclose(self) -> None:
        """See ToolExecutor."""
        await asyncio.gather(*map(self.cancel, list(self._running)))
        for source in self._sources:
            await source.aclose()
        await self._executor.aclose()

    def _found(self, name: str) -> tuple[ToolSource, DeclaredTool] | None:
        if name in self._executor.tools_supported:  # The server lets nobody declare it, and its approval is another.
            return None
        for source in self._sources:
            for tool in source.declared_tools:
                if tool.name == name:
                    return source, tool
        return None

    async def _execute(self, source: ToolSource, tool: DeclaredTool, call: ToolCall) -> ToolOutcome:
        async with self._around(call) if self._around is not None and not tool.read_only else nullcontext():
            return await source.execute(call)
