"""Slash commands that are files: a text that `/NAME ARGUMENTS` sends as a message of the user.

They are in the workspace (`.codelab/commands/NAME.md`, and those of other agents where they mean the same) or the
user's own. A text of the workspace may be a stranger's, so the user sees it before it is sent. Nothing in it is run.
"""

import re
import shlex
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from codelab_client import front_matter
from codelab_client.project.texts import Say, TextFile, texts_of
from codelab_client.safe_text import safe_line
from codelab_client.tools.dialogue import Dialogue
from codelab_client.trust import TrustFile

#: Where a workspace has commands, in this order.
FOLDERS = (".codelab/commands", ".claude/commands", ".opencode/command", ".opencode/commands")
_MOST_COMMANDS, _MOST_BYTES = 100, 50_000
_PLACEHOLDER = re.compile(r"\$(ARGUMENTS\b|[1-9])")
_DESCRIBED = 120
_ALWAYS, _ONCE, _NO = "send it, and from now on without showing it", "send it this once", "do not send it"


@dataclass(frozen=True)
class PromptCommand:
    """A command. place: its file, for people. hint: its arguments, for people. text: what it sends.

    is_users: the user has written it, or somebody who may write to the user's own folder.
    """

    name: str
    place: str
    text: str
    description: str = ""
    hint: str = ""
    is_users: bool = False

    @property
    def described(self) -> str:
        """What it does and where it comes from, in a line."""
        return f"{self.description or 'send this text'} ({self.place})"

    def expanded(self, arguments: str) -> str:
        """The message: `$ARGUMENTS` is all that was typed, `$1` to `$9` its words; at the end if it names neither."""
        words = _words(arguments)

        def value(match: "re.Match[str]") -> str:
            if match[1] == "ARGUMENTS":
                return arguments
            number = int(match[1])
            return words[number - 1] if number <= len(words) else ""

        text, count = _PLACEHOLDER.subn(value, self.text)
        return text.strip() if count or not arguments else f"{text.strip()}\n\n{arguments}"


def commands_of(workspace: Path, reserved_names: Container[str], say: Say) -> dict[str, PromptCommand]:
    """The commands of a workspace and the user's own, which come first. reserved_names: those that no file takes.

    say: tells what is left out, and why.
    """
    commands: dict[str, PromptCommand] = {}
    for file in texts_of(workspace, "commands", FOLDERS, _MOST_BYTES, say):
        if (command := _command_of(file, say)) is None:
            continue
        key = command.name.casefold()
        if key in reserved_names:
            say(f"{command.place} is left out: /{key} is a command of codelab")
        elif key in commands:
            say(f"{command.place} is left out: /{key} is {commands[key].place}")
        elif len(commands) == _MOST_COMMANDS:
            say(f"There are more than {_MOST_COMMANDS} commands: {command.place} and those after it are left out")
            break
        else:
            commands[key] = command
    return {command.name: command for command in commands.values()}


def key_of(command: PromptCommand, trust: TrustFile) -> str:
    """Changes with the file and its text."""
    return trust.key(command.place, command.text)


async def may_send(command: PromptCommand, text: str, trust: TrustFile, dialogue: Dialogue | None) -> bool:
    """Whether the user wants to send what a command says. text: the whole message, which they see unless they trust it.

    Without a dialogue, only what they have trusted is sent.
    """
    key = key_of(command, trust)
    if command.is_users or trust.decision(key) == "trusted":
        return True
    if dialogue is None:
        return False
    question = f"{command.place} of this workspace is what /{command.name} sends. Nothing in it runs:\n{text}"
    choice = await dialogue.choose(question, (_ALWAYS, _ONCE, _NO))
    if choice == _ALWAYS:
        trust.decide(key, command.place, "trusted")
    return choice in (_ALWAYS, _ONCE)


def _command_of(file: TextFile, say: Say) -> PromptCommand | None:
    fields, text = front_matter.split(file.text)
    if not text.strip():
        say(f"{file.place} is left out: it has no text")
        return None
    description = fields.get("description") or next((line for line in text.splitlines() if line.strip("# -\t")), "")
    return PromptCommand(
        file.name,
        file.place,
        text,
        safe_line(description.lstrip("# "), _DESCRIBED),
        safe_line(fields.get("argument-hint", ""), _DESCRIBED),
        file.is_users,
    )


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a quote that does not end
        return arguments.split()
