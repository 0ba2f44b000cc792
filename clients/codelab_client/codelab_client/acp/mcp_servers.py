"""The MCP servers of a session: those that the editor names, and those of the folder that the user trusts."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from codelab_client.acp import params as given
from codelab_client.mcp import McpError, McpTools, ServerConfig, Trust, start_trusted
from codelab_client.session.journal import state_folder

_MOST = 20
_NAME_CHARS = 32


def named_servers(params: Mapping[str, Any]) -> list[ServerConfig]:
    """`mcpServers` of a request: on stdio or streamable HTTP. Raises RpcError INVALID_PARAMS."""
    found: dict[str, ServerConfig] = {}
    for server in given.objects(params, "mcpServers", _MOST):
        name = _unique(given.text(server, "name"), found)
        if server.get("type") in (None, "stdio"):
            args = server.get("args", [])
            if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
                raise given.invalid("args of an MCP server must be a list of texts")
            command = given.text(server, "command")
            found[name] = ServerConfig(name, command, tuple(args), _pairs(server, "env"))
        elif server["type"] == "http":
            found[name] = ServerConfig(name, url=given.text(server, "url"), headers=_pairs(server, "headers"))
        else:
            raise given.invalid("MCP servers are supported on stdio and streamable HTTP only")
    return list(found.values())


class SessionServers:
    """Starts servers and keeps their tools."""

    def __init__(self, root: Path, servers: Sequence[ServerConfig]) -> None:
        self._root, self._servers = root, servers
        self.tools = McpTools(root, state_folder())

    async def start(
        self,
        declare: Callable[[], Awaitable[Mapping[str, str]]],
        say: Callable[[str], None],
        begin: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Start all servers, and declare their tools to the agent.

        say: tells the user what went wrong. begin: runs a coroutine beside the others.

        The editor's user trusts the editor's servers; those of the folder, `codelab` asks about.
        """
        trust = Trust(state_folder(), self._root)
        await asyncio.gather(
            start_trusted(self.tools, self._root, trust, None, say), *(self._add(one, say) for one in self._servers)
        )

        async def tell() -> None:
            for name, why in (await declare()).items():
                say(f"The agent does not get the tool {name}: {why}")

        if self.tools.declared_tools:
            await tell()

        def changed() -> None:
            begin(tell())

        self.tools.changed = changed

    async def _add(self, server: ServerConfig, say: Callable[[str], None]) -> None:
        try:
            await self.tools.add(server)
        except McpError as error:
            say(str(error))


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    """A name as tools can have it: an editor's may have any characters."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_NAME_CHARS]
    base = base if re.match("[A-Za-z]", base) else f"mcp_{base}"[:_NAME_CHARS]
    number, unique = 1, base
    while unique in taken:
        number += 1
        unique = f"{base[: _NAME_CHARS - 3]}_{number}"
    return unique


def _pairs(server: Mapping[str, Any], name: str) -> dict[str, str]:
    """A list of {name, value} as a mapping."""
    return {given.text(one, "name"): _value(one) for one in given.objects(server, name)}


def _value(pair: Mapping[str, Any]) -> str:
    value = pair.get("value")
    if not isinstance(value, str):
        raise given.invalid("value must be a text")
    return value
