"""Tools besides those of the catalogue, which the client declares in `hello`: skills, and tools of MCP servers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from codelab_client import find_tool
from codelab_client.execution import DeclaredTool, OnOutput, ToolCall, ToolExecutor, ToolOutcome
from codelab_client.session.errors import SessionError

#: Seconds until the server must know the tools that were found.
_DECLARED_S = 20.0


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

    If these have more tools than the server takes, the agent finds the rest with `find_tool`.

    around: entered around a call of a source's tool that may change something.
    """

    def __init__(
        self,
        executor: ToolExecutor,
        sources: Sequence[ToolSource],
        around: Callable[[ToolCall], AbstractAsyncContextManager[None]] | None = None,
    ) -> None:
        self._executor, self._sources, self._around = executor, sources, around
        #: See OffersMoreTools. Until there is one, nothing can be found.
        self.declare: Callable[[], Awaitable[Mapping[str, str]]] | None = None
        self._found_tools = find_tool.FoundTools()
        self._running: dict[str, asyncio.Task[ToolOutcome]] = {}

    @property
    def tools_supported(self) -> Sequence[str]:
        """See ToolExecutor."""
        return [*self._executor.tools_supported, *(tool.name for tool in self.declared_tools)]

    @property
    def declared_tools(self) -> Sequence[DeclaredTool]:
        """See DeclaresTools."""
        return self._found_tools.all([tool for source in self._sources for tool in source.declared_tools])

    @property
    def offered_tools(self) -> Sequence[DeclaredTool]:
        """See OffersMoreTools."""
        return self._found_tools.offered(self.declared_tools)

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        """See ToolExecutor."""
        if (own_tool := self._found(call.tool_name)) is not None:
            work = self._execute(*own_tool, call)
        elif call.tool_name == find_tool.NAME:
            work = self._find(call)
        else:
            return await self._executor.execute(call, on_output)
        task = self._running[call.call_id] = asyncio.ensure_future(work)
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

    async def _find(self, call: ToolCall) -> ToolOutcome:
        """Have the session declare the tools that the agent wants."""
        if self.declare is None:
            return ToolOutcome.failed("TOOL_NOT_FOUND", "No tools can be found here")
        tools = self.declared_tools
        matches = self._found_tools.find(str(call.arguments.get("need", "")), tools)
        if matches:
            try:
                async with asyncio.timeout(_DECLARED_S):
                    left_out = await self.declare()
            except TimeoutError:
                return ToolOutcome.failed("TIMEOUT", "The tools that were found could not be declared; ask again")
            except SessionError as error:
                return ToolOutcome.failed("EXECUTION_FAILED", f"The tools that were found were not declared: {error}")
            callable_names = {tool.name for tool in self.offered_tools} - left_out.keys()
            matches = [tool for tool in matches if tool.name in callable_names]
        return ToolOutcome(find_tool.result(matches, tools))

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
