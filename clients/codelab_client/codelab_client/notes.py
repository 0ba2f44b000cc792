"""Notes: what a user wants agents to keep in mind, in one project or in all of them.

They are the lines `- …` of two Markdown files: `.codelab/notes.md` of the workspace, `notes.md` in the user's folder.
`/remember` adds to them what the user has typed, and nothing else of the client writes them; the agent may change the
project's as any other file, which always asks, because `.codelab` is protected. Agents get both files as they get
AGENTS.md.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from codelab_client.config import config_folder
from codelab_client.safe_text import exact_line
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.tree import Names, Tree

Scope = Literal["user", "project"]

#: The project's file, in the workspace.
PROJECT: Names = (".codelab", "notes.md")
#: The path of the user's file for the model, which cannot read it by a call.
USERS_PATH = "notes of the user.md"
_SCOPES: tuple[Scope, ...] = ("user", "project")
#: Characters of a note, and bytes of a file.
MOST_CHARS, _MOST_BYTES = 1_000, 32_000
_NOTE = re.compile(r"^[-*][ \t]+(\S.*)$")


class NoteRefused(Exception):
    """A note cannot be kept or taken away. The message says why, for people."""


class Note(NamedTuple):
    """A note, with the line of its file, from 0 on."""

    scope: Scope
    text: str
    line: int


class Notes:
    """Those for a workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def listed(self, say: Callable[[str], None]) -> list[Note]:
        """The user's, then the project's. say: tells which file cannot be read, and why."""
        notes: list[Note] = []
        for scope in _SCOPES:
            try:
                notes += self._of(scope)
            except NoteRefused as reason:
                say(str(reason))
        return notes

    def add(self, scope: Scope, text: str) -> None:
        """Add a note. Raises NoteRefused."""
        text = " ".join(text.split())
        if not text or len(text) > MOST_CHARS:
            raise NoteRefused(f"A note has 1 to {MOST_CHARS:,} characters")
        content = self.content(scope)
        separator = "" if not content or content.endswith("\n") else "\n"
        self._write(scope, f"{content}{separator}- {text}\n")

    def remove(self, note: Note) -> None:
        """Take a note away that was listed. Raises NoteRefused if it is not there any more."""
        lines = self.content(note.scope).split("\n")
        if note.line >= len(lines) or _text_of(lines[note.line]) != note.text:
            raise NoteRefused("The notes have changed meanwhile: look at them again")
        del lines[note.line]
        self._write(note.scope, "\n".join(lines))

    def content(self, scope: Scope) -> str:
        """The file, empty if there is none. Raises NoteRefused if it cannot be read."""
        folder, names = self._located(scope)
        try:
            tree = Tree(folder)
        except OSError:
            return ""
        try:
            if not tree.real(names)[-1].casefold().endswith(".md"):  # `notes.md -> ../.env` would send secrets unasked
                raise NoteRefused(f"{self.place(scope)} is a link to something else")
            return tree.read(names, _MOST_BYTES).data.decode()
        except ToolFailure as failure:
            if failure.code == "FILE_NOT_FOUND":
                return ""
            raise NoteRefused(f"{self.place(scope)}: {failure.message}") from None
        except UnicodeError:
            raise NoteRefused(f"{self.place(scope)} is not UTF-8") from None
        finally:
            tree.close()

    def place(self, scope: Scope) -> str:
        """The file, for people."""
        if scope == "project":
            return "/".join(PROJECT)
        path = config_folder() / "notes.md"
        return exact_line(f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else path)

    def instructions(self) -> Iterator[dict[str, str]]:
        """The `path` and `content` of the files that say something. `/notes` says why one cannot be read."""
        for scope in _SCOPES:
            try:
                content = self.content(scope)
            except NoteRefused:
                continue
            if content.strip():
                yield {"path": USERS_PATH if scope == "user" else "/".join(PROJECT), "content": content}

    def _of(self, scope: Scope) -> Iterator[Note]:
        for number, line in enumerate(self.content(scope).split("\n")):
            if text := _text_of(line):
                yield Note(scope, text, number)

    def _located(self, scope: Scope) -> tuple[Path, Names]:
        """A folder, and the names in it. The user's file may be a link, to wherever the user keeps such files."""
        if scope == "project":
            return self._workspace, PROJECT
        path = (config_folder() / "notes.md").resolve()
        return path.parent, (path.name,)

    def _write(self, scope: Scope, content: str) -> None:
        data = content.encode()
        if len(data) > _MOST_BYTES:
            raise NoteRefused(f"{self.place(scope)} would have more than {_MOST_BYTES:,} bytes")
        folder, names = self._located(scope)
        try:
            if scope == "user":
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tree = Tree(folder)
        except OSError as error:
            raise NoteRefused(f"{self.place(scope)}: {error.strerror}") from None
        try:
            tree.write(names, data)
        except ToolFailure as failure:
            raise NoteRefused(f"{self.place(scope)}: {failure.message}") from None
        finally:
            tree.close()


def scope_of(argument: str) -> tuple[Scope | None, str]:
    """What `/remember` was told: the scope, None if it is not said, and the note."""
    first, _, remainder = argument.partition(" ")
    scopes: dict[str, Scope] = {"--user": "user", "--project": "project"}
    return (scopes[first], remainder.strip()) if first in scopes else (None, argument.strip())


def _text_of(line: str) -> str:
    """The note in a line, empty if it is none."""
    match = _NOTE.fullmatch(line.rstrip())
    return match[1] if match else ""
