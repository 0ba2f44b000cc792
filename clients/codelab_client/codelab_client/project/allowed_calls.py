"""The calls that a project's permissions allow: once the user has trusted them, as long as they are what was trusted.

An entry allows no more than "always" does at a question: the server must have offered to remember such a call, and a
command counts as one that the user has allowed as it was when the conversation began (`AllowedCommands`).
"""

import asyncio
from collections.abc import Callable

from codelab_client.allowed_commands import AllowedCommands, named_in_command
from codelab_client.project.permissions import FILE, ProjectPermissions
from codelab_client.session.events import CallDecidedElsewhere, ToolCall
from codelab_client.tools.dialogue import Dialogue
from codelab_client.trust import TrustFile

_TRUST, _LATER, _NEVER = "allow them here, from now on", "not now", "never"


class AllowedCalls:
    """The permissions of one conversation. say: tells the user something. commands: those allowed in it, if any are."""

    def __init__(
        self,
        permissions: ProjectPermissions,
        trust: TrustFile,
        say: Callable[[str], None],
        commands: AllowedCommands | None,
    ) -> None:
        self.permissions, self._trust, self._say, self._commands = permissions, trust, say, commands
        self.is_trusted = False

    def covers(self, call: ToolCall) -> bool:
        """Whether a call that waits for approval is approved without a question. Commands are not: see `start`."""
        may_remember = "session" in call.scopes and not isinstance(call, CallDecidedElsewhere)
        return (
            self.is_trusted
            and may_remember
            and call.arguments is not None
            and self.permissions.allows(call.tool_name, call.arguments)
        )

    async def start(self, dialogue: Dialogue | None) -> None:
        """Ask the user to trust the entries that allow something, unless they have decided about just these."""
        key = await self.key()
        decision = None if key is None else self._trust.decision(key)
        if decision == "trusted" and key is not None:
            await self._begin(key)
        elif decision is None and self.permissions.of("allow"):
            await self.ask(dialogue)

    async def ask(self, dialogue: Dialogue | None) -> None:
        """Ask the user to trust what the project allows, as it is now. Without a dialogue, they are only told."""
        key = await self.key()
        if not self.permissions.of("allow"):
            self._say(f"{FILE} allows nothing")
        elif key is None:
            self._say(f"{FILE} allows nothing: nobody can tell what its commands run")
        elif dialogue is None:
            self._say(f"{FILE} allows calls, and you have not trusted that yet, so they ask: /permissions shows it")
        else:
            choice = await dialogue.choose(self.question(), (_TRUST, _LATER, _NEVER))
            if choice == _TRUST:
                await self.trust(key)
            elif choice == _NEVER:
                self._trust.decide(key, FILE, "denied")

    async def trust(self, key: str) -> bool:
        """The user trusts the permissions that have this key. Returns False if they have become others."""
        if await self.key() != key:
            self._say(f"{FILE}, or a file that its commands run, has changed meanwhile: nothing is allowed")
            return False
        self._trust.decide(key, FILE, "trusted")
        await self._begin(key)
        return self.is_trusted

    async def forget(self) -> None:
        """Allow nothing any more, and ask again in the next conversation."""
        self.is_trusted = False
        for arguments in self.permissions.commands():
            if self._commands is not None:
                self._commands.forget(_call(arguments))
        self._trust.decide("", FILE, None)

    async def key(self) -> str | None:
        """Changes with the file, and with what its commands name in the workspace; None if nobody can tell."""
        root = self.permissions.root
        try:
            digests = [
                (
                    await asyncio.to_thread(named_in_command, root, arguments["command"], arguments.get("cwd") or ".")
                ).digest()
                for arguments in self.permissions.commands()
            ]
        except (OSError, ValueError, RuntimeError):
            return None
        return self._trust.key(FILE, self.permissions.content.decode(), digests)

    def question(self) -> str:
        """What the user decides about."""
        lines = [f"  {entry.described()}" for entry in self.permissions.of("allow")]
        return "\n".join([f"{FILE} of this workspace wants these to run without a question:", *lines])

    def listed(self) -> list[str]:
        """A line for each entry, with what it is worth."""
        allowed = "trusted" if self.is_trusted else "not trusted: it asks"
        states = {"deny": "holds", "ask": "holds", "allow": allowed}
        return [f"{entry.described()}  ({FILE}, {states[entry.effect]})" for entry in self.permissions.entries]

    async def _begin(self, key: str) -> None:
        """Let the entries count: commands as they are now, if they are what was trusted."""
        for arguments in self.permissions.commands():
            if self._commands is not None and not await self._commands.allow(_call(arguments)):
                self._say(f"{arguments['command']} asks: there is too much here to see when it changes")
        if await self.key() == key:
            self.is_trusted = True
            return
        for arguments in self.permissions.commands():
            if self._commands is not None:
                self._commands.forget(_call(arguments))


def _call(arguments: object) -> ToolCall:
    assert isinstance(arguments, dict)
    return ToolCall(frame={}, call_id="", tool_name="run_command", requires_approval=True, arguments=arguments)
