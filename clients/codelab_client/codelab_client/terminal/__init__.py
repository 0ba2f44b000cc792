"""`codelab` without a command: a conversation in the terminal."""

import asyncio
import contextlib
import importlib
import os
import sys
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from codelab_client import last_sessions, waiting
from codelab_client.line_input import ask
from codelab_client.local_executor import LocalExecutor
from codelab_client.own_tools import ToolSource, WithOwnTools
from codelab_client.project.agents import ProjectAgents
from codelab_client.project.hooks import ProjectHooks, WithHooks
from codelab_client.project.permissions import ProjectPermissions
from codelab_client.session import Address, Refused, Session, SessionError, connect, new_session_id
from codelab_client.session.journal import state_folder
from codelab_client.session.rest import Rest, RestError
from codelab_client.session.tokens import Token
from codelab_client.skills import Skills
from codelab_client.terminal.background import Background
from codelab_client.tools.instructions import topmost_instructions
from codelab_client.tools.tree import Tree

#: Messages of a resumed conversation that are printed.
_HISTORY = 50


async def talk(
    address: Address,
    workspace: Path,
    token: Token,
    session_id: str | None,
    *,
    plain: bool,
    agent: str | None,
    model: str | None,
    is_own: bool,
    notify: Collection[str],
    background: Background,
) -> int:
    """Talk until the user quits. Returns the exit code.

    is_own: this client has started the server. notify: how the user is called, see `Config`.
    background: the terminal's.

    Raises SessionError, and ConfigError if the project's permissions cannot be read.
    """
    from codelab_client.terminal import past
    from codelab_client.terminal.commands import Commands
    from codelab_client.terminal.conversation import TerminalConversation
    from codelab_client.terminal.mcp_servers import McpServers

    rest_api = Rest(address, token)
    next_id: str | None = session_id or new_session_id()
    history: dict[str, Any] = {}
    typed = background.typed
    draft: str | None = None  # what the input has at first, in place of a history above it
    if session_id is not None:
        history = await _history(rest_api, session_id)
    while next_id is not None:
        screen = _screen(workspace, plain=plain, notify=notify, is_light=background.is_light)
        permissions = await asyncio.to_thread(ProjectPermissions.load, workspace)
        conversation = screen.conversation = TerminalConversation(workspace, screen, permissions)
        executor = conversation.executor = LocalExecutor(workspace, conversation, state_folder(), session=next_id)
        executor.may_begin = conversation.repeated_commands.may_begin
        servers = McpServers(conversation, state_folder())
        own_tools: list[ToolSource] = [Skills(workspace), servers.tools]
        hooks = conversation.hooks = ProjectHooks(workspace, state_folder(), conversation.warn, executor.around_change)
        calls_executor = WithHooks(WithOwnTools(executor, own_tools, executor.around_change), hooks)
        agents = conversation.agents = ProjectAgents(
            workspace, state_folder(), conversation.warn, partial(getattr, calls_executor, "tools_supported")
        )
        opening = connect(
            address,
            workspace,
            session_id=next_id,
            token=token,
            executor=calls_executor,
            last_seq=history.get("last_seq"),
            instructions=topmost_instructions(Tree(workspace)),
            on_event=waiting.tell_until_open(),
            decided_elsewhere=is_own,
            situation=executor.situation,
            drafts=True,
            restrictions=permissions,
        )
        async with opening as session:
            conversation.session = session
            commands = screen.commands = Commands(conversation, rest_api, executor, servers)
            last_sessions.remember(address, workspace, next_id)
            if draft is None:
                messages = past.messages_of(history)
                conversation.recall(past.last_answer(messages))
                for card in past.shown(messages):
                    screen.show(card)
            if draft:
                screen.put(draft)
            if typed:
                screen.type(typed)
                typed = ""
            conversation.start(_prepare(executor, session))
            conversation.start(conversation.allowed_calls.start(conversation))
            conversation.start(hooks.start(conversation))
            conversation.start(agents.start(conversation, session))
            conversation.start(commands.load())
            conversation.start(servers.start())
            conversation.start(_configure(session, agent, model))
            await _converse(conversation, screen)
        next_id, draft = commands.switch_to, commands.draft
        if next_id is not None:
            agent = model = None
            history = await _history(rest_api, next_id)
    if session.last_seq:
        sys.stdout.write("`codelab --continue` goes on with this conversation.\n")
    return 0


async def _converse(conversation: Any, screen: Any) -> None:
    """Talk until the user or the server ends it. Raises SessionError."""
    # The screen does not end before a list that is open in it.
    await _either(conversation.follow(), screen.run(), before_end=conversation.aclose)


async def _prepare(executor: LocalExecutor, session: Session) -> None:
    """Do what the first answer and the first call need, while the user is typing."""
    await asyncio.sleep(1)
    await asyncio.to_thread(importlib.import_module, "codelab_client.terminal.answers")
    await session.instruct(*await executor.about())


async def choose_session(
    address: Address, workspace: Path, token: Token, *, plain: bool, is_light: bool = False
) -> str | None:
    """Let the user choose a conversation. Returns its id; None if they choose none. Raises SessionError."""
    from codelab_client.terminal.conversations import TITLE, conversations, newest
    from codelab_client.terminal.keyboard import Keyboard
    from codelab_client.terminal.palette import DARK, LIGHT, prompt_style
    from codelab_client.terminal.picker import pick

    rest_api = Rest(address, token)
    try:
        choices = await conversations(rest_api, address, workspace)
    except RestError as error:
        raise SessionError(str(error)) from None
    if not choices:
        raise SessionError("There is no conversation yet")
    if not plain:
        style = prompt_style(LIGHT if is_light else DARK) if not os.environ.get("NO_COLOR") else None
        return await pick(TITLE, choices, partial(newest, rest_api), keyboard=Keyboard(sys.stdin), style=style)
    sys.stdout.writelines(f"{number} {choice.line}\n" for number, choice in enumerate(choices, 1))
    line = (await ask(f"{TITLE} A number, or Enter for none: ")).strip()
    if not line:
        return None
    if not line.isdecimal() or not 1 <= int(line) <= len(choices):
        raise SessionError(f"{line[:20]!r} is no number from 1 to {len(choices)}")
    return choices[int(line) - 1].value


def _screen(workspace: Path, *, plain: bool, notify: Collection[str], is_light: bool) -> Any:
    if plain:
        from codelab_client.terminal.plain import PlainScreen

        return PlainScreen()
    from codelab_client.terminal.inline import InlineScreen
    from codelab_client.terminal.palette import DARK, LIGHT

    return InlineScreen(workspace, notify, LIGHT if is_light else DARK)


async def _configure(session: Session, agent: str | None, model: str | None) -> None:
    if model is not None:
        await session.configure(model=model)
    if agent is not None:
        await session.switch_agent(agent)


async def _either(*works: Any, before_end: Callable[[], Awaitable[None]]) -> None:
    """Run until one of them ends, or this is cancelled; then do what comes before the end of the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await before_end()
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
