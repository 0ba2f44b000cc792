"""The tools of git."""

import asyncio
from typing import Any

from codelab_client.tools import limits
from codelab_client.tools.changes import encoded
from codelab_client.tools.git import Git
from codelab_client.tools.handlers import Arguments, Handler, Handlers, simple
from codelab_client.tools.paths import components
from codelab_client.tools.running_call import RunningCall


def git_handlers(git: Git, lock: asyncio.Lock) -> Handlers:
    """The handlers over a repository. lock: held while files are changed."""

    async def diff(arguments: Arguments) -> dict[str, Any]:
        return await git.diff(components(arguments["path"]), staged=arguments.get("staged", False))

    async def status(arguments: Arguments) -> dict[str, Any]:
        return await git.status(components(arguments.get("path", ".")))

    async def log(arguments: Arguments) -> dict[str, Any]:
        names = components(arguments["path"]) if "path" in arguments else None
        return await git.log(names, arguments.get("limit", 10))

    async def branch(arguments: Arguments, _: RunningCall) -> dict[str, Any]:
        async with lock:
            return await git.branch(arguments["action"], arguments.get("name", ""))

    async def commit(arguments: Arguments, call: RunningCall) -> dict[str, Any]:
        encoded(arguments["message"], "message", limits.FILE_BYTES)
        async with call.asks():
            await git.allowed_hooks()  # before files are locked, because the user may be asked
        async with lock:
            return await git.commit(arguments["message"], [components(path) for path in arguments.get("files", ())])

    return {
        "git.diff": simple(diff),
        "git.status": simple(status),
        "git.log": simple(log),
        "git.branch": Handler(branch, lambda arguments: arguments["action"] == "switch"),
        "git.commit": Handler(commit),
    }
