"""Searches and lists with ripgrep, in the sandbox: it opens files by their paths, so links that are swapped could
mislead it.

It looks at what `workspace.walk` looks at: no links, and nothing that version control ignores. It is only faster.
"""

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from codelab_client.execution import Stream
from codelab_client.sandbox import Access, Sandbox
from codelab_client.tools import globs, limits
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import joined
from codelab_client.tools.processes import Process
from codelab_client.tools.repository import find
from codelab_client.tools.tree import Names
from codelab_client.tools.workspace import Match, Pattern

#: The most characters of ripgrep's output that are read.
_OUTPUT = 32_000_000
_WALKING = ("--no-config", "--no-messages", "--hidden", "--glob=!.git", "--no-ignore-dot", "--no-ignore-global")
_SEARCHING = ("--json", "--sort=path", f"--max-filesize={limits.SEARCHED_BYTES}", "--max-columns=0")
#: The last name of a glob that means the same to ripgrep.
_PLAIN_GLOB = re.compile(r"[\w.*?@+=,~ -]+", re.ASCII)
#: What means something else to ripgrep than to RE2, or nothing.
_OTHER_SYNTAX = re.compile(r"\\[AzCQ]|\n|\\n")


@dataclass(frozen=True)
class SearchCriteria:
    """What is searched for: a text, or a regular expression in the syntax of RE2.

    check: finds it in a line, as the search without ripgrep does. glob: of the files, below the folder. context: the
    lines around each match.
    """

    text: str
    is_regex: bool = False
    case_sensitive: bool = False
    check: Pattern | None = None
    glob: str | None = None
    context: int = 0


@dataclass(frozen=True)
class Matches:
    """Lines in the order of their paths. is_partial: ripgrep wrote more than is read."""

    items: list[Match]
    is_partial: bool = False


class Ripgrep:
    """ripgrep for one workspace. program: its path. excludes: the user's own list of files to ignore.

    Methods raise OSError, and return None if ripgrep fails. If the waiting task is cancelled, ripgrep is stopped.
    """

    def __init__(
        self, root: Path, program: str, path: str, sandbox: Sandbox, excludes: Callable[[], Awaitable[Path | None]]
    ) -> None:
        self._root, self._path, self._sandbox, self._excludes = root, path, sandbox, excludes
        self._program = str(Path(program).resolve())  # It may be in the home directory, which the sandbox hides.

    async def search(
        self, names: Names, criteria: SearchCriteria, limit: int, *, ignores: bool = True
    ) -> Matches | None:
        """The first lines below a directory that match, at most so many.

        ignores: leave out what version control ignores.
        """
        if "\0" in criteria.text or (criteria.is_regex and _OTHER_SYNTAX.search(criteria.text)):
            return None
        reader = _Reader(names, criteria, limit)
        options = [
            *_SEARCHING,
            "--case-sensitive" if criteria.case_sensitive else "--ignore-case",
            *(("--crlf",) if criteria.is_regex else ("--fixed-strings",)),
            *(("--multiline",) if "\n" in criteria.text else ()),
            *_of_type(criteria.glob),
            f"--context={criteria.context}",
        ]
        try:
            process = await self._run(names, (*options, "-e", criteria.text), reader, ignores=ignores)
        except _Enough:
            return Matches(reader.items)
        if process.ended().exit_code not in (0, 1):  # 1: nothing was found
            return None
        return Matches(reader.items, len(process.stdout.text()) > _OUTPUT)

    async def files(self, names: Names, glob: str | None = None, *, ignores: bool = True) -> list[Names] | None:
        """The names, below a directory, of the files in it that a glob matches; all without one."""
        process = await self._run(names, ("--files", "--null", *_of_type(glob)), None, ignores=ignores)
        output = process.stdout.text()
        if process.ended().exit_code not in (0, 1) or len(output) > _OUTPUT:
            return None
        return await asyncio.to_thread(_listed, output, names, glob)

    async def _run(self, names: Names, options: Sequence[str], reader: "_Reader | None", *, ignores: bool) -> Process:
        above = await asyncio.to_thread(_ignores_above, self._root) if ignores else ()
        rules: tuple[str, ...] = () if ignores else ("--no-ignore",)
        excludes = await self._excludes() if ignores else None
        if excludes is not None:
            above, rules = (*above, excludes), (f"--ignore-file={excludes}",)
        argv = (self._program, *_WALKING, *rules, *options, "--", f"./{joined(names)}")
        access = Access(readable=(self._root, Path(self._program), *above))
        launch = self._sandbox.launch(argv, access, self._root)
        process = await Process.start(launch, {"PATH": self._path, "LC_ALL": "C.UTF-8"}, limit=_OUTPUT)
        await process.wait(reader.take if reader is not None else None)
        return process


class _Enough(Exception):
    """As many matches as are wanted were found."""


@dataclass
class _Reader:
    """Reads ripgrep's lines of JSON as they come. Raises _Enough."""

    names: Names
    criteria: SearchCriteria
    limit: int
    items: list[Match] = field(default_factory=list)
    _tail: str = ""
    _lines: dict[int, str] = field(default_factory=dict)  # of the file that is being read
    _hits: list[int] = field(default_factory=list)

    async def take(self, stream: Stream, text: str) -> None:
        """See OnOutput."""
        if stream == "stdout":
            *lines, self._tail = (self._tail + text).split("\n")
            for line in lines:
                event = json.loads(line)
                self._take(event["type"], event["data"])

    def _take(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "begin":
            self._lines, self._hits = {}, []
        elif kind in ("match", "context"):
            number = data["line_number"]
            for at, line in enumerate(_text(data["lines"]).removesuffix("\n").split("\n")):
                self._lines[number + at] = line.removesuffix("\r")
            if kind == "match" and self._is_match(self._lines[number]):
                self._hits.append(number)
        elif kind == "end" and self._hits and data["binary_offset"] is None and "text" in data["path"]:
            self._add(str(PurePosixPath(data["path"]["text"])))

    def _is_match(self, line: str) -> bool:
        check = self.criteria.check
        return check is None or check.search(line) is not None

    def _add(self, path: str) -> None:
        below = PurePosixPath(path).parts[len(self.names) :]
        if self.criteria.glob is not None and not globs.matches(self.criteria.glob, below):
            return
        for number in self._hits:
            context = self.criteria.context
            before, after = self._shown(number - context, number), self._shown(number + 1, number + 1 + context)
            self.items.append(Match(path, number, self._shown(number, number + 1)[0], before, after))
            if len(self.items) >= self.limit:
                raise _Enough

    def _shown(self, first: int, last: int) -> tuple[str, ...]:
        numbers = (number for number in range(first, last) if number in self._lines)
        return tuple(self._lines[number][: limits.MATCH_CHARS] for number in numbers)


def _text(value: Mapping[str, str]) -> str:
    """A text of ripgrep's, which comes as Base64 if it is not UTF-8."""
    return value["text"] if "text" in value else base64.b64decode(value["bytes"]).decode(errors="replace")


def _of_type(glob: str | None) -> tuple[str, ...]:
    """Options that leave out most files that a glob does not match.

    Not `--glob`, which brings back what version control ignores.
    """
    last = (glob or "").rstrip("/").rpartition("/")[2]
    if last == "**" or not _PLAIN_GLOB.fullmatch(last):
        return ()
    return ("--type-add", f"wanted:{last}", "--type", "wanted")


def _listed(output: str, names: Names, glob: str | None) -> list[Names]:
    paths = (PurePosixPath(path).parts[len(names) :] for path in output.split("\0") if path)
    return sorted(below for below in paths if below and (glob is None or globs.matches(glob, below)))


def _ignores_above(root: Path) -> tuple[Path, ...]:
    """Where the repository says what it ignores, if the workspace is a part of one."""
    try:
        top = find(root).top
    except ToolFailure:
        return ()
    above = [folder for folder in root.parents if folder.is_relative_to(top)]
    places = [*(folder / ".gitignore" for folder in above), *([top / ".git/info"] if above else [])]
    return tuple(place for place in places if place.exists() and not place.is_symlink())
