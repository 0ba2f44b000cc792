"""MCP servers in the terminal: the question whether to trust one, and `/mcp`."""

from pathlib import Path

from codelab_client.mcp import McpConfigError, McpError, McpTools, ServerConfig, Trust, start_trusted, workspace_servers
from codelab_client.mcp.trust import Decision
from codelab_client.safe_text import safe_line
from codelab_client.terminal import cards
from codelab_client.terminal.conversation import Conversation

_START, _LATER, _NEVER = "start it, now and from now on", "not now", "never"


class McpServers:
    """The MCP servers of a conversation's workspace."""

    def __init__(self, conversation: Conversation, state: Path) -> None:
        self._conversation = conversation
        self._trust = Trust(state, conversation.workspace)
        self.tools = McpTools(conversation.workspace, state, self._changed)

    async def start(self) -> None:
        """Start the servers of the workspace, each after the user has trusted it."""
        await start_trusted(self.tools, self._conversation.workspace, self._trust, self._ask, self._complain)

    async def command(self, what: str) -> None:
        """`/mcp`, `/mcp start NAME`, `/mcp stop NAME`, `/mcp forget NAME`."""
        try:
            known = {server.name: server for server in workspace_servers(self._conversation.workspace)}
        except McpConfigError as error:
            self._complain(str(error))
            return
        verb, _, name = what.partition(" ")
        name = name.strip()
        if not what:
            self._list(known)
        elif verb not in ("start", "stop", "forget") or name not in known:
            names = ", ".join(known) or "none: .mcp.json names them"
            self._complain(f"/mcp, /mcp start NAME, /mcp stop NAME, /mcp forget NAME; servers: {names}")
        elif verb == "start":
            await self._start(known[name])
        else:
            if verb == "forget":
                self._trust.decide(known[name], None)
            await self.tools.remove(name)

    async def _start(self, server: ServerConfig) -> None:
        if self._trust.decision(server) != "trusted":
            decision = await self._ask(server)
            self._trust.decide(server, decision)
            if decision != "trusted":
                return
        try:
            await self.tools.add(server)
        except McpError as error:
            self._complain(str(error))

    def _list(self, known: dict[str, ServerConfig]) -> None:
        running = self.tools.servers
        if not known:
            self._say("This workspace names no MCP servers (.mcp.json)")
        for name, server in known.items():
            state = f"runs: {', '.join(running[name])}" if name in running else self._trust.decision(server)
            self._say(f"{name}  {safe_line(state or 'not trusted', 500)}")

    async def _ask(self, server: ServerConfig) -> Decision | None:
        message = (
            f"This workspace wants to use the MCP server {server.name}:\n{server.described()}\n"
            "It runs with your rights and outside the sandbox. Tools that it calls read-only run without asking."
        )
        chosen = await self._conversation.choose(message, (_START, _LATER, _NEVER))
        return "trusted" if chosen == _START else "denied" if chosen == _NEVER else None

    def _changed(self) -> None:
        self._conversation.start(self._declare())

    async def _declare(self) -> None:
        left_out = await self._conversation.session.declare()
        for name, why in left_out.items():
            self._complain(f"The agent does not get the tool {name}: {why}")

    def _complain(self, text: str) -> None:
        self._conversation.screen.show(cards.notice(text, "yellow"))

    def _say(self, text: str) -> None:
        self._conversation.screen.show(cards.notice(text, ""))
