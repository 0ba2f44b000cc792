"""`codelab` without a command: a conversation in the terminal."""

import asyncio
import contextlib
import importlib
import sys
from pathlib import Path
from typing import Any

from codelab_client import last_sessions, waiting
from codelab_client.local_executor import LocalExecutor
from codelab_client.own_tools import ToolSource, WithOwnTools
from codelab_client.session import Address, Refused, Session, connect, new_session_id
from codelab_client.session.journal import state_folder
from codelab_client.session.rest import Rest, RestError
from codelab_client.session.tokens import Token
from codelab_client.skills import Skills
from codelab_client.tools.instructions import topmost_instructions
from codelab_client.tools.tree import Tree

#: Messages of a resumed conversation that are printed.
_HISTORY = 20


async def talk(
    address: Address,
    workspace: Path,
    token: Token,
    session_id: str | None,
    *,
    plain: bool,
    agent: str | None,
    model: str | None,
    is_own: bool = False,
) -> int:
    """Talk until the user quits. is_own: this client has started the server. Returns the exit code.

    Raises SessionError.
    """
    from codelab_client.terminal.commands import Commands
    from codelab_client.terminal.conversation import TerminalConversation
    from codelab_client.terminal.mcp_servers import McpServers

    rest_api = Rest(address, token)
    next_id: str | None = session_id or new_session_id()
    history: dict[str, Any] = {}
    draft: str | None = None  # what the input has at first, in place of a history above it
    if session_id is not None:
        history = await _history(rest_api, session_id)
    while next_id is not None:
        screen = _screen(workspace, plain=plain)
        conversation = screen.conversation = TerminalConversation(workspace, screen)
        executor = conversation.executor = LocalExecutor(workspace, conversation, state_folder(), session=next_id)
        servers = McpServers(conversation, state_folder())
        own_tools: list[ToolSource] = [Skills(workspace), servers.tools]
        opening = connect(
            address,
            workspace,
            session_id=next_id,
            token=token,
            executor=WithOwnTools(executor, own_tools, executor.around_change),
            last_seq=history.get("last_seq"),
            instructions=topmost_instructions(Tree(workspace)),
            on_event=waiting.tell_until_open(),
            decided_elsewhere=is_own,
            situation=executor.situation,
        )
        async with opening as session:
            conversation.session = session
            commands = screen.commands = Commands(conversation, rest_api, executor, servers)
            last_sessions.remember(address, workspace, next_id)
            if draft is None:
                _show_history(conversation, history)
            else:
                screen.put(draft)
            conversation.start(_prepare(executor, session))
            conversation.start(servers.start())
            conversation.start(_configure(session, agent, model))
            await _either(conversation.follow(), screen.run())
        next_id, draft = commands.switch_to, commands.draft
        if next_id is not None:
            agent = model = None
            history = await _history(rest_api, next_id)
    if session.last_seq:
        sys.stdout.write("`codelab --continue` goes on with this conversation.\n")
    return 0


async def _prepare(executor: LocalExecutor, session: Session) -> None:
    """Do what the first answer and the first call need, while the user is typing."""
    await asyncio.sleep(1)
    await asyncio.to_thread(importlib.import_module, "rich.markdown")
    await session.instruct(*await executor.about())


def _screen(workspace: Path, *, plain: bool) -> Any:
    if plain:
        from codelab_client.terminal.plain import PlainScreen

        return PlainScreen()
    from codelab_client.terminal.inline import InlineScreen

    return InlineScreen(workspace)


async def _configure(session: Session, agent: str | None, model: str | None) -> None:
    if model is not None:
        await session.configure(model=model)
    if agent is not None:
        await session.switch_agent(agent)


async def _either(*works: Any) -> None:
    """Run until one of them ends."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
    for task in tasks:
        if not task.cancelled():
            task.result()


async def _history(rest_api: Rest, session_id: str) -> dict[str, Any]:
    """What was said in a conversation; nothing for a new one, or without the REST API."""
    try:
        page = await rest_api.history(session_id, _HISTORY)
    except (RestError, Refused):
        return {}
    last_seq = page.get("last_seq")
    return page if isinstance(last_seq, int) and not isinstance(last_seq, bool) and last_seq >= 0 else {}


def _show_history(conversation: Any, history: dict[str, Any]) -> None:
    from codelab_client.terminal import cards

    messages = history.get("messages")
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            continue
        if message.get("role") == "user":
            conversation.screen.show(cards.user_message(message["content"]))
        elif message.get("role") == "assistant" and message["content"].strip():
            conversation.screen.show(cards.answer(message["content"]))
