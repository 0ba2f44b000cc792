"""Two sessions, their commands, a user with an editor, undo and redo in one folder, in a random order.

The model keeps, for each path, who has put what there, layer upon layer. It knows nothing of how undo works: an undo
that nobody was asked about takes off the layers that the turn's own calls have put on top, and nothing else.
"""

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from codelab_client.checkpoints import Checkpoints, Undone
from codelab_client.checkpoints.files import ABSENT, DIRECTORY, Captured, FileState, digest_of
from codelab_client.checkpoints.shadow import Difference, State, States
from codelab_client.execution import ToolCall
from codelab_client.sandbox import Unsandboxed
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.tree import Change
from codelab_client.tools.workspace import DiskWorkspace

PATHS = ("a", "b", "d/x", "d/y", "d/e/z")
#: A file's content and whether it is executable; None: there is no file.
Content = tuple[bytes, bool] | None
Files = dict[str, Content]


@dataclass(frozen=True, eq=False)
class Layer:
    """What somebody has put at a path. by: the session and its turn if it was a call of a tool for files, else None."""

    content: Content
    by: tuple[str, int] | None = None


@dataclass
class Figures:
    """What happened. wrong: what was changed, lost or not taken back against the rules."""

    interleavings: int = 0
    calls: int = 0
    edits: int = 0
    undo: int = 0
    redo: int = 0
    questions: int = 0
    bytes_wrong: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.interleavings} interleavings ({self.calls} calls, {self.edits} edits by hand and by commands): "
            f"{self.undo} undo, {self.redo} redo, {self.questions} questions, "
            f"{self.bytes_wrong} bytes changed or lost without a question"
        )


class CheapStates:
    """Sees states as the repository of git does, but at once. See States."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: list[dict[str, Captured]] = []

    def state(self) -> State:
        """The files as they are now."""
        state: dict[str, Captured] = {}
        for path, content in read(self._folder).items():
            if content is not None:
                state[path] = Captured(FileState("file", digest_of(content[0]), "x" if content[1] else "-"), content[0])
                state |= {"/".join(path.split("/")[:n]): Captured(DIRECTORY) for n in range(1, path.count("/") + 1)}
        self._known.append(state)
        return State(str(len(self._known) - 1), {})

    def differences(self, before: str, after: str) -> Iterator[Difference]:
        """What differs between two states."""
        old, new = self._known[int(before)], self._known[int(after)]
        for path in sorted({*old, *new}):
            one, other = old.get(path, Captured(ABSENT)), new.get(path, Captured(ABSENT))
            if one.state != other.state:
                yield Difference(tuple(path.split("/")), one, other)

    def clean(self) -> None:
        """Nothing has to be freed."""


def read(folder: Path) -> Files:
    """What is at each path."""
    found: Files = dict.fromkeys(PATHS)
    for path in PATHS:
        with suppress(FileNotFoundError, NotADirectoryError):
            file = os.open(f"{folder}/{path}", os.O_RDONLY)
            found[path] = (os.read(file, 10_000), bool(os.fstat(file).st_mode & 0o100))
            os.close(file)
    return found


class Session:
    """One of the sessions. taken: its turns that were taken back, and by path the layers before and after that."""

    def __init__(self, name: str, folder: Path, states: States | None) -> None:
        self.name, self._folder, self._states = name, folder, states
        self.turn, self.turns = 0, list[int]()
        self.taken: list[tuple[int, dict[str, tuple[list[Layer], list[Layer]]]]] = []
        self.command: AsyncExitStack | None = None
        self.checkpoints: Checkpoints
        self.restart()

    def restart(self) -> None:
        """Begin as a new process, after the old one has died."""
        if self.command is not None:
            self.checkpoints.close()
        self.command, self.is_in_turn = None, False
        self.workspace = DiskWorkspace(self._folder / "ws")
        state = self._folder / "state"
        self.checkpoints = Checkpoints(self.workspace, state, Unsandboxed(), self.name, states=self._states)
        self.workspace.recorder = self.checkpoints.recorder

    async def work(self) -> None:
        """Something is about to change: begin a turn if none runs. What was taken back cannot be brought back then."""
        self.taken = []
        if not self.is_in_turn:
            self.turn += 1
            self.turns.append(self.turn)
            self.is_in_turn = True
            await self.checkpoints.begin_turn(str(self.turn))

    async def run(self) -> None:
        """Begin to run a command."""
        await self.work()
        self.command = AsyncExitStack()
        call = ToolCall("c", "run_command", {"command": "a command"})
        await self.command.enter_async_context(self.checkpoints.around(call))

    async def end(self) -> None:
        """The command ends."""
        if self.command is not None:
            await self.command.aclose()
            self.command = None


class Interleaving:
    """One random order of events."""

    def __init__(self, folder: Path, seed: int, figures: Figures, states: States | None) -> None:
        self._random, self._seed, self.figures = random.Random(seed), seed, figures
        self._folder = folder / "ws"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._count = 0
        self._layers: dict[str, list[Layer]] = {path: [Layer(None)] for path in PATHS}
        self._stacks: dict[tuple[str, Content], list[Layer]] = {}  # below and with each content that ever was on top
        self._unclear: set[str] = set()  # paths of which more may be left than by the rule
        for path in PATHS:
            self._stacks[path, None] = [Layer(None)]
        for path in PATHS[:3]:
            self._put(path)
        self._sessions = [Session(f"{name}-{seed}", folder, states) for name in ("one", "two")]

    async def play(self, length: int) -> None:
        """Play so many events, and take everything back in the end."""
        for _ in range(length):
            session = self._random.choice(self._sessions)
            event = self._random.choices(
                (self._by_hand, self._by_tool, self._by_command, self._undo, self._redo, self._end, self._die),
                (4, 7, 4, 3, 2, 2, 0.4),
            )[0]
            await event(session)
            self._check(read(self._folder), f"{event.__name__} {session.name}")
        for session in self._sessions:
            await session.end()
        while any(session.turns for session in self._sessions):
            await self._undo(self._random.choice([one for one in self._sessions if one.turns]))
        for session in self._sessions:
            session.checkpoints.close()
            session.workspace.tree.close()
        self.figures.interleavings += 1

    # -- events --------------------------------------------------------------------------------------------------

    async def _by_hand(self, _: Session) -> None:
        self.figures.edits += 1
        self._put(self._random.choice(PATHS))

    async def _by_tool(self, session: Session) -> None:
        """A call of a tool for files."""
        await session.work()
        self.figures.calls += 1
        path, by = self._random.choice(PATHS), (session.name, session.turn)
        names, kind = tuple(path.split("/")), self._random.choice(("write", "write", "patch", "delete", "move"))
        before = read(self._folder)
        try:
            if kind == "write":
                await session.workspace.apply([Change(names, self._text())])
            elif kind == "patch":
                other = tuple(self._random.choice([one for one in PATHS if one != path]).split("/"))
                mode = self._random.choice((None, 0o755, 0o644))
                await session.workspace.apply([Change(names, self._text(), mode), Change(other, self._text())])
            elif kind == "delete":
                await session.workspace.delete(self._random.choice((names, names[:1])))
            else:
                await session.workspace.move(names, tuple(self._random.choice(PATHS).split("/")))
        except ToolFailure:
            self._check(before, "a call that failed")
            return
        for changed, content in read(self._folder).items():
            if content != before[changed]:
                self._lay(changed, Layer(content, by))

    async def _by_command(self, session: Session) -> None:
        """A command begins, writes or ends. Somebody else may do anything in between."""
        if session.command is None:
            await session.run()
        elif self._random.random() < 0.6:
            self.figures.edits += 1
            self._put(self._random.choice(PATHS))
        else:
            await session.end()

    async def _end(self, session: Session) -> None:
        await session.end()
        session.is_in_turn = False
        await session.checkpoints.end_turn()

    async def _die(self, session: Session) -> None:
        session.restart()

    async def _undo(self, session: Session) -> None:
        await self._end(session)
        self.figures.undo += 1
        if not session.turns:
            assert (await session.checkpoints.undo()).label is None
            return
        turn = session.turns.pop()
        before, taken = read(self._folder), {path: list(layers) for path, layers in self._layers.items()}
        undone = await session.checkpoints.undo()
        assert undone.label == str(turn), (self._seed, undone, turn)
        for path, content in read(self._folder).items():
            is_named = path in undone.asks
            self._take_off(path, (session.name, turn), before[path], content, is_named=is_named)
        if undone.asks:
            self.figures.questions += 1
            if self._random.random() < 0.5:
                await self._answer(session, undone)
        session.taken.append((turn, {path: (taken[path], list(self._layers[path])) for path in PATHS}))
        if self._random.random() < 0.3:
            await self._redo(session)
            assert read(self._folder) == before, (self._seed, "a redo right after the undo")

    def _take_off(self, path: str, by: tuple[str, int], before: Content, after: Content, *, is_named: bool) -> None:
        """An undo without a question: only what the turn's own calls have put on top is gone, and all of that.

        is_named: the undo says that something of the path is left.
        """
        layers = self._layers[path]
        expected = list(layers)
        while expected[-1].by == by:
            expected.pop()
        if after == expected[-1].content:
            self._layers[path] = expected
        elif after == before:
            if path not in self._unclear:  # Then a call's content may be there again without its later changes.
                self._wrong(f"{path} is not taken back", None)
        else:
            top = self._stacks[path, before][-1].by if before is not None else by
            # Somebody's file that came and went in between leaves no trace.
            is_unclear = is_named or path in self._unclear or None in (before, expected[-1].content)
            if top != by or (path, after) not in self._stacks or not is_unclear:
                self._wrong(f"{path} was {before!r} and is {after!r}, not {expected[-1].content!r}", before or after)
            self._layers[path] = list(self._stacks.get((path, after), [Layer(after)]))

    async def _answer(self, session: Session, undone: Undone) -> None:
        """The user has said yes: everything that was named is taken back, to something that was there before."""
        before = read(self._folder)
        rest = await session.checkpoints.undo(everything=True)
        assert (rest.label, rest.failed_paths) == (undone.label, ()), (self._seed, rest)
        for path, content in read(self._folder).items():
            if content == before[path]:
                continue
            if path not in undone.asks:
                self._wrong(f"{path} was not asked about", before[path])
            if (path, content) not in self._stacks:
                self._wrong(f"{path} never was {content!r}", before[path])
            self._layers[path] = list(self._stacks.get((path, content), [Layer(content)]))
            self._unclear.add(path)

    async def _redo(self, session: Session) -> None:
        await session.end()
        self.figures.redo += 1
        redone = await session.checkpoints.redo()
        if not session.taken:
            assert redone.label is None, (self._seed, redone)
            return
        turn, taken = session.taken.pop()
        assert redone.label == str(turn), (self._seed, redone, turn)
        session.turns.append(turn)
        for path, (old, left) in taken.items():
            if self._layers[path][-1].content == left[-1].content:
                self._layers[path] = list(old)
        self._check(read(self._folder), "redo")

    # -- files ---------------------------------------------------------------------------------------------------

    def _text(self) -> bytes:
        self._count += 1
        return b"%d " % self._count * self._random.randint(1, 9)

    def _put(self, path: str) -> None:
        """Change a file as an editor or a command does."""
        file = self._folder / path
        kind = self._random.choice(("write", "write", "append", "delete", "mode"))
        if kind == "write" or not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self._text())
        elif kind == "append":
            file.write_bytes(file.read_bytes() + self._text())
        elif kind == "mode":
            file.chmod(file.stat().st_mode ^ 0o111)
        else:
            file.unlink()
        content = read(self._folder)[path]
        layers = self._layers[path]
        if kind == "mode" and len(layers) > 1 and layers[-2].content == content:
            layers.pop()  # It is as it was before, but whoever looked in between has seen two changes.
            self._unclear.add(path)
        else:
            self._lay(path, Layer(content))

    def _lay(self, path: str, layer: Layer) -> None:
        self._layers[path].append(layer)
        self._stacks[path, layer.content] = list(self._layers[path])

    def _check(self, found: Files, event: str) -> None:
        """Whether all is as the model has it."""
        for path, content in found.items():
            expected = self._layers[path][-1].content
            if content != expected:
                self._wrong(f"{event}: {path} is {content!r}, not {expected!r}", content or expected)
                self._lay(path, Layer(content))

    def _wrong(self, why: str, content: Content) -> None:
        self.figures.wrong.append(f"{self._seed}: {why}")
        self.figures.bytes_wrong += len(content[0]) if content is not None else 1


async def play(folder: Path, seeds: range, length: int, *, with_git: bool = False) -> Figures:
    """Play an interleaving for each seed. with_git: see the states with git, as the client does."""
    figures = Figures()
    (folder / "ws").mkdir()
    states = None if with_git else CheapStates(folder / "ws")
    watcher = Session("watcher", folder, states)  # Who closes a record last waits for the disk.
    await watcher.work()
    for seed in seeds:
        await Interleaving(folder, seed, figures, states).play(length)
    watcher.checkpoints.close()
    return figures
