"""`codelab attach`: executes the tools of a session for a window that cannot, such as a page in a browser."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codelab_client import waiting
from codelab_client.local_executor import LocalExecutor
from codelab_client.project.agents import ProjectAgents
from codelab_client.project.permissions import ProjectPermissions
from codelab_client.safe_text import safe, safe_line
from codelab_client.session import Address, connect
from codelab_client.session import events as on
from codelab_client.session.journal import state_folder
from codelab_client.session.subagents import Subagents
from codelab_client.session.tokens import Token
from codelab_client.unattended import unattended_executor


async def attach(address: Address, workspace: Path, token: Token, session_id: str) -> int:
    """Execute the calls of a session until it ends. Others send its messages and decide about its calls.

    Whoever starts this wants just that, so the server's word that a call was approved is enough, as long as it runs.
    """
    local = LocalExecutor(workspace, None, state_folder(), session=session_id)
    executor, hooks = await unattended_executor(local, workspace, _say)
    opening = connect(
        address,
        workspace,
        session_id=session_id,
        token=token,
        executor=executor,
        on_event=waiting.tell,
        decided_elsewhere=True,
        restrictions=ProjectPermissions.load(workspace),
    )
    async with opening as session:
        await session.instruct(*await local.about())
        await ProjectAgents(workspace, state_folder(), _say, lambda: executor.tools_supported).start(None, session)
        _say(f"Executing the tools of session {session_id} in {workspace}. Other windows talk and decide. Ctrl-C ends.")
        ending: set[asyncio.Task[None]] = set()
        subagents = Subagents()
        async for event in session.events():
            if isinstance(event, on.CallDecidedElsewhere):
                await session.reject(event.call_id, f"nobody can be asked where it would run ({event.asked_by})")
            elif isinstance(event, on.UserMessage):
                local.label = event.content or ""
            elif isinstance(event, on.TurnEnd):
                # In a task of its own: a checkpoint that has begun is finished, and would take Ctrl-C for itself.
                for work in (local.end_turn(), hooks.end_turn(event.reason)):
                    task = asyncio.ensure_future(work)
                    ending.add(task)
                    task.add_done_callback(ending.discard)
            if line := subagents.take(event) or _told(event, subagents):
                _say(line)
    return 0


def _told(event: on.Event, subagents: Subagents) -> str:
    match event:
        case on.CallStarted():
            return f"{subagents.prefix(event.call_id)}{event.tool_name} {_gist(event.arguments)}"
        case on.CallFinished() if event.outcome.error is not None:
            prefix = subagents.prefix(event.call_id)
            return f"{prefix}{event.tool_name} failed: {safe_line(event.outcome.error.message)}"
        case on.CallDecidedElsewhere():
            told = _told_call(event, subagents)
            return f"{told} is refused: the project asks ({event.asked_by})"
        case on.ToolCall(requires_approval=True):
            return f"{_told_call(event, subagents)} waits for a decision in another window"
        case on.Connected(again=True):
            return "Connected again"
        case on.Ignored():
            return event.why
        case on.Error():
            return f"{event.error_code}: {event.message}"
    return ""


def _told_call(call: on.ToolCall, subagents: Subagents) -> str:
    return f"{subagents.prefix(call.call_id)}{call.tool_name} {_gist(call.arguments or {})}"


def _gist(arguments: Mapping[str, Any]) -> str:
    return next((safe_line(arguments[name]) for name in ("command", "path", "from", "query") if name in arguments), "")


def _say(text: str) -> None:
    sys.stderr.write(f"{safe(text)}\n")
    sys.stderr.flush()
