"""The slash commands that the editor offers, answered without the model."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from codelab_client.acp.tool_calls import fenced, shortened
from codelab_client.allowed_commands import AllowedCommands
from codelab_client.local_executor import LocalExecutor
from codelab_client.notes import NoteRefused, Notes, scope_of
from codelab_client.project.agents import ProjectAgents
from codelab_client.project.allowed_calls import AllowedCalls
from codelab_client.project.commands import PromptCommand, commands_of
from codelab_client.project.hooks import FILE as HOOKS
from codelab_client.project.hooks import ProjectHooks
from codelab_client.project.permissions import FILE
from codelab_client.safe_text import exact, safe, safe_line
from codelab_client.session import Session, SessionError
from codelab_client.session.rest import Rest, RestError

if TYPE_CHECKING:
    from codelab_client.checkpoints import Report

Command = Callable[[], Awaitable[str]]
#: Characters of the code that names what was shown.
_CODE_CHARS = 8
_NO_CHECKPOINTS = "There are no checkpoints: the folder of the client's state is inside the workspace."


class Commands:
    """The commands of one session. usage: of the last turn. servers, compact: what `/mcp` and `/compact` do. allowed:
    what `/rules` lists. project: what it allows.
    """

    def __init__(
        self,
        executor: LocalExecutor,
        rest_api: Rest,
        servers: Callable[[str], Awaitable[str]],
        compact: Callable[[str], Awaitable[str]],
        allowed: AllowedCommands,
        project: AllowedCalls,
        hooks: ProjectHooks,
        agents: ProjectAgents,
    ) -> None:
        self._executor, self._rest_api, self._allowed = executor, rest_api, allowed
        self._project, self._hooks, self._agents = project, hooks, agents
        self._root = project.permissions.root
        self._own: dict[str, PromptCommand] = {}
        self.session: Session
        self.usage: Mapping[str, Any] = {}
        self._commands: dict[str, tuple[Callable[[str], Awaitable[str]], str, str]] = {
            "undo": (self._undo, "Take back what the last turn did to files", "all: also what it names and leaves"),
            "redo": (self._redo, "Bring back what /undo took back", "all: also what it names and leaves"),
            "rewind": (
                self._rewind,
                "Go back to before one of your messages: conversation, files, or both",
                "NUMBER of the message",
            ),
            "diff": (self._diff, "Show what the last turn did to files", ""),
            "compact": (compact, "Let a summary replace the conversation so far for the model", ""),
            "rules": (self._rules, "List what runs without a question", "revoke ID, or allow elsewhere"),
            "permissions": (self._permissions, "List the project's permissions, trust what they allow", "trust CODE"),
            "hooks": (
                self._show_hooks,
                "List the programs that the project runs around calls, trust them",
                "trust CODE",
            ),
            "remember": (self._remember, "Keep a note for the agent", "TEXT, or --user TEXT: in all your projects"),
            "notes": (self._notes, "List what agents are to keep in mind, take it away", "forget NUMBER"),
            "agents": (self._show_agents, "List the project's agents, show and trust them", "NAME, or trust NAME CODE"),
            "usage": (self._usage, "Show tokens and quotas", ""),
            "mcp": (
                servers,
                "Show MCP servers and their tools, trust them as they are",
                "NAME, trust NAME CODE, start NAME or tools NAME",
            ),
        }

    async def load(self, say: Callable[[str], None]) -> None:
        """Read the commands that are files. None takes the name of another command."""
        self._own = await asyncio.to_thread(commands_of, self._root, self._commands, say)

    @property
    def has_own(self) -> bool:
        """Whether there are commands that are files."""
        return bool(self._own)

    def own(self, text: str) -> tuple[PromptCommand, str] | None:
        """The command that is a file which a prompt names, and its arguments."""
        name, _, arguments = text.strip().removeprefix("/").partition(" ")
        command = self._own.get(name) if text.strip().startswith("/") else None
        return None if command is None else (command, arguments.strip())

    def listed(self) -> list[dict[str, Any]]:
        """`availableCommands`."""
        own = [(name, command.described, command.hint) for name, command in self._own.items()]
        built_in = [(name, description, hint) for name, (_, description, hint) in self._commands.items()]
        return [
            {"name": name, "description": description, **({"input": {"hint": hint}} if hint else {})}
            for name, description, hint in (*built_in, *own)
        ]

    def find(self, text: str) -> Command | None:
        """What a prompt runs, if it is a command."""
        name, _, argument = text.strip().removeprefix("/").partition(" ")
        method = self._commands.get(name) if text.strip().startswith("/") else None
        if method is None:
            return None
        run = method[0]

        async def command() -> str:
            try:
                return await run(argument.strip())
            except (RestError, SessionError) as error:
                return safe(error)

        return command

    async def _undo(self, extent: str) -> str:
        return await self._take_back("undo", extent)

    async def _redo(self, extent: str) -> str:
        return await self._take_back("redo", extent)

    async def _take_back(self, command: Literal["undo", "redo"], extent: str) -> str:
        from codelab_client.checkpoints import CheckpointFailed, report

        checkpoints = await self._executor.checkpoints()
        if checkpoints is None:
            return _NO_CHECKPOINTS
        if extent not in ("", "all"):
            return f"`/{command}`, `/{command} all`"
        method = checkpoints.undo if command == "undo" else checkpoints.redo
        try:
            summary = report(await method(everything=extent == "all"), command)
        except CheckpointFailed as failure:
            return safe(failure)
        return _formatted(summary)

    async def _rewind(self, argument: str) -> str:
        from codelab_client.acp.going_back import GoingBack

        return await GoingBack(self.session, self._rest_api, self._executor, self._root, _formatted).run(argument)

    async def _diff(self, _: str) -> str:
        from codelab_client.checkpoints import CheckpointFailed

        checkpoints = await self._executor.checkpoints()
        if checkpoints is None:
            return _NO_CHECKPOINTS
        try:
            diff = await checkpoints.diff()
        except CheckpointFailed as failure:
            return safe(failure)
        return fenced(shortened(exact(diff)), "diff") if diff.strip() else "The last turn changed no file."

    async def _rules(self, argument: str) -> str:
        from codelab_client.session.standing import change, listed

        action, _, rule_id = argument.partition(" ")
        if action == "revoke" and self._allowed.revoke(rule_id.strip()):
            return "Revoked."
        if argument:
            return safe(await change(self.session, argument))
        lines = [*map(safe, self._allowed.listed()), *await listed(self.session)]
        return "\n".join(f"- {line}" for line in lines) or "There are no rules."

    async def _permissions(self, argument: str) -> str:
        verb, _, code = argument.partition(" ")
        key = await self._project.key()
        if verb == "trust":
            if key is None or not code.strip() or not key.startswith(code.strip()) or len(code.strip()) < _CODE_CHARS:
                return "That is not what the project allows now: `/permissions` shows it."
            return "It is trusted as it is." if await self._project.trust(key) else "It has just changed: not trusted."
        permissions = "\n".join(self._project.listed())
        if not permissions:
            return f"There is no {FILE}."
        trusts = (
            f"\n`/permissions trust {key[:_CODE_CHARS]}` trusts what it allows, as it is."
            if (key is not None and self._project.permissions.of("allow") and not self._project.is_trusted)
            else ""
        )
        return f"{fenced(permissions)}{trusts}"

    async def _show_hooks(self, argument: str) -> str:
        subjects = await self._hooks.subjects()
        if not subjects:
            return f"There is no {HOOKS}."
        code = hashlib.sha256("".join(subject.key for subject in subjects).encode()).hexdigest()[:_CODE_CHARS]
        verb, _, typed_code = argument.partition(" ")
        if verb != "trust":
            programs = "\n".join([*await self._hooks.listed(), "", await self._hooks.question(subjects)])
            return f"{fenced(safe(programs))}\n`/hooks trust {code}` trusts them as they are."
        if typed_code.strip() != code:
            return "That is not what the hooks are now: `/hooks` shows them."
        is_trusted = await self._hooks.trust(subjects)
        return "They are trusted as they are." if is_trusted else "They have just changed: not trusted."

    async def _remember(self, argument: str) -> str:
        scope, text = scope_of(argument)
        notes = Notes(self._root)
        try:
            await asyncio.to_thread(notes.add, scope or "project", text)
        except NoteRefused as reason:
            return safe(reason)
        await self._tell_notes()
        return f"Kept in {_code(notes.place(scope or 'project'))}: the agent reads it with your next message."

    async def _notes(self, argument: str) -> str:
        notes = Notes(self._root)
        verb, _, typed_number = argument.partition(" ")
        try:
            complaints: list[str] = []
            entries = await asyncio.to_thread(notes.listed, complaints.append)
            if verb != "forget":
                lines = [safe(complaint) for complaint in complaints]
                lines += [
                    f"{number}. {_code(safe_line(note.text))} ({notes.place(note.scope)})"
                    for number, note in enumerate(entries, 1)
                ]
                return "\n".join(lines) or "There are no notes: `/remember TEXT` keeps one."
            if not typed_number.strip().isdecimal() or not 1 <= int(typed_number) <= len(entries):
                return "`/notes` numbers them."
            await asyncio.to_thread(notes.remove, entries[int(typed_number) - 1])
        except NoteRefused as reason:
            return safe(reason)
        await self._tell_notes()
        return "Taken away."

    async def _tell_notes(self) -> None:
        await self.session.instruct(*await self._executor.about())

    async def _show_agents(self, argument: str) -> str:
        if not argument:
            lines = [f"- {name}: {safe_line(text)}" for name, text in self._agents.listed()]
            return "\n".join(lines) or "The project has no agents."
        verb, *words = argument.split()
        agent = self._agents.find(words[0] if verb == "trust" and words else verb)
        if agent is None:
            return "The project has no such agent."
        code = self._agents.key(agent)[:_CODE_CHARS]
        if verb != "trust":
            trusts = (
                "" if self._agents.is_trusted(agent) else f"\n`/agents trust {agent.name} {code}` trusts it as it is."
            )
            return f"{fenced(agent.question)}{trusts}"
        if words[1:] != [code]:
            return f"That is not what it is: `/agents {agent.name}` shows it."
        await self._agents.decide(agent, is_trusted=True)
        return "It is trusted as it is."

    async def _usage(self, _: str) -> str:
        lines = []
        if self.usage:
            of_turn = [safe_line(self.usage.get(name, "?")) for name in ("prompt_tokens", "completion_tokens")]
            lines.append(f"- last turn: {of_turn[0]} tokens in, {of_turn[1]} out")
        usage = await self._rest_api.get("/usage")
        quotas = usage.get("quotas") if isinstance(usage, dict) else None
        for name, quota in (quotas if isinstance(quotas, dict) else {}).items():
            if isinstance(quota, dict):
                lines.append(f"- {safe_line(name)}: {safe_line(quota.get('used'))} of {safe_line(quota.get('limit'))}")
        return "\n".join(lines) or "The server limits nothing."


def _formatted(report: "Report") -> str:
    lists = [f"{files.title}:\n{_files(files.paths)}" if files.title else _files(files.paths) for files in report.lists]
    return "\n\n".join(filter(None, (safe_line(report.gist), *lists, report.hint)))


def _files(paths: Sequence[str]) -> str:
    """A list of whole paths, each in one line and as it is."""
    return "\n".join(f"- {_code(safe(path.replace(chr(10), chr(92) + 'n')))}" for path in paths)


def _code(text: str) -> str:
    """A text as code in Markdown, whatever backticks it has."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"
