"""The tools of MCP servers as the client's own."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client.execution import DeclaredTool, ToolCall, ToolOutcome
from codelab_client.mcp.config import McpConfigError, ServerConfig
from codelab_client.mcp.connection import Ask, Connection, McpError
from codelab_client.mcp.offered import OfferedTool, described
from codelab_client.mcp.sign_in import Show
from codelab_client.mcp.trust import Subject, Trust
from codelab_client.safe_text import safe_line

if TYPE_CHECKING:
    from mcp import types

#: Characters of a result that the agent gets.
_MOST_CHARS = 200_000
#: Images of a result that the agent gets.
_MOST_IMAGES = 4
#: Before a call's deadline (seconds), so that its outcome arrives in time.
_MARGIN_S = 2.0


@dataclass(frozen=True)
class Offer:
    """The tools of a running server, which the user can look at and trust. names: of those that are not trusted yet.

    description: all that the user needs to know before.
    """

    server: str
    digests: frozenset[str]
    names: tuple[str, ...]
    description: str


class McpTools:
    """The tools of the servers that were added (a `ToolSource`). A tool's name is `SERVER.TOOL`.

    Whoever adds a server has asked the user first. What a server says of a tool, that it only reads above all, counts
    as long as the tool is exactly the one that the user trusts; until then it is a tool that may change things.

    workspace: the folder in which programs run. state: the folder of their logs, and of what the user trusts.
    on_change: called when there are other tools: declare them again. say: tells the user what a server has changed or
    does wrong.
    """

    def __init__(self, workspace: Path, state: Path, on_change: Callable[[], None] = lambda: None) -> None:
        self._workspace, self._state, self.on_change = workspace, state, on_change
        self.say: Callable[[str], None] = lambda _: None
        #: Lets servers ask the user, from their start on.
        self.ask: Ask | None = None
        #: Lets the user sign in at a server that is being started.
        self.sign_in: Show | None = None
        self.trust = Trust(state, workspace)
        self._connections: dict[str, Connection] = {}
        self._subjects: dict[str, Subject] = {}
        #: What the user trusts of each server.
        self._trusted_digests: dict[str, frozenset[str]] = {}
        #: The tools that the user wants of each server, by patterns; all without any.
        self._patterns: dict[str, tuple[str, ...]] = {}
        #: What the user was told: servers whose tools have changed, and names that several tools have.
        self._reported_names: set[str] = set()
        self._tools: dict[str, OfferedTool] = {}
        #: Servers that have crashed and were started again, which happens once, and those tasks.
        self._restarted: dict[str, asyncio.Task[None]] = {}

    async def add(self, server: ServerConfig) -> None:
        """Start a server, or start it again, and offer its tools. Raises McpError."""
        if (restart := self._restarted.pop(server.name, None)) is not None:
            await _stopped(restart)
        await self._start(server)

    async def _start(self, server: ServerConfig) -> None:
        await self.remove(server.name)
        subject = await asyncio.to_thread(self.trust.subject, server)
        if any(name != server.name and name.casefold() == server.name.casefold() for name in self._connections):
            raise McpError(f"{server.name} is not started: another server has this name")
        self._subjects[server.name] = subject
        self._trusted_digests[server.name] = self.trust.tools(subject) or frozenset()
        self._patterns[server.name] = self.trust.chosen(subject)
        log = self._state / f"mcp-{server.name}.log"
        connection = Connection(
            server, self._workspace, log, lambda: self._have_changed(server.name), self.ask, self.sign_in
        )
        self._connections[server.name] = connection
        try:
            await connection.open()
        except BaseException:
            self._connections.pop(server.name, None)
            with contextlib.suppress(asyncio.CancelledError):
                await connection.aclose()
            raise
        self._look_again()

    async def remove(self, name: str) -> None:
        """Stop a server, if it runs."""
        connection = self._connections.pop(name, None)
        if connection is not None:
            await connection.aclose()
            self._look_again()

    @property
    def servers(self) -> dict[str, list[str]]:
        """The names of the servers that run, each with the names of those of its tools that the user wants."""
        return {
            name: [tool.name for tool in connection.tools if _is_chosen(tool.name, self._patterns[name])]
            for name, connection in self._connections.items()
            if connection.is_open
        }

    def revision(self, name: str) -> str:
        """The revision of MCP that a running server and the client have agreed on; empty if it does not run."""
        connection = self._connections.get(name)
        return connection.revision if connection is not None else ""

    def offer(self, name: str) -> Offer:
        """What a server offers now; nothing if it does not run."""
        tools = [tool for tool in self._tools.values() if tool.server == name]
        untrusted_names = tuple(tool.name for tool in tools if tool.digest not in self._trusted_digests.get(name, ()))
        return Offer(name, frozenset(tool.digest for tool in tools), untrusted_names, described(tools))

    def knows_tools(self, name: str) -> bool:
        """Whether the user has ever decided about the tools of a server as it is."""
        return self.trust.tools(self._subjects[name]) is not None

    def trust_tools(self, offer: Offer) -> None:
        """The user trusts these tools of a server, and no others any more."""
        if (subject := self._subjects.get(offer.server)) is None:
            return
        self.trust.trust_tools(subject, offer.digests)
        self._trusted_digests[offer.server] = offer.digests
        self._reported_names.discard(offer.server)
        self._look_again()

    def choice(self, name: str, patterns: Sequence[str] = ()) -> str:
        """Offer those tools of a running server alone whose names match a pattern (`get_*`), from now on; `*`: all.

        Without patterns nothing is changed. Returns which are offered and which are not, for the user. Raises McpError.
        """
        connection = self._connections.get(name)
        if connection is None or not connection.is_open:
            raise McpError(f"{name} does not run: /mcp lists those that do")
        names = [tool.name for tool in connection.tools]
        if patterns:
            if not any(_is_chosen(tool, patterns) for tool in names):
                raise McpError(f"No tool of {name} matches. It has: {', '.join(names)}")
            self._patterns[name] = () if "*" in patterns else tuple(patterns)
            self.trust.choose(self._subjects[name], self._patterns[name])
            self._look_again()
        chosen_names = [tool for tool in names if _is_chosen(tool, self._patterns[name])]
        other_names = [tool for tool in names if tool not in chosen_names]
        exceptions = f", and not {', '.join(other_names)}" if other_names else ""
        return f"Of {name} the agent gets {', '.join(chosen_names)}{exceptions}"

    @property
    def declared_tools(self) -> Sequence[DeclaredTool]:
        """See ToolSource."""
        return [self._declared(tool) for tool in self._tools.values()]

    async def execute(self, call: ToolCall) -> ToolOutcome:
        """See ToolSource."""
        restarts = [task for task in self._restarted.values() if not task.done()]
        if call.tool_name not in self._tools and restarts:  # it may be back in a moment
            await asyncio.wait(restarts)
        tool = self._tools.get(call.tool_name)
        connection = self._connections.get(tool.server) if tool is not None else None
        if tool is None or connection is None or not connection.is_open:
            return ToolOutcome.failed("TOOL_NOT_FOUND", f"The server of {call.tool_name} does not run any more")
        if call.risk == "read" and not self._declared(tool).read_only:  # Nobody was asked about this call.
            reason = f"{call.tool_name} has just become another tool than the user trusts. Call it again if you need it"
            return ToolOutcome.failed("EXECUTION_FAILED", reason)
        return await _called(connection, tool.tool.name, call)

    async def aclose(self) -> None:
        """Stop all servers."""
        restarts, self._restarted = list(self._restarted.values()), {}
        await asyncio.gather(*map(_stopped, restarts))
        connections, self._connections = list(self._connections.values()), {}
        self._tools = {}
        await asyncio.gather(*(connection.aclose() for connection in connections))

    def _declared(self, tool: OfferedTool) -> DeclaredTool:
        return tool.declared(trusted=tool.digest in self._trusted_digests[tool.server])

    def _have_changed(self, name: str) -> None:
        """A server has other tools, or has ended. A change is told once, and asks nothing: a server could insist."""
        self._look_again()
        connection = self._connections.get(name)
        if connection is not None and connection.has_crashed:
            if name not in self._restarted:
                self._restarted[name] = asyncio.ensure_future(self._restart(connection))
            else:
                self.say(f"The MCP server {name} has ended again: /mcp start {name} starts it")
        fresh = set(self.offer(name).names) if name in self._connections else set()
        if fresh and name not in self._reported_names:
            self._reported_names.add(name)
            names = ", ".join(safe_line(name) for name in sorted(fresh))
            self.say(f"{name} has other tools than you trust; they ask before each call: {names}. /mcp shows them")

    async def _restart(self, crashed: Connection) -> None:
        """Start a server again that has crashed, unless it would run something else than the user has trusted."""
        name = crashed.server.name
        try:
            if await asyncio.to_thread(self.trust.subject, crashed.server) != self._subjects[name]:
                raise McpError("what it runs has changed since it was trusted")
            if self._connections.get(name) is crashed:
                await self._start(crashed.server)
                self.say(f"The MCP server {name} had ended; it was started again")
        except (McpError, McpConfigError) as error:
            self.say(f"The MCP server {name} has ended and is not started again: {error}")

    def _look_again(self) -> None:
        candidates = [
            OfferedTool(name, tool)
            for name, connection in self._connections.items()
            for tool in connection.tools
            if _is_chosen(tool.name, self._patterns[name])
        ]
        names = Counter(tool.name.casefold() for tool in candidates)
        self._tools = {tool.name: tool for tool in candidates if names[tool.name.casefold()] == 1}
        for tool in candidates:
            if tool.name not in self._tools and tool.name not in self._reported_names:
                self._reported_names.add(tool.name)
                self.say(f"The agent does not get the tool {tool.name}: {tool.server} has several of this name")
        self.on_change()


def _is_chosen(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


async def _stopped(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _called(connection: Connection, tool: str, call: ToolCall) -> ToolOutcome:
    seconds = None if call.deadline is None else max(0.1, call.deadline / 1000 - time.time() - _MARGIN_S)
    try:
        result = await connection.call(tool, call.arguments, seconds)
    except TimeoutError:
        return ToolOutcome.failed("TIMEOUT", "The server did not answer in time")
    except McpError as error:
        return ToolOutcome.failed("EXECUTION_FAILED", str(error))
    text = _text(result.content)
    if result.is_error:
        return ToolOutcome.failed("EXECUTION_FAILED", text or "The server says that the call failed")
    if not text and result.structured_content is not None:
        json_text = json.dumps(result.structured_content, ensure_ascii=False)
        return ToolOutcome(result.structured_content if len(json_text) <= _MOST_CHARS else {"content": _cut(json_text)})
    images = [{"media_type": block.mime_type, "data": block.data} for block in result.content if block.type == "image"][
        :_MOST_IMAGES
    ]
    return ToolOutcome({"content": text, **({"images": images} if images else {})})


def _text(content: "Sequence[types.ContentBlock]") -> str:
    """The content as text; other content, such as an image, is only named."""
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
    return _cut("\n".join(pieces))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}\n[{len(text) - _MOST_CHARS:,} more characters]"
