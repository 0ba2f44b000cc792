"""The tools of MCP servers as the client's own."""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client.execution import DeclaredTool, ToolCall, ToolOutcome
from codelab_client.mcp.config import ServerConfig
from codelab_client.mcp.connection import Connection, McpError

if TYPE_CHECKING:
    from mcp import types

#: Characters of a result that the agent gets.
_MOST_CHARS = 200_000
_DESCRIBED = 2_000
_NAME_CHARS = 64
#: Before a call's deadline (seconds), so that its outcome arrives in time.
_MARGIN_S = 2.0
_WRONG = re.compile(r"[^A-Za-z0-9_.-]")


class McpTools:
    """The tools of the servers that were added (a `ToolSource`). A tool's name is `SERVER.TOOL`.

    Whoever adds a server has asked the user first. workspace: the folder in which programs run. state: the folder of
    their logs. changed: called when there are other tools: declare them again.
    """

    def __init__(self, workspace: Path, state: Path, changed: Callable[[], None] = lambda: None) -> None:
        self._workspace, self._state, self.changed = workspace, state, changed
        self._connections: dict[str, Connection] = {}

    async def add(self, server: ServerConfig) -> None:
        """Start a server, or start it again, and offer its tools. Raises McpError."""
        await self.remove(server.name)
        log = self._state / f"mcp-{server.name}.log"
        connection = Connection(server, self._workspace, log, lambda: self.changed())
        self._connections[server.name] = connection
        try:
            await connection.open()
        except BaseException:
            self._connections.pop(server.name, None)
            with contextlib.suppress(asyncio.CancelledError):
                await connection.aclose()
            raise
        self.changed()

    async def remove(self, name: str) -> None:
        """Stop a server, if it runs."""
        connection = self._connections.pop(name, None)
        if connection is not None:
            await connection.aclose()
            self.changed()

    @property
    def servers(self) -> dict[str, list[str]]:
        """The names of the servers that run, each with the names of its tools."""
        return {
            name: [tool.name for tool in connection.tools]
            for name, connection in self._connections.items()
            if connection.is_open
        }

    @property
    def declared_tools(self) -> Sequence[DeclaredTool]:
        """See ToolSource."""
        return [_declared(name, tool) for name, connection in self._connections.items() for tool in connection.tools]

    async def execute(self, call: ToolCall) -> ToolOutcome:
        """See ToolSource."""
        for name, connection in self._connections.items():
            for tool in connection.tools:
                if _full_name(name, tool.name) == call.tool_name:
                    return await _called(connection, tool.name, call)
        return ToolOutcome.failed("TOOL_NOT_FOUND", f"The server of {call.tool_name} does not run any more")

    async def aclose(self) -> None:
        """Stop all servers."""
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(connection.aclose() for connection in connections))


async def _called(connection: Connection, tool: str, call: ToolCall) -> ToolOutcome:
    seconds = None if call.deadline is None else max(0.1, call.deadline / 1000 - time.time() - _MARGIN_S)
    try:
        result = await connection.call(tool, call.arguments, seconds)
    except TimeoutError:
        return ToolOutcome.failed("TIMEOUT", "The server did not answer in time")
    except McpError as error:
        return ToolOutcome.failed("EXECUTION_FAILED", str(error))
    text = _text(result.content)
    if result.isError:
        return ToolOutcome.failed("EXECUTION_FAILED", text or "The server says that the call failed")
    if not text and result.structuredContent is not None:
        return ToolOutcome(result.structuredContent)
    return ToolOutcome({"content": text})


def _text(content: "Sequence[types.ContentBlock]") -> str:
    """The content as text; what is no text is named."""
    pieces = []
    for block in content:
        fields: Any = block
        if block.type == "text":
            pieces.append(fields.text)
        elif block.type == "resource" and hasattr(fields.resource, "text"):
            pieces.append(fields.resource.text)
        elif block.type == "resource_link":
            pieces.append(str(fields.uri))
        else:
            pieces.append(f"[{block.type}]")
    text = "\n".join(pieces)
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}\n[{len(text) - _MOST_CHARS:,} more characters]"


def _declared(server: str, tool: "types.Tool") -> DeclaredTool:
    annotations = tool.annotations
    return DeclaredTool(
        _full_name(server, tool.name),
        (tool.description or tool.title or tool.name)[:_DESCRIBED],
        tool.inputSchema,
        read_only=bool(annotations and annotations.readOnlyHint),
    )


def _full_name(server: str, tool: str) -> str:
    return f"{server}.{_WRONG.sub('_', tool)}"[:_NAME_CHARS]
