"""The commands that begin with a slash."""

import asyncio
import difflib
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from codelab_client.differences import spelled_out
from codelab_client.local_executor import LocalExecutor
from codelab_client.notes import NoteRefused, Notes, Scope, scope_of
from codelab_client.project.commands import PromptCommand, commands_of, may_send
from codelab_client.safe_text import safe, safe_line
from codelab_client.session.address import checked_session_id
from codelab_client.session.journal import state_folder
from codelab_client.session.rest import Rest, RestError, of_session
from codelab_client.terminal import cards
from codelab_client.terminal.conversation import TerminalConversation
from codelab_client.terminal.conversations import TITLE, conversations, newest
from codelab_client.terminal.counts import counted
from codelab_client.terminal.mcp_servers import McpServers
from codelab_client.terminal.picker import Choice
from codelab_client.trust import TrustFile

if TYPE_CHECKING:
    from codelab_client.checkpoints import Checkpoints

Command = Callable[[str], Awaitable[None]]

#: Names that people know from other agents.
_ALIASES = {
    "clear": "new",
    "reset": "new",
    "exit": "quit",
    "q": "quit",
    "continue": "resume",
    "history": "sessions",
    "fork": "edit",
    "checkpoint": "rewind",
    "restore": "rewind",
    "models": "model",
    "approvals": "mode",
    "autonomy": "mode",
    "effort": "thinking",
    "allowed-tools": "permissions",
    "summarize": "compact",
    "context": "usage",
    "stats": "cost",
    "connect": "setup",
}
#: What /init asks the agent for.
_INIT = """\
Look at this project, then write AGENTS.md at its top, for agents that will work on it. In at most 60 lines it says \
what the project is and how it is laid out; the commands that build, run, test and check it, and the one that runs \
a single test; the conventions that a newcomer would get wrong; and what must not be changed. Read what is there \
first: README, CONTRIBUTING, the build files, and an AGENTS.md or rules for other agents, whose right parts you \
keep. Write only what the files show, and nothing that every programmer knows. Try no command that changes anything \
outside of the project."""
_FORGET = "not at all"
_KEYS = (
    ("Esc", "stop the turn; twice, when nothing runs: go back to one of your messages"),
    ("Ctrl-C", "clear the input, or stop the turn; twice: quit"),
    ("Shift-Tab", "the next mode"),
    ("Alt-Enter", "a new line"),
    ("↑", "earlier messages"),
    ("@", "a file's name"),
    ("!COMMAND", "run a command yourself; the agent reads its output with your next message"),
    ("Ctrl-V", "attach the image in the clipboard"),
    ("Ctrl-O", "show what is folded"),
    ("Ctrl-Z", "suspend"),
)


def is_command(line: str) -> bool:
    """Whether a line is a command, and not a message that begins with a path."""
    return line.startswith("/") and "/" not in line.split(maxsplit=1)[0][1:]


class Commands:
    """Runs slash commands. `switch_to` is the session that the user wants instead, or None."""

    def __init__(
        self, conversation: TerminalConversation, rest_api: Rest, executor: LocalExecutor, servers: McpServers
    ) -> None:
        self._conversation, self._rest, self._executor = conversation, rest_api, executor
        self.switch_to: str | None = None
        self.draft: str | None = None  # the text that the input has then; None: it has none, and the history is shown
        self.wants_to_quit = False
        self.has_switched = asyncio.Event()  # `switch_to` is set
        self._commands: dict[str, tuple[Command, str]] = {
            "help": (self._help, "this list"),
            "agent": (self._agent, "the agents; /agent NAME switches"),
            "agents": (self._agents, "all agents, the project's too; /agents show NAME, /agents trust"),
            "model": (self._model, "the models; /model NAME: the one that answers"),
            "thinking": (self._thinking, "/thinking none|low|medium|high: how much the model thinks before it answers"),
            "thoughts": (self._thoughts, "what the model thought before its last answer"),
            "mode": (self._mode, "/mode ask|plan|manual|code|autonomous: what the agent may do"),
            "permissions": (
                self._permissions,
                "what runs unasked, to revoke it, and the project's; /permissions trust",
            ),
            "sessions": (self._sessions, "your conversations, the latest first"),
            "resume": (self._resume, "choose a conversation to go on with; /resume ID"),
            "rewind": (self._rewind, "go back to before one of your messages: conversation, files, or both (Esc Esc)"),
            "edit": (self._edit, "change your last message, in a copy of the conversation before it"),
            "new": (self._new, "begin another conversation; also /clear"),
            "retry": (self._retry, "ask the model again after it has failed"),
            "queue": (self._queue, "messages that wait; /queue edit NUMBER, /queue drop NUMBER"),
            "steer": (self._steer, "/steer MESSAGE: give it to the agent at the next step of the running turn"),
            "undo": (self._undo, "take back what the last turn did to files; /undo all: also what it names and leaves"),
            "redo": (self._redo, "bring back what /undo took back; /redo all: also what it names and leaves"),
            "diff": (self._diff, "what the last turn did to files"),
            "compact": (self._compact, "let a summary replace the conversation so far for the model"),
            "rules": (self._rules, "what runs unasked; /rules revoke ID, /rules allow elsewhere"),
            "usage": (self._usage, "tokens and quotas"),
            "cost": (self._cost, "tokens and costs since the start"),
            "copy": (self._copy, "copy the last answer; /copy code: its last block of code, /copy NUMBER"),
            "raw": (self._raw, "the last answer as the model wrote it, its lines not broken"),
            "remember": (self._remember, "/remember TEXT: keep a note for the agent, here or in all projects"),
            "notes": (self._notes, "what agents are to keep in mind, to take it away"),
            "init": (self._init, "have the agent look at the project and write AGENTS.md"),
            "setup": (self._setup, "set up a model for the local cloud"),
            "files": (self._files, "files that the agent always sees; /files add|remove PATH, /files clear"),
            "mcp": (servers.command, "MCP servers of this workspace; /mcp start|stop|forget|trust|tools NAME"),
            "hooks": (self._hooks, "programs of the project that run around calls; /hooks trust"),
            "quit": (self._quit, "end codelab; the conversation can be resumed"),
        }

        self._own: dict[str, PromptCommand] = {}
        self._trust = TrustFile(state_folder(), conversation.workspace)

    async def load(self) -> None:
        """Read the commands that are files. None takes the name of another command."""
        reserved_names = {*self._commands, *_ALIASES}
        complaints: list[str] = []
        self._own = await asyncio.to_thread(
            commands_of, self._conversation.workspace, reserved_names, complaints.append
        )
        for complaint in complaints:
            self._say(safe(complaint), "warning")

    @property
    def described(self) -> dict[str, str]:
        """The names of all commands, each with what it does."""
        own = {name: command.described for name, command in self._own.items()}
        return {**{name: text for name, (_, text) in self._commands.items()}, **own}

    @property
    def suggested(self) -> dict[str, str]:
        """The same with the names that other agents have for them."""
        return {**self.described, **{name: f"the same as /{target}" for name, target in _ALIASES.items()}}

    async def run(self, line: str) -> None:
        """Run a line that begins with a slash."""
        name, _, argument = line[1:].strip().partition(" ")
        command = self._commands.get(_ALIASES.get(name, name))
        if command is None and (own := self._own.get(name)) is not None:
            await self._send(own, line, argument.strip())
            return
        if command is None:
            near = difflib.get_close_matches(name, self.suggested, n=1)
            suggestion = f"did you mean /{near[0]}?" if near else "/help lists them"
            self._say(f"There is no command /{safe_line(name)}: {suggestion}", "error")
            return
        try:
            await command[0](argument.strip())
        except RestError as error:
            self._say(str(error), "error")
        if self.switch_to is not None:
            self.has_switched.set()

    async def _send(self, command: PromptCommand, line: str, arguments: str) -> None:
        """Send what a file says."""
        text = command.expanded(arguments)
        if await may_send(command, text, self._trust, self._conversation):
            self._conversation.say(text, line.strip(), typed_text=arguments)

    async def _help(self, _: str) -> None:
        self._table([(f"/{name}", text) for name, text in self.described.items()])
        self._table(_KEYS)

    async def _retry(self, _: str) -> None:
        if text := self._conversation.to_retry:
            self._conversation.say(text)
        else:
            self._say("The model has not failed since the last message")

    async def _agent(self, name: str) -> None:
        if name:
            await self._conversation.session.switch_agent(name)
            return
        session = self._conversation.session
        agents = session.info.agents if session.info is not None else []
        self._table(
            [
                (
                    "▸" if agent.get("name") == session.agent else " ",
                    agent.get("name", ""),
                    agent.get("description", ""),
                )
                for agent in agents or _objects(await self._rest.get("/agents"), "agents")
            ]
        )

    async def _agents(self, argument: str) -> None:
        """The agents, and those of the project: where they are, and whether the user trusts them."""
        project = self._conversation.agents
        verb, _, name = argument.partition(" ")
        if verb == "trust" and project is not None:
            await project.ask(self._conversation, name.strip())
        elif verb == "show" and project is not None and (agent := project.find(name.strip())) is not None:
            self._say(agent.question, "")
        elif verb == "show":
            self._say("The project has no such agent", "warning")
        else:
            await self._agent(argument)
            listed = project.listed() if project is not None and not argument else []
            self._table([("◌", name, text) for name, text in listed])

    async def _model(self, name: str) -> None:
        session = self._conversation.session
        if name:
            info = await session.configure(model=name)
            self._conversation.model = info.model or str(info.settings.get("model") or "")
            return
        models = session.info.models if session.info is not None else []
        if not models:
            self._say(self._conversation.model or "The server's default model", "")
            return
        choices = [Choice(str(model.get("name", "")), str(model.get("name", "")), _about(model)) for model in models]
        choices.sort(key=lambda choice: choice.value != self._conversation.model)
        title = f"Which model? Now: {safe_line(self._conversation.model) or 'the default of the server'}"
        if chosen := await self._conversation.screen.pick(title, choices):
            await self._model(chosen)

    async def _thinking(self, level: str) -> None:
        info = await self._conversation.session.configure(thinking=level or None)
        self._say(safe_line(info.settings.get("thinking") or "The model decides"), "")

    async def _thoughts(self, _: str) -> None:
        self._say(self._conversation.thoughts.strip() or "The model has shown no thoughts")

    async def _mode(self, mode: str) -> None:
        session = self._conversation.session
        await session.configure(mode=mode or None)
        self._say(safe_line(session.mode), "")

    async def _sessions(self, _: str) -> None:
        page = await self._rest.get("/sessions?limit=20")
        self._table(
            [
                (
                    session.get("session_id", ""),
                    str(session.get("last_activity", ""))[:16].replace("T", " "),
                    safe_line(session.get("title", ""), 60),
                )
                for session in _objects(page, "sessions")
            ]
        )

    async def _resume(self, session_id: str) -> None:
        if not session_id:
            session = self._conversation.session
            choices = await conversations(self._rest, session.address, self._conversation.workspace)
            others = [choice for choice in choices if choice.value != session.session_id]
            if not others:
                self._say("There is no other conversation")
                return
            chosen = await self._conversation.screen.pick(TITLE, others, partial(newest, self._rest))
            if chosen is None:
                return
            session_id = chosen
        target = checked_session_id(session_id)
        try:
            await self._rest.history(target, 1)
        except RestError as error:  # others do not keep anybody from it: only its history is not shown
            if error.status == HTTPStatus.NOT_FOUND:
                self._say(f"There is no conversation {target}; /sessions lists them", "error")
                return
        self.switch_to = target

    async def _edit(self, _: str) -> None:
        from codelab_client.rewind import Rewind

        conversation = self._conversation
        if conversation.is_working:
            self._say("A turn is running: stop it first (Esc)", "warning")
            return
        rewind = Rewind(conversation.session, self._rest, self._executor)
        points = await rewind.points()
        if not points:
            self._say("There is no message of yours to change", "warning")
            return
        rewound = await rewind.go_back(await rewind.preview(points[0].message_id), "conversation")
        self.switch_to, self.draft = rewound.session_id, rewound.draft
        self._say(f"A copy of the conversation before that message. /resume {conversation.session.session_id} goes")
        self._say("back to the whole one; files stay as they are.")

    async def _rewind(self, _: str) -> None:
        from codelab_client.terminal.going_back import GoingBack

        rewound = await GoingBack(self._conversation, self._rest, self._executor).run()
        if rewound is not None and rewound.session_id is not None:
            self.switch_to, self.draft = rewound.session_id, rewound.draft

    async def _new(self, _: str) -> None:
        from codelab_client.session import new_session_id

        self.switch_to = new_session_id()

    async def _queue(self, argument: str) -> None:
        conversation = self._conversation
        verb, _, number = argument.partition(" ")
        if not argument:
            queued = list(conversation.session.queued.values())
            self._table([(str(place), text) for place, text in enumerate(queued, 1)])
            if not queued:
                self._say("No message waits")
        elif verb not in ("edit", "drop") or not number.strip().isdecimal():
            self._say("/queue, /queue edit NUMBER, /queue drop NUMBER", "error")
        elif (text := await conversation.take_back(int(number))) is None:
            self._say(f"No message with the number {number.strip()} waits", "error")
        elif verb == "edit":
            conversation.screen.put(text)

    async def _steer(self, text: str) -> None:
        if text:
            await self._conversation.session.send(text, when_busy="steer")
        else:
            self._say("/steer MESSAGE", "error")

    async def _checkpoints(self) -> "Checkpoints | None":
        checkpoints = await self._executor.checkpoints()
        if checkpoints is None:
            self._say("There are no checkpoints: the folder of the state is inside the workspace", "warning")
        return checkpoints

    async def _undo(self, extent: str) -> None:
        await self._take_back("undo", extent)

    async def _redo(self, extent: str) -> None:
        await self._take_back("redo", extent)

    async def _take_back(self, command: Literal["undo", "redo"], extent: str) -> None:
        from codelab_client.checkpoints import CheckpointFailed, report

        checkpoints = await self._checkpoints()
        if checkpoints is None:
            return
        if extent not in ("", "all"):
            self._say(f"/{command}, /{command} all", "error")
        elif self._conversation.is_busy:
            self._say("A turn is running: stop it first (Ctrl-C)", "warning")
        else:
            method = checkpoints.undo if command == "undo" else checkpoints.redo
            try:
                summary = report(await method(everything=extent == "all"), command)
            except CheckpointFailed as failure:
                self._say(str(failure), "error")
                return
            self._conversation.show_report(summary)

    async def _diff(self, _: str) -> None:
        from codelab_client.checkpoints import CheckpointFailed

        checkpoints = await self._checkpoints()
        if checkpoints is None:
            return
        try:
            diff = await checkpoints.diff()
        except CheckpointFailed as failure:
            self._say(str(failure), "error")
            return
        if diff.strip():
            self._conversation.screen.show(cards.diff(spelled_out(diff.removesuffix("\n").split("\n"))))
        else:
            self._say("The last turn changed no file")

    async def _rules(self, argument: str) -> None:
        from codelab_client.session.standing import change, listed

        session, allowed = self._conversation.session, self._conversation.allowed_commands
        if argument and self._revokes_command(argument):
            lines = ["Revoked"]
        elif argument:
            lines = [safe(await change(session, argument))]
        else:
            lines = [*map(safe, allowed.listed()), *await listed(session)]
        for line in lines or ["No decisions are remembered"]:
            self._say(line, "")

    def _revokes_command(self, argument: str) -> bool:
        """Whether `/rules ARGUMENT` takes back a command that was allowed here."""
        action, _, rule_id = argument.partition(" ")
        return action == "revoke" and self._conversation.allowed_commands.revoke(rule_id.strip())

    async def _permissions(self, argument: str) -> None:
        from codelab_client.project.permissions import FILE
        from codelab_client.session.standing import change, listed

        conversation = self._conversation
        session, allowed, project = conversation.session, conversation.allowed_commands, conversation.allowed_calls
        if argument == "trust":
            await project.ask(conversation)
            return
        for line in project.listed():
            self._say(line, "")
        lines = [line.partition("  ") for line in [*map(safe, allowed.listed()), *await listed(session)]]
        choices = [Choice(rule_id, covers.strip(), rule_id) for rule_id, _, covers in lines]
        if project.is_trusted:
            choices.append(Choice(FILE, f"all that {FILE} allows", "the project"))
        if not choices:
            self._say("Nothing runs unasked but what the mode allows")
            return
        rule_id = await self._conversation.screen.pick("What runs unasked: Enter revokes it", choices)
        if rule_id == FILE:
            await project.forget()
            self._say("Revoked.", "")
        elif rule_id is not None and not allowed.revoke(rule_id):
            self._say(safe(await change(session, f"revoke {rule_id}")), "")

    async def _hooks(self, argument: str) -> None:
        hooks = self._conversation.hooks
        if hooks is None or not hooks.hooks:
            self._say("This workspace names no hooks (.codelab/hooks.toml)")
        elif argument == "trust":
            await hooks.start(self._conversation, again=True)
        else:
            for line in await hooks.listed():
                self._say(line, "")

    async def _cost(self, _: str) -> None:
        conversation = self._conversation
        cost = f"${conversation.cost_usd:.4f}" if conversation.cost_usd is not None else "the server tells no prices"
        tokens = conversation.tokens
        self._say(
            f"since the start: {counted(conversation.turns, 'turn')}, {tokens['prompt_tokens']:,} tokens in, "
            f"{tokens['completion_tokens']:,} out, {cost}",
            "",
        )

    async def _copy(self, argument: str) -> None:
        from codelab_client.terminal.clipboard import NothingToCopy, selection

        try:
            text = selection(self._conversation.answer_text, argument)
            if way := await self._conversation.screen.copy(text):
                self._say(f"copied {len(text):,} characters, {way}")
            else:
                self._say("Lines only cannot copy: /copy works without --plain", "warning")
        except NothingToCopy as reason:
            self._say(str(reason), "warning")

    async def _raw(self, _: str) -> None:
        text = self._conversation.answer_text.strip("\n")
        self._conversation.screen.show(cards.unbroken(text) if text else cards.notice("There is no answer yet"))

    async def _remember(self, argument: str) -> None:
        scope, text = scope_of(argument)
        if not text:
            self._say("/remember TEXT keeps a note; /notes shows what was kept")
            return
        notes = Notes(self._conversation.workspace)
        if scope is None:
            places: dict[str, Scope] = {
                f"in this project ({notes.place('project')})": "project",
                f"in all my projects ({notes.place('user')})": "user",
            }
            choice = await self._conversation.choose(f"Remember: {text}", (*places, _FORGET))
            if choice is None or choice == _FORGET:
                return
            scope = places[choice]
        try:
            await asyncio.to_thread(notes.add, scope, text)
        except NoteRefused as reason:
            self._say(safe(reason), "warning")
            return
        await self._tell_notes()
        self._say(f"Kept in {notes.place(scope)}: the agent reads it with your next message", "")

    async def _notes(self, _: str) -> None:
        notes = Notes(self._conversation.workspace)
        try:
            complaints: list[str] = []
            entries = await asyncio.to_thread(notes.listed, complaints.append)
            for complaint in complaints:
                self._say(safe(complaint), "warning")
            choices = [
                Choice(str(index), safe_line(note.text), notes.place(note.scope)) for index, note in enumerate(entries)
            ]
            if not choices:
                self._say("There are no notes: /remember TEXT keeps one")
                return
            number = await self._conversation.screen.pick("What agents keep in mind: Enter takes it away", choices)
            if number is not None:
                await asyncio.to_thread(notes.remove, entries[int(number)])
                await self._tell_notes()
                self._say("Taken away", "")
        except NoteRefused as reason:
            self._say(safe(reason), "warning")

    async def _tell_notes(self) -> None:
        await self._conversation.session.instruct(*await self._executor.about())

    async def _init(self, _: str) -> None:
        self._conversation.say(_INIT, "/init")

    async def _setup(self, _: str) -> None:
        # -P: the current folder, which is the workspace, is no place for Python's modules
        command = [sys.executable, "-P", "-m", "codelab_client.command_line", "setup"]
        code = await self._conversation.screen.lend(lambda: subprocess.call(command))
        if code is None:
            self._say("Run `codelab setup` in another terminal", "warning")
        elif code == 0:
            self._say("A local cloud uses it from the next message on")

    async def _compact(self, _: str) -> None:
        outcome = await self._conversation.session.compact()
        if outcome == "nothing_to_compact":
            self._say("The conversation is too short to be worth a summary", "")
        elif outcome in ("compacting", "repeated"):
            self._say("The model writes a summary of the conversation …", "")

    async def _usage(self, _: str) -> None:
        usage = self._conversation.usage
        if usage:
            details = usage.get("prompt_details") or {}
            parts = ", ".join(f"{name.removesuffix('_tokens')} {value}" for name, value in details.items())
            number = usage.get("llm_calls")
            calls = counted(number, "call") if isinstance(number, int) else "? calls"
            self._say(
                f"last turn: {usage.get('prompt_tokens')} tokens in ({safe_line(parts)}), "
                f"{usage.get('completion_tokens')} out, {calls} of the model",
                "",
            )
        content = await self._rest.get("/usage")
        quotas = content.get("quotas") if isinstance(content, dict) else None
        valid_quotas = [(name, quota) for name, quota in (quotas or {}).items() if isinstance(quota, dict)]
        self._table([(name, f"{quota.get('used')} of {quota.get('limit')}") for name, quota in valid_quotas])
        if not quotas:
            self._say("The server limits nothing")

    async def _files(self, argument: str) -> None:
        session = self._conversation.session
        verb, _, path = argument.partition(" ")
        if verb == "add" and path:
            await session.add_file(path.strip().removeprefix("@"))
        elif verb == "remove" and path:
            await session.remove_file(path.strip().removeprefix("@"))
        elif verb == "clear":
            await session.clear_files()
        elif argument:
            self._say("/files, /files add PATH, /files remove PATH, /files clear", "error")
            return
        context = await self._rest.get(f"/context/{of_session(session.session_id)}")
        files = _objects(context, "files")
        for file in files:
            self._say(safe_line(file.get("path", "")), "")
        if not files:
            self._say("The agent sees no files unless it reads them")

    async def _quit(self, _: str) -> None:
        self.wants_to_quit = True

    def _table(self, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._conversation.screen.show(cards.table([[safe_line(cell, 300) for cell in row] for row in rows]))

    def _say(self, text: str, style: str = "quiet") -> None:
        self._conversation.screen.show(cards.notice(text, style))


def _about(model: dict[str, Any]) -> str:
    """What a model can take, in a line."""
    levels = model.get("thinking")
    parts = (
        f"{model.get('context_tokens', '?')} tokens",
        "images" if model.get("images") else "",
        f"thinking {', '.join(map(str, levels))}" if isinstance(levels, list) and levels else "",
    )
    return "  ".join(filter(None, parts))


def _objects(content: Any, name: str) -> list[dict[str, Any]]:
    items = content.get(name) if isinstance(content, dict) else None
    if not isinstance(items, list):
        raise RestError(f"The server's answer is not as documented: {json.dumps(content)[:100]}")
    return [item for item in items if isinstance(item, dict)]
