"""The MCP servers of a session: those that the editor names, and those of the folder that the user trusts."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from codelab_client.acp import params as given
from codelab_client.acp.tool_calls import fenced
from codelab_client.mcp import (
    McpConfigError,
    McpError,
    McpTools,
    ServerConfig,
    Subject,
    question,
    start,
    start_trusted,
    workspace_servers,
)
from codelab_client.safe_text import safe, safe_line
from codelab_client.session.journal import state_folder

_MOST = 20
_NAME_CHARS = 32


def named_servers(params: Mapping[str, Any]) -> list[ServerConfig]:
    """`mcpServers` of a request: on stdio or streamable HTTP. Raises RpcError INVALID_PARAMS."""
    servers: dict[str, ServerConfig] = {}
    for server in given.objects(params, "mcpServers", _MOST):
        name = _unique(given.text(server, "name"), servers)
        if server.get("type") in (None, "stdio"):
            args = server.get("args", [])
            if not isinstance(args, list) or not all(isinstance(argument, str) for argument in args):
                raise given.invalid("args of an MCP server must be a list of texts")
            command = given.text(server, "command")
            servers[name] = ServerConfig(name, command, tuple(args), _pairs(server, "env"))
        elif server["type"] == "http":
            servers[name] = ServerConfig(name, url=given.text(server, "url"), headers=_pairs(server, "headers"))
        else:
            raise given.invalid("MCP servers are supported on stdio and streamable HTTP only")
    return list(servers.values())


class SessionServers:
    """Starts servers and keeps their tools."""

    def __init__(self, root: Path, servers: Sequence[ServerConfig]) -> None:
        self._root, self._servers = root, servers
        self.tools = McpTools(root, state_folder())
        self._starting: asyncio.Future[None] | None = None

    async def start(
        self,
        declare: Callable[[], Awaitable[Mapping[str, str]]],
        say: Callable[[str], None],
        begin: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Start all servers, and declare their tools to the agent.

        say: tells the user what went wrong. begin: runs a coroutine beside the others.

        The editor's user trusts the editor's servers, as they are when they are first seen; about those of the folder,
        and about what has changed, the command `/mcp` decides.
        """
        self.tools.say = say
        names = {server.name.casefold() for server in self._servers}
        await asyncio.gather(
            start_trusted(self.tools, self._root, None, say, names),
            *(self._add(server, say) for server in self._servers),
        )

        async def tell() -> None:
            for name, reason in (await declare()).items():
                say(f"The agent does not get the tool {name}: {reason}")

        if self.tools.declared_tools:
            await tell()

        def changed() -> None:
            begin(tell())

        self.tools.on_change = changed

    async def command(self, text: str) -> str:
        """`/mcp`, `/mcp NAME`, and `trust NAME CODE`, `start NAME` or `tools NAME [NAMES]`, in words for the user."""
        verb, *words = [*text.split(), ""]
        try:
            if verb == "trust":
                return await self._trust(*[*words, ""][:2])
            if verb == "start":
                return await self._started(words[0])
            if verb == "tools":
                return safe(self.tools.choice(words[0], [word for word in words[1:] if word]))
            return await self._shown(verb) if verb else self._listed()
        except (McpError, McpConfigError) as error:
            return safe(error)

    async def _add(self, server: ServerConfig, say: Callable[[str], None]) -> None:
        try:
            subject = await self._subject(server)
            if self.tools.trust.decision(subject) is None and not self.tools.trust.knows(server):
                self.tools.trust.decide(subject, "trusted")
            if self.tools.trust.decision(subject) != "trusted":
                raise McpError(f"{server.name} is not started: what it runs has changed. /mcp {server.name} shows it")
            await self.tools.add(subject.server)
            if not self.tools.knows_tools(server.name):
                self.tools.trust_tools(self.tools.offer(server.name))
            elif self.tools.offer(server.name).names:
                name = server.name
                say(f"{name} has other tools than before; they ask before each call. /mcp {name} shows them")
        except (McpError, McpConfigError) as error:
            say(str(error))

    async def _subject(self, server: ServerConfig) -> Subject:
        """A server as it is now. One that runs files of the workspace is for the sandbox: commands can change them."""
        subject = await asyncio.to_thread(self.tools.trust.subject, server)
        if server.sandboxed or not subject.files.listed():
            return subject
        inside = replace(server, sandboxed=True, writable=True)
        return await asyncio.to_thread(self.tools.trust.subject, inside)

    def _known(self) -> dict[str, ServerConfig]:
        own_servers = {server.name: server for server in self._servers}
        own_names = {name.casefold() for name in own_servers}
        workspace_only = (server for server in workspace_servers(self._root) if server.name.casefold() not in own_names)
        return {**own_servers, **{server.name: server for server in workspace_only}}

    def _listed(self) -> str:
        running = self.tools.servers
        states = {
            name: f"runs: {', '.join(running[name])}" if name in running else f"does not run: `/mcp {name}`"
            for name in self._known()
        }
        lines = [f"- {name} {safe_line(state, 500)}" for name, state in states.items()]
        untrusted_names = [name for name in states if self.tools.offer(name).names]
        lines += [f"- {name} has tools that you do not trust: `/mcp {name}`" for name in untrusted_names]
        return "\n".join(lines) or "There are no MCP servers."

    async def _shown(self, name: str) -> str:
        if name not in self._known():
            return f"There is no MCP server {safe_line(name)}."
        if name in self.tools.servers:
            offer = self.tools.offer(name)
            description, code = offer.description, _code(*offer.digests) if offer.names else ""
        else:
            subject = await self._subject(self._known()[name])
            description, code = await question(subject, self._root), _code(subject.key)
        decides = f"\n`/mcp trust {name} {code}` trusts it as it is." if code else ""
        return f"{fenced(safe(description))}{decides}"

    async def _started(self, name: str) -> str:
        """Start a trusted server, at which the user may have to sign in."""
        if name not in self._known():
            return f"There is no MCP server {safe_line(name)}."
        subject = await self._subject(self._known()[name])
        if self.tools.trust.decision(subject) != "trusted":
            return f"{name} is not trusted as it is: `/mcp {name}` shows it."

        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def show(_: str, url: str) -> bool:
            if not address.done():
                address.set_result(url)
            return True

        self.tools.sign_in = show
        starting = self._starting = asyncio.ensure_future(start(self.tools, subject, None, self.tools.say))
        starting.add_done_callback(lambda _: setattr(self.tools, "sign_in", None))
        either: set[asyncio.Future[Any]] = {starting, address}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            return f"{name} runs."
        starting.add_done_callback(self._tell_why_not)
        url = safe_line(address.result(), 4_000)
        return f"{name} wants you to sign in. Open this in a browser of this machine, and then see `/mcp`:\n\n{url}"

    def _tell_why_not(self, starting: "asyncio.Future[None]") -> None:
        if not starting.cancelled() and (error := starting.exception()) is not None:
            self.tools.say(str(error))

    async def _trust(self, name: str, code: str) -> str:
        """Trust what `/mcp NAME` showed with this code."""
        if name not in self._known():
            return f"There is no MCP server {safe_line(name)}."
        offer = self.tools.offer(name)
        if offer.digests and code == _code(*offer.digests):
            self.tools.trust_tools(offer)
            return f"The tools of {name} are trusted as they are."
        subject = await self._subject(self._known()[name])
        if name in self.tools.servers or code != _code(subject.key):
            return f"That is not what {name} is now: `/mcp {name}` shows it."
        self.tools.trust.decide(subject, "trusted")
        await start(self.tools, subject, None, self.tools.say)
        return f"{name} is trusted as it is, and runs."


def _code(*digests: str) -> str:
    """A short code for what was shown."""
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:8]


def _unique(name: str, used_names: Mapping[str, Any]) -> str:
    """A name as tools can have it: an editor's may have any characters."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_NAME_CHARS]
    base = base if re.match("[A-Za-z]", base) else f"mcp_{base}"[:_NAME_CHARS]
    number, unique = 1, base
    while unique in used_names:
        number += 1
        unique = f"{base[: _NAME_CHARS - 3]}_{number}"
    return unique


def _pairs(server: Mapping[str, Any], name: str) -> dict[str, str]:
    """A list of {name, value} as a mapping."""
    return {given.text(pair, "name"): _value(pair) for pair in given.objects(server, name)}


def _value(pair: Mapping[str, Any]) -> str:
    value = pair.get("value")
    if not isinstance(value, str):
        raise given.invalid("value must be a text")
    return value
