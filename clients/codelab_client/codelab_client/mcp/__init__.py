"""MCP servers: tools that other programs offer, declared to the agent as the client's own.

`McpTools` is a source of tools for `codelab_client.own_tools.WithOwnTools`. Its servers come from a workspace's
`.mcp.json` (`workspace_servers`), where each must be trusted as it is (`Trust`, `start_trusted`) and runs in the
sandbox, or from an editor, which its user trusts already. The package `mcp` is imported when the first server starts.
"""

from codelab_client.mcp.config import McpConfigError, ServerConfig, workspace_servers
from codelab_client.mcp.connection import McpError
from codelab_client.mcp.starting import Asks, may_start, question, start, start_trusted
from codelab_client.mcp.tools import McpTools, Offer
from codelab_client.mcp.trust import Subject, Trust
from codelab_client.trust import Decision

__all__ = [
    "Asks",
    "Decision",
    "McpConfigError",
    "McpError",
    "McpTools",
    "Offer",
    "ServerConfig",
    "Subject",
    "Trust",
    "may_start",
    "question",
    "start",
    "start_trusted",
    "workspace_servers",
]
