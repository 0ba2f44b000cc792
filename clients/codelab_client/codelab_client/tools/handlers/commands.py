"""The tools that run programs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from codelab_client.tools.commands import CommandRunner
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.handlers import Arguments, Handler, Handlers, always, simple
from codelab_client.tools.running_call import RunningCall


def command_handlers(
    commands: CommandRunner, directory_of: Callable[[str], Awaitable[Path]], most_seconds: float
) -> Handlers:
    """The handlers over what runs commands. most_seconds: how long one may run that the model waits for."""

    async def run_command(arguments: Arguments, call: RunningCall) -> dict[str, Any]:
        cwd = await directory_of(arguments.get("cwd", "."))
        beat = call.allowance / 2 if call.allowance else None
        running = commands.run(arguments["command"], cwd, call.show, beat)
        try:
            return await asyncio.wait_for(running, most_seconds)
        except TimeoutError:
            reason = f"The command ran longer than {most_seconds:g} seconds and was stopped"
            raise ToolFailure("TIMEOUT", reason) from None

    async def run_persistent(arguments: Arguments, call: RunningCall) -> dict[str, Any]:
        cwd = await directory_of(arguments.get("cwd", "."))
        return await commands.start(arguments["command"], arguments["process_id"], cwd)

    return {
        "run_command": Handler(run_command, always),
        "run_persistent": Handler(run_persistent, always),
        "read_process": simple(lambda arguments: commands.read(arguments["process_id"])),
        "kill_process": simple(lambda arguments: commands.kill(arguments["process_id"])),
    }
