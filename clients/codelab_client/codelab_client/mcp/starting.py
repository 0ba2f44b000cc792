"""Starting the servers that a workspace names, each of which its user has trusted."""

import asyncio
from collections.abc import Callable, Container
from pathlib import Path
from typing import Protocol

from codelab_client.mcp.config import McpConfigError, ServerConfig, workspace_servers
from codelab_client.mcp.confinement import Confinement
from codelab_client.mcp.connection import McpError
from codelab_client.mcp.tools import McpTools, Offer
from codelab_client.mcp.trust import Subject
from codelab_client.trust import Decision

Say = Callable[[str], None]


class Asks(Protocol):
    """Asks the user."""

    async def ask_to_start(self, subject: Subject, question: str) -> Decision | None:
        """Whether a server may be started; None: not now."""
        ...

    async def ask_to_trust(self, offer: Offer) -> bool:
        """Whether its tools are what it says they are."""
        ...


async def start_trusted(
    tools: McpTools, workspace: Path, asks: Asks | None, say: Say, used_names: Container[str] = ()
) -> None:
    """Start the servers of a workspace, side by side, each after the user has trusted it.

    say: tells the user what went wrong. asks: about what the user has not decided; without it, such a server is not
    started, and such tools ask before each call. used_names: the names of other servers in lower case.
    """
    try:
        servers = workspace_servers(workspace, say)
    except McpConfigError as error:
        say(str(error))
        return
    await asyncio.gather(*(_start_if_trusted(tools, server, asks, say, workspace, used_names) for server in servers))


async def _start_if_trusted(
    tools: McpTools, server: ServerConfig, asks: Asks | None, say: Say, workspace: Path, used_names: Container[str]
) -> None:
    if server.name.casefold() in used_names:
        say(f"The MCP server {server.name} of this workspace is not started: another server has this name")
        return
    try:
        subject = await asyncio.to_thread(tools.trust.subject, server)
        if await may_start(tools, subject, asks, say, workspace):
            await start(tools, subject, asks, say)
    except (McpError, McpConfigError) as error:
        say(str(error))


async def may_start(tools: McpTools, subject: Subject, asks: Asks | None, say: Say, workspace: Path) -> bool:
    """Whether the user has trusted a server as it is, or does now. Raises McpConfigError."""
    decision = tools.trust.decision(subject)
    if decision is None and asks is not None:
        decision = await asks.ask_to_start(subject, await question(subject, workspace))
        if decision is not None:
            tools.trust.decide(subject, decision)
    elif decision is None:
        was_trusted = tools.trust.knows(subject.server)
        reason = "it is not what you trusted any more" if was_trusted else "nobody has trusted it"
        say(f"The MCP server {subject.server.name} is not started: {reason}. `codelab` asks.")
    return decision == "trusted"


async def start(tools: McpTools, subject: Subject, asks: Asks | None, say: Say) -> None:
    """Start a server that the user trusts, and ask about its tools. Raises McpError."""
    if await asyncio.to_thread(tools.trust.subject, subject.server) != subject:
        raise McpError(f"{subject.server.name} is not started: what it runs has changed since it was trusted")
    await tools.add(subject.server)
    offer = tools.offer(subject.server.name)
    if not offer.names:
        return
    if asks is None:
        say(f"You have not trusted these tools yet, so they ask before each call: {', '.join(offer.names)}")
    elif await asks.ask_to_trust(offer):
        tools.trust_tools(offer)


async def question(subject: Subject, workspace: Path) -> str:
    """What the user needs to know before a server is started. Raises McpConfigError."""
    confinement = await asyncio.to_thread(Confinement.of, subject.server, workspace)
    lines = [f"This workspace wants to use the MCP server {subject.server.name}:", subject.server.described()]
    if files := subject.files.listed():
        lines += ["It runs these of the workspace, as they are now; a change asks again:", *(f"  {n}" for n in files)]
    return "\n".join([*lines, confinement.described()])
