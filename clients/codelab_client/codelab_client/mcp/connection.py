"""One MCP server: started or connected to, its tools listed, its tools called."""

import asyncio
import contextlib
import io
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client import __version__, private_folder
from codelab_client.mcp.config import McpConfigError, ServerConfig
from codelab_client.private_file import append_to
from codelab_client.session.address import is_secure
from codelab_client.tools.processes import own_path

if TYPE_CHECKING:
    from mcp import ClientSession, types

#: Seconds until a server must have listed its tools.
_START_S = 60.0
_STOP_S = 5.0
_MOST_TOOLS = 200


class McpError(Exception):
    """A server cannot be reached, or a call failed. The text says why."""


class Connection:
    """A running server. `tools` are those that it offers; `changed` is called when they become others."""

    def __init__(self, server: ServerConfig, workspace: Path, log: Path, changed: Callable[[], None]) -> None:
        self.server, self._workspace, self._log, self._changed = server, workspace, log, changed
        self.tools: Sequence[types.Tool] = ()
        self._session: ClientSession | None = None
        self._stop = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server runs, as far as is known."""
        return self._session is not None

    async def open(self) -> None:
        """Start the server and list its tools. Raises McpError."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._run(ready))
        try:
            async with asyncio.timeout(_START_S):
                await asyncio.shield(ready)
        except TimeoutError:
            await self.aclose()
            raise McpError(f"{self.server.name} is not ready after {_START_S:.0f} seconds") from None

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float | None) -> "types.CallToolResult":
        """Call a tool. Raises McpError, or TimeoutError after so many seconds."""
        if self._session is None:
            raise McpError(f"{self.server.name} is not running")
        try:
            async with asyncio.timeout(seconds):
                return await self._session.call_tool(tool, dict(arguments))
        except TimeoutError:
            raise
        except Exception as error:
            if _is_end(error):  # which nobody else notices
                self._stop.set()
            raise McpError(_told(error)) from None

    async def aclose(self) -> None:
        """Stop the server."""
        self._closing = True
        self._stop.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_STOP_S)
            self._task.cancel()
            with contextlib.suppress(BaseException):
                await self._task

    async def _run(self, ready: "asyncio.Future[None]") -> None:
        """Keep the server open until it is stopped. One task does all of it, because its scopes belong to a task."""
        try:
            async with self._connected() as session:
                await session.initialize()
                self.tools = await _listed(session)
                self._session = session
                if not ready.done():
                    ready.set_result(None)
                await self._stop.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(McpError(f"{self.server.name} does not start: {_told(error)}"))
        finally:
            self._session, self.tools = None, ()
            if not ready.done():
                ready.set_exception(McpError(f"{self.server.name} was stopped"))
            if not self._closing:
                self._changed()

    @contextlib.asynccontextmanager
    async def _connected(self) -> "AsyncIterator[ClientSession]":
        await asyncio.to_thread(__import__, "mcp")  # which takes a second
        from mcp import ClientSession, types

        async def take(message: object) -> None:
            root = getattr(message, "root", None)
            if isinstance(root, types.ToolListChangedNotification):
                self._listing = asyncio.ensure_future(self._list_again())

        info = types.Implementation(name="codelab", version=__version__)
        async with (
            self._transport() as (reading, writing),
            ClientSession(reading, writing, client_info=info, message_handler=take) as session,
        ):
            yield session

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        server = self.server.expanded()
        if server.url:
            import httpx
            from mcp.client.streamable_http import streamable_http_client

            if not is_secure(server.url):
                raise McpConfigError(f"{server.url} is not encrypted: use https://")
            timeout = httpx.Timeout(30.0, read=300.0)
            async with (
                httpx.AsyncClient(headers=dict(server.headers), timeout=timeout) as client,
                streamable_http_client(server.url, http_client=client) as (reading, writing, _),
            ):
                yield reading, writing
            return
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        # Not a program that happens to lie in the workspace, unless it is named by its path.
        command = server.command
        if os.sep not in command:
            found = shutil.which(command, path=own_path(os.environ, self._workspace))
            if found is None:
                raise McpConfigError(f"there is no program {command}")
            command = found
        parameters = StdioServerParameters(
            command=command, args=list(server.args), env=dict(server.env), cwd=self._workspace
        )
        private_folder.ensure(self._log.parent)
        with io.TextIOWrapper(append_to(self._log, empty=True), "utf-8") as log:
            async with stdio_client(parameters, errlog=log) as (reading, writing):
                yield reading, writing

    async def _list_again(self) -> None:
        if self._session is not None:
            with contextlib.suppress(Exception):
                self.tools = await _listed(self._session)
                self._changed()


async def _listed(session: "ClientSession") -> "Sequence[types.Tool]":
    from mcp import types

    tools: list[types.Tool] = []
    cursor = None
    while len(tools) < _MOST_TOOLS:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.nextCursor
        if not cursor or not page.tools:
            break
    return tools[:_MOST_TOOLS]


def _is_end(error: Exception) -> bool:
    """Whether the server has ended."""
    import anyio
    from mcp import types
    from mcp.shared.exceptions import McpError as Answer

    if isinstance(error, Answer):
        return error.error.code == types.CONNECTION_CLOSED
    return isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError)


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return (str(error) or type(error).__name__)[:500]
