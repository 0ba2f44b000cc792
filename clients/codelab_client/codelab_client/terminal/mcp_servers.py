"""MCP servers in the terminal: the question whether to trust one, and `/mcp`."""

import asyncio
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from codelab_client.login.errors import LoginError
from codelab_client.mcp import (
    Decision,
    McpConfigError,
    McpError,
    McpTools,
    Offer,
    ServerConfig,
    Subject,
    may_start,
    sign_in,
    start,
    start_trusted,
    workspace_servers,
)
from codelab_client.safe_text import safe_line
from codelab_client.terminal import cards
from codelab_client.terminal.conversation import TerminalConversation

_START, _LATER, _NEVER = "start it, now and from now on", "not now", "never"
_SIGN_IN = "sign in there, with the browser"
_TRUST, _ASK = "trust them as they are", "ask before each call, and take their words for data"
_VERBS = ("start", "stop", "forget", "trust", "tools")


class McpServers:
    """The MCP servers of a conversation's workspace."""

    def __init__(self, conversation: TerminalConversation, state: Path) -> None:
        self._conversation = conversation
        self.tools = McpTools(conversation.workspace, state, self._changed)
        self.tools.say = self._complain
        self.tools.sign_in = self._sign_in

    async def start(self) -> None:
        """Start the servers of the workspace, each after the user has trusted it."""
        await start_trusted(self.tools, self._conversation.workspace, self, self._complain)

    async def command(self, argument: str) -> None:
        """`/mcp`, and `start`, `stop`, `forget`, `trust` or `tools` with a name; `tools` also with names to choose."""
        try:
            servers = {
                server.name: server for server in workspace_servers(self._conversation.workspace, self._complain)
            }
        except McpConfigError as error:
            self._complain(str(error))
            return
        words = argument.split()
        verb, name, *patterns = words if len(words) > 1 else [*words, "", ""][:2]
        if not argument:
            self._list(servers)
        elif verb not in _VERBS or name not in servers or (patterns and verb != "tools"):
            names = ", ".join(servers) or "none: .mcp.json names them"
            self._complain(f"{', '.join(f'/mcp {verb_name} NAME' for verb_name in _VERBS)}; servers: {names}")
        elif verb == "start":
            await self._start(servers[name])
        elif verb == "trust":
            await self._look_at(name)
        elif verb == "tools":
            self._choose(name, patterns)
        else:
            if verb == "forget":
                self.tools.trust.decide(self.tools.trust.subject(servers[name]), None)
                try:
                    await asyncio.to_thread(sign_in.forget, servers[name], self._conversation.workspace)
                except (LoginError, McpConfigError) as error:
                    self._complain(f"Its tokens are not forgotten: {error}")
            await self.tools.remove(name)

    async def ask_to_start(self, subject: Subject, question: str) -> Decision | None:
        """See Asks."""
        choice = await self._conversation.choose(question, (_START, _LATER, _NEVER))
        return "trusted" if choice == _START else "denied" if choice == _NEVER else None

    async def ask_to_trust(self, offer: Offer) -> bool:
        """See Asks."""
        message = (
            f"The MCP server {offer.server} offers these tools. Trusted ones run as it says, and the agent is told its "
            f"words as instructions; another form of a tool asks again:\n{offer.description}"
        )
        return await self._conversation.choose(message, (_TRUST, _ASK)) == _TRUST

    async def _sign_in(self, name: str, url: str) -> bool:
        question = f"The MCP server {name} wants you to sign in at {urlsplit(url).hostname}:\n{url}"
        if await self._conversation.choose(question, (_SIGN_IN, _LATER)) != _SIGN_IN:
            return False
        if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            await asyncio.to_thread(webbrowser.open, url)
        else:
            self._say(f"Open it in a browser of this machine: {url}")
        return True

    async def _start(self, server: ServerConfig) -> None:
        subject = self.tools.trust.subject(server)
        if self.tools.trust.decision(subject) == "denied":
            self.tools.trust.decide(subject, None)
        try:
            if await may_start(self.tools, subject, self, self._complain, self._conversation.workspace):
                await start(self.tools, subject, self, self._complain)
        except (McpError, McpConfigError) as error:
            self._complain(str(error))

    async def _look_at(self, name: str) -> None:
        offer = self.tools.offer(name)
        if not offer.names:
            self._say(f"{name} has no tools that you do not trust")
        elif await self.ask_to_trust(offer):
            self.tools.trust_tools(offer)

    def _choose(self, name: str, patterns: Sequence[str]) -> None:
        try:
            self._say(safe_line(self.tools.choice(name, patterns), 2_000))
        except McpError as error:
            self._complain(safe_line(error, 2_000))

    def _list(self, servers: dict[str, ServerConfig]) -> None:
        running = self.tools.servers
        if not servers:
            self._say("This workspace names no MCP servers (.mcp.json)")
        for name, server in servers.items():
            decision = self.tools.trust.decision(self.tools.trust.subject(server))
            state = f"runs: {', '.join(running[name])}" if name in running else decision or "not trusted"
            self._say(f"{name}  {safe_line(state, 500)}")
            if untrusted_names := self.tools.offer(name).names:
                self._say(f"  not trusted: {safe_line(', '.join(untrusted_names), 500)} (/mcp trust {name})")

    def _changed(self) -> None:
        self._conversation.start(self._declare())

    async def _declare(self) -> None:
        left_out = await self._conversation.session.declare()
        for name, reason in left_out.items():
            self._complain(f"The agent does not get the tool {name}: {reason}")

    def _complain(self, text: str) -> None:
        self._conversation.screen.show(cards.notice(text, "warning"))

    def _say(self, text: str) -> None:
        self._conversation.screen.show(cards.notice(text, ""))
