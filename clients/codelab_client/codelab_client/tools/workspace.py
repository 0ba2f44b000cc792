"""The files that calls work on."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from codelab_client.config import config_folder
from codelab_client.session.journal import state_folder
from codelab_client.tools import limits
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.paths import joined
from codelab_client.tools.recording import Recorder, Unrecorded
from codelab_client.tools.tree import Change, Content, Names, Node, Tree

Result = TypeVar("Result")

#: Files read by one search, and directories by one walk, in a row; between them it can be cancelled.
_BATCH = 200


@dataclass(frozen=True)
class Match:
    """A line in which a text was found. line: from 1. before, after: the lines around it, if they are asked for."""

    path: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Pattern(Protocol):
    """A compiled pattern, of `re` or one that needs linear time."""

    def search(self, text: str, /) -> Any:
        """The first match, or None."""
        ...


@dataclass(frozen=True)
class Query:
    """What is searched for. text: found wherever it is; pattern: within a line. context: lines around each match."""

    text: "re.Pattern[str] | None" = None
    pattern: Pattern | None = None
    context: int = 0


class Workspace(Protocol):
    """Where files are read and changed: a directory, or an editor with what its user has not saved yet.

    Names are those of `paths.components`. All methods raise ToolFailure with the codes of the tools that use them.
    A change that has begun is finished, also if the waiting task is cancelled.
    """

    @property
    def root(self) -> Path | None:
        """The directory in which commands and git run, absolute and without links; None if there is none."""
        ...

    async def read(self, names: Names, limit: int) -> Content:
        """Read a file of at most so many bytes."""
        ...

    async def scan(self, directories: Sequence[Names]) -> list[list[Node]]:
        """The entries of each directory, sorted by name; none for a directory that has gone, unless it is the first."""
        ...

    async def search(self, files: Sequence[Names], query: Query, limit: int) -> list[Match]:
        """At most so many lines of these files that match. Skips binary and large files."""
        ...

    async def apply(self, changes: Sequence[Change]) -> None:
        """Make all changes or none."""
        ...

    async def make_directory(self, names: Names) -> None:
        """Create a directory and its parents; it may exist."""
        ...

    async def fingerprint(self, names: Names) -> str | None:
        """What is there, as a text that differs when it does (see `fingerprints`); None if nothing is."""
        ...

    async def delete(self, names: Names, expected: str | None = None) -> None:
        """Delete a file, or a directory with everything in it. Raises Changed if its fingerprint is not `expected`."""
        ...

    async def move(self, source: Names, target: Names) -> None:
        """Move a file or a directory to a free name."""
        ...


class DiskWorkspace:
    """A directory. Nothing outside it is read or changed, wherever its links lead. POSIX only.

    Nor is what the client keeps, in its state and its settings, if that is inside: it has tokens, keys and approvals.
    recorder: is told about every change. reserved_names: see Tree.
    """

    def __init__(self, root: Path, reserved_names: Collection[str] = ()) -> None:
        self.recorder: Recorder = Unrecorded()
        self._tree = Tree(root, (state_folder(), config_folder()), reserved_names)
        if self._tree.root == Path(self._tree.root.anchor):
            raise ValueError("the root of the file system cannot be a workspace")

    @property
    def root(self) -> Path:
        """The directory, absolute and without links."""
        return self._tree.root

    @property
    def tree(self) -> Tree:
        """The same directory for code that does not wait."""
        return self._tree

    async def read(self, names: Names, limit: int) -> Content:
        """See Workspace."""
        return await asyncio.to_thread(self._tree.read, names, limit)

    async def scan(self, directories: Sequence[Names]) -> list[list[Node]]:
        """See Workspace."""
        return await asyncio.to_thread(self._scan, directories)

    def _scan(self, directories: Sequence[Names]) -> list[list[Node]]:
        listings: list[list[Node]] = []
        for names in directories:
            try:
                listings.append(self._tree.scan(names))
            except ToolFailure:
                if not listings:
                    raise
                listings.append([])
        return listings

    async def search(self, files: Sequence[Names], query: Query, limit: int) -> list[Match]:
        """See Workspace."""
        matches: list[Match] = []
        for start in range(0, len(files), _BATCH):
            batch = files[start : start + _BATCH]
            matches += await asyncio.to_thread(self._search, batch, query, limit - len(matches))
            if len(matches) >= limit:
                break
        return matches

    def _search(self, files: Sequence[Names], query: Query, limit: int) -> list[Match]:
        matches: list[Match] = []
        for names in files:
            if len(matches) >= limit:
                break
            with suppress(ToolFailure):
                data = self._tree.read(names, limits.SEARCHED_BYTES).data
                matches += matching_lines(joined(names), data, query, limit - len(matches))
        return matches

    async def apply(self, changes: Sequence[Change]) -> None:
        """See Workspace."""
        await finished(self._apply, changes)

    async def make_directory(self, names: Names) -> None:
        """See Workspace."""
        await finished(_within, self.recorder.making(names), self._tree.make_directory, names)

    async def fingerprint(self, names: Names) -> str | None:
        """See Workspace."""
        return await asyncio.to_thread(self._tree.fingerprint, names)

    async def delete(self, names: Names, expected: str | None = None) -> None:
        """See Workspace."""
        await finished(_within, self.recorder.deleting(names), self._tree.delete, names, expected)

    async def move(self, source: Names, target: Names) -> None:
        """See Workspace."""
        await finished(_within, self.recorder.moving(source, target), self._tree.move, source, target)

    def _apply(self, changes: Sequence[Change]) -> None:
        with self.recorder.changing(changes) as recorded_changes:
            self._tree.apply(recorded_changes)


def _within(recording: AbstractContextManager[None], change: Callable[..., None], *names: Names) -> None:
    with recording:
        change(*names)


async def finished(function: Callable[..., Result], *arguments: object) -> Result:
    """Run a function in a thread to its end, also if the waiting task is cancelled: half a change helps nobody."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise


@asynccontextmanager
async def in_threads(recording: AbstractContextManager[object]) -> AsyncIterator[None]:
    """Around what waits in the event loop: a block that belongs in a thread (see `Recorder`)."""
    await finished(recording.__enter__)
    try:
        yield
    except BaseException as error:
        await finished(recording.__exit__, type(error), error, error.__traceback__)
        raise
    await finished(recording.__exit__, None, None, None)


#: Which of these paths version control ignores.
Ignored = Callable[[Sequence[str]], Awaitable[set[str]]]


async def walk(workspace: Workspace, top: Names, *, recursive: bool, find_ignored: Ignored) -> list[tuple[Names, Node]]:
    """The entries below a directory with their names below it, level by level and without `.git`.

    With `recursive`, without ignored ones, unless `top` is ignored itself. Ends after ENTRIES and one more.
    """
    entries: list[tuple[Names, Node]] = []
    level: list[Names] = [()]
    asks = recursive and not (top and await find_ignored([joined(top)]))
    while level and len(entries) <= limits.ENTRIES:
        batch, level = level[:_BATCH], level[_BATCH:]
        listings = await workspace.scan([(*top, *names) for names in batch])
        here = [
            ((*names, node.name), node)
            for names, nodes in zip(batch, listings, strict=True)
            for node in nodes
            if node.name != ".git"
        ]
        if asks and here:
            ignored_paths = await find_ignored([joined((*top, *names)) for names, _ in here])
            here = [entry for entry in here if joined((*top, *entry[0])) not in ignored_paths]
        entries += here
        level += [names for names, node in here if node.kind == "directory"] if recursive else []
    return entries


def matching_lines(path: str, data: bytes, query: Query, limit: int) -> list[Match]:
    """The first lines of a file that match, or in which the text begins; none in a binary file."""
    if b"\0" in data:
        return []
    text = data.decode(errors="replace")
    lines = text.split("\n")
    numbers = _with_pattern(lines, query.pattern) if query.pattern is not None else _with_text(text, query.text)
    return [_match(path, lines, number, query.context) for number in islice(numbers, limit)]


def _with_pattern(lines: Sequence[str], pattern: Pattern) -> Iterator[int]:
    return (number for number, line in enumerate(lines) if pattern.search(line.removesuffix("\r")) is not None)


def _with_text(text: str, pattern: "re.Pattern[str] | None") -> Iterator[int]:
    number, position, last = 0, 0, -1
    for hit in pattern.finditer(text) if pattern is not None else ():
        number += text.count("\n", position, hit.start())
        position = hit.start()
        if number != last:
            last = number
            yield number


def _match(path: str, lines: Sequence[str], number: int, context: int) -> Match:
    def shown(first: int, last: int) -> tuple[str, ...]:
        return tuple(line.rstrip("\r")[: limits.MATCH_CHARS] for line in lines[max(0, first) : last])

    (text,) = shown(number, number + 1)
    return Match(path, number + 1, text, shown(number - context, number), shown(number + 1, number + 1 + context))
