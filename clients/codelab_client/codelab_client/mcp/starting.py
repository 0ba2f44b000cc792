"""Starting the servers that a workspace names, each of which its user has trusted."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from codelab_client.mcp.config import McpConfigError, ServerConfig, workspace_servers
from codelab_client.mcp.connection import McpError
from codelab_client.mcp.tools import McpTools
from codelab_client.mcp.trust import Decision, Trust

#: Asks the user about a server; None: not now.
Ask = Callable[[ServerConfig], Awaitable[Decision | None]]


async def start_trusted(
    tools: McpTools, workspace: Path, trust: Trust, ask: Ask | None, say: Callable[[str], None]
) -> None:
    """Start the servers of a workspace, each after the user has trusted it. say: tells the user what went wrong.

    ask: asks about a server that the user has not decided about; without it, such a server is not started.
    """
    try:
        servers = workspace_servers(workspace)
    except McpConfigError as error:
        say(str(error))
        return
    for server in servers:
        decision = trust.decision(server)
        if decision is None and ask is not None:
            decision = await ask(server)
            trust.decide(server, decision)
        elif decision is None:
            say(f"The MCP server {server.name} is not started: nobody has trusted it. `codelab` asks.")
        if decision == "trusted":
            try:
                await tools.add(server)
            except McpError as error:
                say(str(error))
