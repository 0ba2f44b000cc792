"""One ACP session: a session with the server, and what the editor sees of it."""

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from codelab_client.acp import prompts, settings
from codelab_client.acp.commands import Commands
from codelab_client.acp.executor import EditorExecutor
from codelab_client.acp.files import EditorWorkspace
from codelab_client.acp.jsonrpc import INTERNAL_ERROR, Peer, RpcError
from codelab_client.acp.mcp_servers import SessionServers
from codelab_client.acp.mentions import confined
from codelab_client.acp.params import Editor
from codelab_client.acp.permissions import Permissions
from codelab_client.acp.previews import preview
from codelab_client.acp.stdio import Stdio
from codelab_client.acp.terminals import EditorTerminals
from codelab_client.acp.updates import Updates
from codelab_client.allowed_commands import RepeatedCommands
from codelab_client.folders import Folders
from codelab_client.local_executor import LocalExecutor
from codelab_client.own_tools import WithOwnTools
from codelab_client.project.agents import ProjectAgents
from codelab_client.project.allowed_calls import AllowedCalls
from codelab_client.project.commands import may_send
from codelab_client.project.hooks import ProjectHooks, WithHooks
from codelab_client.project.permissions import ProjectPermissions
from codelab_client.safe_text import safe
from codelab_client.session import Refused, Session, SessionError
from codelab_client.session import events as on
from codelab_client.session.gate import denial
from codelab_client.session.journal import state_folder
from codelab_client.session.rest import Rest
from codelab_client.session.session import Scope
from codelab_client.skills import Skills
from codelab_client.tools.expectations import view_of
from codelab_client.tools.instructions import topmost_instructions
from codelab_client.trust import TrustFile

#: Seconds that a cancelled turn may take to end before the editor is told that it has.
_STOP_S = 10.0
#: Seconds that a session's first prompt waits for its MCP servers.
_START_S = 10.0
_STOP_REASONS = {
    "completed": "end_turn",
    "cancelled": "cancelled",
    "max_steps": "max_turn_requests",
    "refused": "refusal",
}


@dataclass(eq=False)
class _Prompt:
    """A prompt that has not been answered yet."""

    cancellation: asyncio.Event = field(default_factory=asyncio.Event)
    message_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    is_sent: bool = False


@dataclass(eq=False)
class _Question:
    """The user is asked about a call."""

    call: on.ToolCall
    task: "asyncio.Task[None]"


class EditorConversation:
    """See the module. `open` comes first, then `start` as soon as the editor knows the session."""

    def __init__(
        self,
        session_id: str,
        folders: Folders,
        peer: Peer,
        stdio: Stdio,
        editor: Editor,
        rest_api: Rest,
        servers: SessionServers,
        permissions: ProjectPermissions,
        *,
        sandboxed: bool,
    ) -> None:
        self.session_id, self.folders = session_id, folders
        self.root = root = folders.root
        self._peer, self._stdio, self._editor = peer, stdio, editor
        self.updates = Updates(folders, self.send, editor)
        of_editor = (peer, editor, session_id, self.updates.edited)
        self._workspace = EditorWorkspace(root, *of_editor, reserved_names=folders.other_folders)
        other_folders = {name: EditorWorkspace(path, *of_editor) for name, path in folders.other_folders.items()}
        self._permissions = Permissions(peer, session_id, folders, self._previewed, shows_forms=editor.forms)
        terminals = EditorTerminals(peer, session_id, self.updates.runs_in) if editor.terminals else None
        self._local = LocalExecutor(
            self._workspace,
            self._permissions,
            state_folder(),
            None if sandboxed else terminals,
            session=session_id,
            other_folders=other_folders,
        )
        editors = EditorExecutor(self._local)
        self._running: dict[str, on.CallStarted] = {}
        self._repeated_commands = RepeatedCommands(
            root, lambda: self.session, lambda: self._local, self._running_calls, permissions.asks
        )
        self._local.may_begin = self._repeated_commands.may_begin
        if editor.forms:
            servers.tools.ask = self._permissions.ask_for
        self._complaints: list[str] = []
        self._hooks = ProjectHooks(root, state_folder(), self._complaints.append, self._local.around_change)
        own_tools = WithOwnTools(editors, [Skills(root), servers.tools], self._local.around_change)
        self.executor = WithHooks(own_tools, self._hooks)
        self._agents = ProjectAgents(
            root, state_folder(), self._complaints.append, lambda: self.executor.tools_supported
        )
        self._servers, self._starting = servers, asyncio.Event()
        self._trust = TrustFile(state_folder(), root)
        self._allowed_calls = AllowedCalls(
            permissions, self._trust, self._complaints.append, self._repeated_commands.allowed
        )
        self.session: Session
        self._commands = Commands(
            self._local,
            rest_api,
            servers.command,
            self._compact,
            self._repeated_commands.allowed,
            self._allowed_calls,
            self._hooks,
            self._agents,
        )
        self._prompts: list[_Prompt] = []
        self._one_at_a_time = asyncio.Lock()
        self._asking: dict[str, _Question] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended_turns: deque[str] = deque(maxlen=100)
        self._progress = asyncio.Event()
        self._compaction_end = asyncio.Event()
        self._cancellation = asyncio.Event()  # of the newest prompt that is a command
        self._has_ended = False
        self._replays: str | None = None
        self._closing = contextlib.AsyncExitStack()
        self._told_options: list[dict[str, Any]] = []
        self._remember: Scope = "session"  # where "always" counts

    async def open(
        self, opening: "contextlib.AbstractAsyncContextManager[Session]", replays: str | None = None
    ) -> None:
        """Open the session. Raises SessionError. replays: of what was missed, only this turn is shown."""
        self._replays = replays
        self.session = await self._closing.enter_async_context(opening)
        self._commands.session = self.session

    def start(self) -> None:
        """Begin to tell the editor what happens."""
        self._told_options = self._options()
        self._tell_commands()
        self._begin(self._follow())
        self._begin(self._prepare())

    def _tell_commands(self) -> None:
        self.send({"sessionUpdate": "available_commands_update", "availableCommands": self._commands.listed()})

    async def _prepare(self) -> None:
        """Do what the first prompt needs while the user is typing it."""
        try:
            await self._commands.load(self._complaints.append)
            if self._commands.has_own:
                self._tell_commands()
            await self._allowed_calls.start(None)
            await self._hooks.start(None)
            await self._agents.start(None, self.session)
            await self._servers.start(self.session.declare, self._complaints.append, self._begin)
            await self.session.instruct(*await self._local.about())
        except SessionError as error:
            self._complaints.append(str(error))
        finally:
            self._starting.set()

    async def situation(self) -> dict[str, str]:
        """How things stand in the folder, for the model."""
        return await self._local.situation()

    @property
    def topmost_instructions(self) -> list[dict[str, str]]:
        """The instructions that the folder itself has; `start` adds those below it."""
        return topmost_instructions(self._workspace.tree)

    @property
    def has_ended(self) -> bool:
        """Whether the server has ended the session."""
        return self._has_ended

    def send(self, update: Mapping[str, Any]) -> None:
        """Send an update to the editor."""
        self._peer.notify("session/update", {"sessionId": self.session_id, "update": update})

    def configuration(self) -> dict[str, Any]:
        """`configOptions` and `modes`."""
        return {"configOptions": self._options(), "modes": settings.modes(self.session)}

    def _options(self) -> list[dict[str, Any]]:
        return settings.options(self.session, self._remember, booleans=self._editor.booleans)

    async def choose(self, option_id: str, value: Any) -> None:
        """Change a setting. Raises RpcError."""
        if option_id == settings.REMEMBER:
            self._remember = settings.scope(value)
        try:
            await settings.choose(self.session, option_id, value)
        except SessionError as error:
            raise failed(error) from None
        self._tell_settings()

    async def answer_with(self, agent: str, model: str) -> None:
        """Let this agent and this model answer; an empty text leaves the server's choice. Raises RpcError."""
        try:
            if model:
                await self.session.configure(model=model)
            if agent:
                await self.session.switch_agent(agent)
        except SessionError as error:
            raise failed(error) from None

    # -- prompts -------------------------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Answer a prompt; another one waits for its end. Raises RpcError."""
        limits = self.session.info.limits if self.session.info is not None else {}
        message = prompts.message(confined(blocks, self.folders), self.folders, prompts.Limits.of(limits))
        prompt = _Prompt()
        self._prompts.append(prompt)
        try:
            async with self._one_at_a_time:
                reason = "cancelled" if prompt.cancellation.is_set() else await self._answer(prompt, message)
        except asyncio.CancelledError:
            if prompt.is_sent:
                with contextlib.suppress(SessionError):
                    await self.session.cancel(prompt.message_id)
            raise
        finally:
            self._prompts.remove(prompt)
        return {"stopReason": reason}

    async def cancel(self) -> None:
        """Stop the turn of the running prompt, or any that runs without one, and answer all prompts that wait."""
        message_ids: list[str | None] = [prompt.message_id for prompt in self._prompts if prompt.is_sent]
        for prompt in self._prompts:
            prompt.cancellation.set()
        with contextlib.suppress(SessionError):
            for message_id in message_ids or [None]:
                await self.session.cancel(message_id)

    async def _answer(self, prompt: _Prompt, message: prompts.Message) -> str:
        """The stop reason of a prompt."""
        if (command := self._commands.find(message.text)) is not None:
            self._cancellation = prompt.cancellation
            if text := await command():
                self.updates.say(text)
            return "cancelled" if prompt.cancellation.is_set() else "end_turn"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                await self._starting.wait()
        while self._complaints:
            self.updates.tell(safe(self._complaints.pop(0)), "warning")
        if (own := self._commands.own(message.text)) is not None:
            text = own[0].expanded(own[1])
            if not await may_send(own[0], text, self._trust, self._permissions):
                return "cancelled" if prompt.cancellation.is_set() else "end_turn"
            message = replace(message, text=text)
        self._local.label = message.text
        prompt.is_sent = True
        turn = asyncio.ensure_future(self._turn(message, prompt.message_id))
        stopping = asyncio.ensure_future(prompt.cancellation.wait())
        try:
            await asyncio.wait({turn, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if prompt.cancellation.is_set():
                await asyncio.wait({turn}, timeout=_STOP_S)
                return "cancelled"
            return turn.result()
        except SessionError as error:
            raise failed(error) from None
        finally:
            stopping.cancel()
            if not turn.done():
                turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)

    async def _compact(self, _: str) -> str:
        """`/compact`: returns when a summary replaces the conversation for the model, or its user stops waiting."""
        self._compaction_end.clear()
        outcome = await self.session.compact()
        if outcome == "nothing_to_compact":
            return "The conversation is too short to be worth a summary."
        if not self._compaction_end.is_set():
            self.updates.compacting()
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._compaction_end, self._cancellation)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        return ""

    async def _turn(self, message: prompts.Message, message_id: str) -> str:
        """Run a turn. Returns its stop reason when the editor has been told everything. Raises RpcError."""
        refusal: on.Error | None = None
        end: on.TurnEnd | None = None
        async for event in self.session.prompt(message.text, message_id, message.attachments):
            if isinstance(event, on.Error) and event.seq:
                refusal = event
            elif isinstance(event, on.TurnEnd):
                end = event
        if end is None:
            return "end_turn"  # the server no longer has the frames that tell how it ended
        while end.turn_id not in self._ended_turns and not self._has_ended:
            self._progress.clear()
            await self._progress.wait()
        if end.reason in _STOP_REASONS:
            return _STOP_REASONS[end.reason]
        code, text = (refusal.error_code, refusal.message) if refusal is not None else ("", "The turn has failed")
        raise RpcError(INTERNAL_ERROR, safe(text), {"error_code": code or end.reason})

    # -- events --------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Tell the editor everything, as fast as it reads."""
        try:
            async for event in self.session.events():
                await self._stdio.room()
                self._take(event)
        except SessionError as error:
            self.updates.tell(safe(error), "error")
        finally:
            self._has_ended = True
            self._progress.set()
            self._compaction_end.set()

    def _take(self, event: on.Event) -> None:
        if isinstance(event, on.Connected):
            self._replays = None
        if self._replays is not None and event.frame.get("turn_id") not in (None, self._replays):
            return
        self.updates.take(event)
        match event:
            case on.UserMessage() if not self.session.has_sent(event.client_msg_id):
                self.updates.user(event)
            case on.ToolCall(requires_approval=True):
                if event.call_id in self.session.open_calls:
                    self._ask_unless_settled(event)
            case on.ToolCall():
                self._stop_asking(event.call_id)
            case on.CallUpdate():
                self._stop_asking(event.call_id)
                self._repeated_commands.forget(event.call_id)
            case on.CallStarted():
                self._running[event.call_id] = event
            case on.CallFinished():
                self._running.pop(event.call_id, None)
                self._repeated_commands.forget(event.call_id)
            case on.AgentSwitched() | on.ModeSwitched() | on.SessionInfo():
                self._tell_settings()
            case on.Error(call_id=str(call_id)):
                call = self.session.open_calls.get(call_id)
                if call is not None and call.requires_approval:  # the decision was refused
                    self._ask(call)
            case on.Compacted() | on.ResyncRequired():  # after which its end may be missing
                self._compaction_end.set()
            case on.TurnEnd():
                self._end_turn(event)

    def _end_turn(self, event: on.TurnEnd) -> None:
        for call_id in [*self._asking]:
            if call_id not in self.session.open_calls:
                self._stop_asking(call_id)
        self.updates.usage(event, settings.context_tokens(self.session))
        self._commands.usage = event.usage
        self._begin(self._local.end_turn())
        self._begin(self._hooks.end_turn(event.reason))
        self._ended_turns.append(event.turn_id)
        self._progress.set()

    def _tell_settings(self) -> None:
        """Tell the editor the settings, if they are others than it knows."""
        now = self._options()
        before, self._told_options = self._told_options, now
        if before and now != before:
            self.send({"sessionUpdate": "config_option_update", "configOptions": now})
            if now[0]["currentValue"] != before[0]["currentValue"]:
                self.send({"sessionUpdate": "current_mode_update", "currentModeId": self.session.mode})

    # -- approvals -----------------------------------------------------------------------------------------------

    def _ask_unless_settled(self, call: on.ToolCall) -> None:
        """Ask about a call, unless the project denies it, or allows it and the user trusts that."""
        if reason := denial(self._allowed_calls.permissions, call):
            self.updates.rejected(call.call_id)
            self._begin(self._sent(self.session.reject(call.call_id, reason)))
        elif self._repeated_commands.allowed.covers(call):
            self._begin(self._run_again(call))
        elif self._allowed_calls.covers(call):
            self._begin(self._sent(self.session.approve(call.call_id, tool=call.tool_name, arguments=call.arguments)))
        else:
            self._ask(call)

    async def _sent(self, decision: Awaitable[None]) -> None:
        with contextlib.suppress(SessionError):
            await decision

    def _ask(self, call: on.ToolCall) -> None:
        """Ask about a call, unless it is just that which is being asked about; another question goes away."""
        asking = self._asking.get(call.call_id)
        if asking is not None and not asking.task.cancelling() and _is_same(asking.call, call):
            return
        self._stop_asking(call.call_id)
        self._repeated_commands.forget(call.call_id)
        question = self._asking[call.call_id] = _Question(call, self._begin(self._decide(call)))
        question.task.add_done_callback(lambda _: self._is_answered(question))

    def _is_answered(self, question: "_Question") -> None:
        if self._asking.get(question.call.call_id) is question:
            del self._asking[question.call.call_id]

    def _stop_asking(self, call_id: str) -> None:
        if (question := self._asking.get(call_id)) is not None:
            question.task.cancel()

    async def _decide(self, call: on.ToolCall) -> None:
        arguments = call.arguments or {}
        before = await view_of(self._workspace, call.tool_name, arguments)
        content = await self._previewed(call.tool_name, arguments)
        after = await view_of(self._workspace, call.tool_name, arguments)
        self._local.expectations.note_shown(call.call_id, before, after)
        self.updates.content(call.call_id, content)
        scope, is_elsewhere = self._remember, isinstance(call, on.CallDecidedElsewhere)
        # A rule for all sessions is wider, and the user has chosen to make such ones.
        is_allowable = self._repeated_commands.allowed.offers(call) and not (scope == "user" and "user" in call.scopes)
        decision = await self._permissions.decide(
            call,
            content,
            scope,
            self.session.address.shown,
            is_allowable=is_allowable,
            maker=self.updates.subagents.prefix(call.call_id),
        )
        with contextlib.suppress(SessionError):
            if decision.cancels:
                await self.cancel()
            elif decision.approves:
                if decision.always and is_elsewhere:
                    self.session.elsewhere.allow(for_good=False)
                if decision.always and is_allowable:
                    await self._allow(call)
                lasting_scope: Scope | None = scope if scope in call.scopes else "session"
                remember = lasting_scope if decision.always and not (is_elsewhere or is_allowable) else None
                mode = None
                if call.is_plan:
                    mode, remember = "autonomous" if decision.always else self.session.acting_mode, None
                await self.session.approve(
                    call.call_id, tool=call.tool_name, arguments=call.arguments, remember=remember, mode=mode
                )
            else:
                self.updates.rejected(call.call_id)
                await self.session.reject(call.call_id, decision.feedback)

    async def _allow(self, call: on.ToolCall) -> None:
        """Let exactly this command run again unasked, where it still may."""
        if self._repeated_commands.allowed.offers(call) and not await self._repeated_commands.allowed.allow(call):
            self.updates.tell("It is approved this once: there is too much here to see when it changes.", "warning")

    async def _run_again(self, call: on.ToolCall) -> None:
        """Approve a command that the user has allowed; ask about it if it may do something else now."""
        with contextlib.suppress(SessionError):
            if why := await self._repeated_commands.approve(call):
                self.updates.tell(why, "warning")
                self._ask(call)

    def _running_calls(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        return {call_id: (call.tool_name, call.arguments) for call_id, call in self._running.items()}

    async def _previewed(self, tool: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        return await preview(tool, arguments, self._workspace)

    # -- the end -------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Stop what runs, answer what waits, and leave the session, which stays on the server."""
        if self._prompts:
            await self.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S), self._one_at_a_time:
                    pass
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._closing.aclose()

    def _begin(self, work: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _is_same(first: on.ToolCall, second: on.ToolCall) -> bool:
    return (type(first), first.tool_name, first.arguments) == (
        type(second),
        second.tool_name,
        second.arguments,
    )


def failed(error: Exception) -> RpcError:
    """The answer to a request that the server refused, or that it could not be asked."""
    data: dict[str, Any] = {}
    if isinstance(error, Refused):
        data = {"error_code": error.code, **({"retry_after": error.retry_after} if error.retry_after else {})}
    return RpcError(INTERNAL_ERROR, safe(error), data or None)
