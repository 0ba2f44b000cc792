"""The executor of a program without a conversation: nobody is there to answer questions."""

from collections.abc import Callable
from pathlib import Path

from codelab_client.local_executor import LocalExecutor
from codelab_client.mcp import McpTools, start_trusted
from codelab_client.own_tools import WithOwnTools
from codelab_client.session.journal import state_folder
from codelab_client.skills import Skills


async def unattended_executor(local: LocalExecutor, workspace: Path, say: Callable[[str], None]) -> WithOwnTools:
    """The tools of `local`, the skills of the workspace, and the MCP servers that the user has trusted before."""
    servers = McpTools(workspace, state_folder())
    servers.say = say
    await start_trusted(servers, workspace, None, say)
    return WithOwnTools(local, [Skills(workspace), servers], local.around_change)
