"""Undo against everybody's work: two windows in one folder, an editor beside them, ignored files, clients that die."""

import asyncio
import functools
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from codelab_client import sandbox
from codelab_client.checkpoints import Checkpoints, Undone
from codelab_client.checkpoints.folder import RecordFolder
from codelab_client.execution import ToolCall, ToolOutcome
from codelab_client.local_executor import LocalExecutor

from tests.sampling import sampled


class Window:
    """A window of the client with a conversation of its own."""

    def __init__(self, folder: Path, session: str) -> None:
        self.folder = folder / "ws"
        self.folder.mkdir(exist_ok=True)
        self.executor = LocalExecutor(self.folder, None, folder / "state", session=session)
        self._calls = 0

    async def call(self, tool: str, **arguments: Any) -> ToolOutcome:
        self._calls += 1

        async def show(stream: str, text: str) -> None:
            pass

        call = ToolCall(f"c{self._calls}", tool, arguments, risk="write")
        with self.executor.showing(call):  # its user approves it
            pass
        return await self.executor.execute(call, show)

    async def write(self, path: str, content: str) -> None:
        assert (await self.call("write_file", path=path, content=content)).error is None

    async def run(self, command: str) -> None:
        outcome = await self.call("run_command", command=command)
        assert outcome.error is None, outcome.error
        assert outcome.result["exit_code"] == 0, outcome.result

    async def undo(self, **options: Any) -> Undone:
        await self.executor.end_turn()
        return await (await self._checkpoints()).undo(**options)

    async def redo(self) -> Undone:
        return await (await self._checkpoints()).redo()

    async def _checkpoints(self) -> Checkpoints:
        found = await self.executor.checkpoints()
        assert found is not None
        return found

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.folder)): path.read_text()
            for path in self.folder.rglob("*")
            if path.is_file() and ".git/" not in str(path)
        }

    def edit(self, path: str, content: str) -> None:
        """What the user does in an editor."""
        (self.folder / path).write_text(content)


@asynccontextmanager
async def opened(*windows: Window) -> AsyncIterator[None]:
    """Windows that are closed at the end."""
    try:
        yield
    finally:
        for window in windows:
            await window.executor.aclose()


@pytest.fixture(scope="module", autouse=True)
def sandbox_found_once() -> Iterator[None]:
    """To look for a sandbox takes longer than a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "choose", functools.cache(sandbox.choose))
        yield


@pytest.fixture
def one(tmp_path: Path) -> Window:
    return Window(tmp_path, "one")


@pytest.fixture
def two(tmp_path: Path, one: Window) -> Window:
    return Window(tmp_path, "two")


async def test_undo_leaves_what_another_window_wrote_during_the_turn(one: Window, two: Window) -> None:
    async with opened(one, two):
        one.edit("a", "old")
        await one.write("a", "by one")
        await two.write("b", "by two, approved")
        await two.write("a.new", "by two")
        assert (await one.undo()).asks == ()
        assert one.files() == {"a": "old", "b": "by two, approved", "a.new": "by two"}
        assert (await two.undo()).restored_paths == ("a.new", "b")
        assert one.files() == {"a": "old"}


async def test_undo_names_a_file_that_another_window_wrote_over(one: Window, two: Window) -> None:
    async with opened(one, two):
        await one.write("a", "by one")
        await one.write("c", "by one")
        await two.write("a", "by two")
        undone = await one.undo()
        assert (undone.restored_paths, undone.changed_since, undone.by_sessions) == (("c",), ("a",), ("a",))
        assert one.files() == {"a": "by two"}
        assert (await one.undo(everything=True)).restored_paths == ("a",)
        assert one.files() == {}
        await one.redo()
        assert one.files() == {"a": "by two", "c": "by one"}
        assert (await two.undo()).restored_paths == ("a",)
        assert one.files() == {"a": "by one", "c": "by one"}


async def test_undo_leaves_what_the_user_wrote_by_hand_during_the_turn(one: Window) -> None:
    async with opened(one):
        one.edit("a", "old")
        await one.write("a", "first")
        one.edit("mine", "by hand")
        one.edit("a", "first, and mine")
        await one.write("a", "second")
        await one.write("b", "second")
        undone = await one.undo()
        assert (undone.restored_paths, undone.changed_since) == (("a", "b"), ("a",))
        assert one.files() == {"a": "first, and mine", "mine": "by hand"}
        await one.undo(everything=True)
        assert one.files() == {"a": "old", "mine": "by hand"}


async def test_undo_brings_back_what_a_call_deleted_although_there_was_nothing_before_the_turn(one: Window) -> None:
    async with opened(one):
        await one.write("a", "agent")
        one.edit("a", "by hand")
        await one.call("delete_file", path="a")
        undone = await one.undo()
        assert (undone.restored_paths, undone.changed_since) == (("a",), ("a",))
        assert one.files() == {"a": "by hand"}


async def test_undo_reaches_no_further_through_a_hard_link(one: Window, tmp_path: Path) -> None:
    async with opened(one):
        one.edit("a", "old")
        (tmp_path / "outside").hardlink_to(one.folder / "a")
        one.edit("other", "other")
        assert (await one.call("write_file", path="a", content="agent")).error is not None
        assert (await one.call("delete_file", path="a")).error is None
        await one.write("a", "agent")
        assert (tmp_path / "outside").read_text() == "old"
        await one.undo()
        assert one.files() == {"a": "old", "other": "other"}
        assert (tmp_path / "outside").read_text() == "old"


async def test_undo_asks_about_what_changed_while_a_command_ran(one: Window, two: Window) -> None:
    """Nobody can tell who wrote a file while a command ran, so nothing of it is reverted unasked."""
    async with opened(one, two):
        one.edit("a", "old")
        running = asyncio.ensure_future(one.run("echo x > made; until [ -e go ]; do sleep 0.05; done; rm go"))
        while not (one.folder / "made").exists():
            await asyncio.sleep(0.01)
        one.edit("a", "by hand")
        await two.write("b", "by two")
        await one.write("c", "by one")
        one.edit("go", "")
        await running
        undone = await one.undo()
        assert (undone.restored_paths, undone.unsure) == (("c",), ("a", "made"))
        assert one.files() == {"a": "by hand", "made": "x\n", "b": "by two"}
        await one.undo(everything=True)
        assert one.files() == {"a": "old", "b": "by two"}
        await one.redo()
        assert one.files() == {"a": "by hand", "made": "x\n", "b": "by two", "c": "by one"}


async def test_two_windows_run_commands_at_the_same_time(one: Window, two: Window) -> None:
    async with opened(one, two):
        await asyncio.gather(one.run("echo 1 > one; sleep 0.3"), two.run("echo 2 > two; sleep 0.1"))
        first, second = await one.undo(), await two.undo()
        assert (first.restored_paths, second.restored_paths) == ((), ())
        assert "one" in first.unsure
        assert "two" in second.unsure
        assert one.files() == {"one": "1\n", "two": "2\n"}


async def test_undo_takes_back_an_ignored_file_that_a_tool_rewrote(one: Window) -> None:
    async with opened(one):
        subprocess.run(["git", "init", "--quiet", one.folder], check=True)
        one.edit(".gitignore", ".env\nbuild/\n")
        one.edit(".env", "KEY=mine")
        await one.write(".env", "KEY=agent")
        await one.write("build/out", "x")
        assert (await one.undo()).restored_paths == (".env", "build/out")
        assert one.files() == {".gitignore": ".env\nbuild/\n", ".env": "KEY=mine"}


async def test_undo_names_what_is_not_stored(one: Window) -> None:
    async with opened(one):
        for folder in (one.folder, one.folder / "module"):
            subprocess.run(["git", "init", "--quiet", folder], check=True)
        one.edit(".gitignore", ".env\n*.log\nbuild/\nsame\n")
        for name in (".env", "x.log", "same", "module/f"):
            one.edit(name, "before")
        (one.folder / "build").mkdir()
        one.edit("build/a", "1")
        (one.folder / "large").write_bytes(bytes(5_000_001))
        await one.run("rm .env; echo 2 > x.log; echo 2 > y.log; echo 2 > build/a; echo 2 > module/f; echo 2 >> large")
        undone = await one.undo(everything=True)
        assert undone.not_stored == (
            ".env (deleted)",
            "build (changed)",
            "large (changed)",
            "module (changed)",
            "x.log (changed)",
            "y.log (new)",
        )


async def test_undo_names_a_file_that_is_too_large_to_be_kept(one: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(one):
        monkeypatch.setattr("codelab_client.checkpoints.session_record._KEPT", 10)
        one.edit("large", "more than ten")
        await one.write("large", "small")
        undone = await one.undo()
        assert (undone.restored_paths, undone.not_stored) == ((), ("large (too large, or not readable)",))
        assert one.files() == {"large": "small"}


async def test_undo_keeps_modes_links_and_what_others_put_into_a_directory(one: Window) -> None:
    async with opened(one):
        one.edit("secret", "old")
        (one.folder / "secret").chmod(0o600)
        (one.folder / "link").symlink_to("secret")
        await one.call("delete_file", path="secret")
        await one.call("delete_file", path="link")
        await one.write("new/a", "agent")
        one.edit("new/mine", "by hand")
        (one.folder / "mine-too").mkdir()
        undone = await one.undo()
        assert undone.asks == ()
        assert one.files() == {"secret": "old", "link": "old", "new/mine": "by hand"}
        assert ((one.folder / "secret").stat().st_mode & 0o777, (one.folder / "link").is_symlink()) == (0o600, True)
        assert (one.folder / "mine-too").is_dir()


async def test_redo_leaves_what_was_changed_after_the_undo(one: Window) -> None:
    async with opened(one):
        for name in "ab":
            one.edit(name, "old")
            await one.write(name, "agent")
        await one.undo()
        one.edit("a", "by hand")
        redone = await one.redo()
        assert (redone.restored_paths, redone.changed_since) == (("b",), ("a",))
        assert one.files() == {"a": "by hand", "b": "agent"}


async def test_another_conversation_in_the_same_folder_has_nothing_to_undo(one: Window, two: Window) -> None:
    async with opened(one, two):
        await one.write("a", "by one")
        assert await two.undo() == Undone(None)
        assert one.files() == {"a": "by one"}


# -- clients that die --------------------------------------------------------------------------------------------------

_DYING = """
    import asyncio, os, sys
    from pathlib import Path
    from codelab_client.checkpoints import record
    from codelab_client.tools import tree
    from tests.security.test_undo import Window

    def die(*_, **__):
        os._exit(9)

    def after(count, function):
        def counted(*arguments, **options):
            nonlocal count
            count -= 1
            return function(*arguments, **options) if count >= 0 else die()
        return counted

    async def until_made(path):
        while not path.exists():
            await asyncio.sleep(0.01)

    async def main():
        window = Window(Path(sys.argv[1]), "one")
        await window.write("a", "first")
        {how}

    asyncio.run(main())
"""
DEATHS = {
    "before_the_write": "tree.Tree.apply = die; await window.write('a', 'second')",
    "between_the_write_and_its_record": "record.Record.finish = die; await window.write('a', 'second')",
    "during_a_command": "running = asyncio.ensure_future(window.run('echo x > made; sleep 9'));"
    " await until_made(window.folder / 'made'); die()",
    "between_the_writes_of_an_undo": "await window.write('b', 'b'); await window.write('c', 'c');"
    " tree.Tree.apply = after(1, tree.Tree.apply); await window.undo()",
}


@pytest.mark.parametrize("how", sampled([*DEATHS]))
async def test_nothing_is_lost_if_the_client_dies(tmp_path: Path, how: str) -> None:
    window = Window(tmp_path, "one")
    window.edit("a", "old")
    program = textwrap.dedent(_DYING).format(how=DEATHS[how])
    unsandboxed = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", program, tmp_path], env=unsandboxed, check=False, capture_output=True)
    window = Window(tmp_path, "one")
    assert window.files() != {"a": "old"}
    async with opened(window):
        undone = await window.undo(everything=how == "during_a_command")
        assert (undone.asks, len(undone.unknown_changes)) == ((), how == "during_a_command")
        assert window.files() == {"a": "old"}
        await window.redo()
        assert window.files()["a"] in ("first", "second")
        assert set(window.files()) == {
            "a",
            *(("b", "c") if "undo" in how else ()),
            *(("made",) if "command" in how else ()),
        }


async def test_the_command_of_a_window_that_lives_is_not_taken_for_a_dead_ones(one: Window, two: Window) -> None:
    async with opened(one, two):
        running = asyncio.ensure_future(one.run("echo x > made; until [ -e go ]; do sleep 0.05; done"))
        while not (one.folder / "made").exists():
            await asyncio.sleep(0.01)
        await two.write("b", "by two")
        await two.undo()
        two.edit("go", "")
        await running
        undone = await one.undo()
        assert (undone.unsure, undone.unknown_changes) == (("go", "made"), ())


async def test_the_record_can_be_read_by_nobody_else_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        window = Window(tmp_path, "one")
        async with opened(window):
            await window.write("a", "secret")
        kept = list((tmp_path / "state").rglob("*"))
        assert kept
        assert [path for path in kept if path.stat().st_mode & 0o077] == []
    finally:
        os.umask(old)


async def test_a_window_that_is_busy_does_not_stop_the_others_for_ever(
    one: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(one):
        await one.write("a", "first")
        monkeypatch.setattr("codelab_client.checkpoints.folder._PATIENCE_S", 0.05)
        with RecordFolder(tmp_path / "state", one.folder).locked():
            await one.write("a", "second")
        undone = await one.undo()
        assert (undone.restored_paths, undone.changed_since) == ((), ("a",))
        assert undone.unknown_changes == ("another session is busy in this folder",)
