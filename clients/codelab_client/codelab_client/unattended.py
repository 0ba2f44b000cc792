"""The executor of a program without a conversation: nobody is there to answer questions."""

from collections.abc import Callable
from pathlib import Path

from codelab_client.local_executor import LocalExecutor
from codelab_client.mcp import McpTools, start_trusted
from codelab_client.own_tools import WithOwnTools
from codelab_client.project.hooks import ProjectHooks, WithHooks
from codelab_client.session.journal import state_folder
from codelab_client.skills import Skills


async def unattended_executor(
    local: LocalExecutor, workspace: Path, say: Callable[[str], None]
) -> tuple[WithHooks, ProjectHooks]:
    """The tools of `local`, the skills of the workspace, and the MCP servers that the user has trusted before.

    With the hooks that the user has trusted before.
    """
    hooks = ProjectHooks(workspace, state_folder(), say, local.around_change)
    await hooks.start(None)
    servers = McpTools(workspace, state_folder())
    servers.say = say
    await start_trusted(servers, workspace, None, say)
    return WithHooks(WithOwnTools(local, [Skills(workspace), servers], local.around_change), hooks), hooks
