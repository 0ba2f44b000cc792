"""Undo: what a session's calls did is taken back and brought back; what others did is not."""

import asyncio
import itertools
import shutil
import stat
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from codelab_client.checkpoints import CheckpointFailed, Checkpoints, Undone, report
from codelab_client.checkpoints import record as records
from codelab_client.execution import ToolCall
from codelab_client.sandbox import Sandbox, Unsandboxed, choose
from codelab_client.tools.executor import Executor
from codelab_client.tools.expectations import Expectations, showing
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import Output, git, repository, snapshot
from tests.sampling import sampled

_ids = itertools.count()


class Project:
    """A workspace and a session in it. A turn is a shell script, run as a command, or calls of `tools`."""

    def __init__(self, folder: Path, sandbox: Sandbox, **options: Any) -> None:
        self.folder, self.state = folder / "ws", folder / "state"
        self.folder.mkdir(exist_ok=True)
        self.sandbox, self.options = sandbox, options
        self.restart()

    def restart(self, session: str = "one") -> None:
        """Continue as after a restart of the client, or as another session."""
        workspace = DiskWorkspace(self.folder)
        self.checkpoints = Checkpoints(workspace, self.state, self.sandbox, session, **self.options)
        workspace.recorder = self.checkpoints.recorder
        self.workspace, self.expectations = workspace, Expectations()
        self.tools = Executor(workspace, Unsandboxed(), around=self.checkpoints.around, expectations=self.expectations)

    def other(self, session: str = "two") -> "Project":
        """Another session in the same folder."""
        other = Project(self.folder.parent, self.sandbox, **self.options)
        other.restart(session)
        return other

    def begin(self, message: str = "do it") -> None:
        asyncio.run(self.checkpoints.begin_turn(message))

    def end(self) -> None:
        asyncio.run(self.checkpoints.end_turn())

    def turn(self, script: str, message: str = "do it") -> None:
        self.begin(message)
        self.command(script)
        self.end()

    def command(self, script: str) -> str:
        """A command. Returns its call's id."""
        call_id = f"call_{next(_ids)}"

        async def run() -> None:
            async with self.checkpoints.around(ToolCall(call_id, "run_command", {"command": script})):
                self.sh(script)

        asyncio.run(run())
        return call_id

    def call(self, tool: str, **arguments: Any) -> str:
        """A call whose change the user has seen and approved. Returns its id."""
        call_id = f"call_{next(_ids)}"
        with showing(self.expectations, call_id, tool, arguments, self.workspace.tree.fingerprint):
            pass
        outcome = asyncio.run(self.tools.execute(ToolCall(call_id, tool, arguments), Output()))
        assert outcome.error is None, outcome.error
        return call_id

    def sh(self, script: str) -> None:
        subprocess.run(["sh", "-ec", script], cwd=self.folder, check=True)

    def undo(self, **options: Any) -> Undone:
        return asyncio.run(self.checkpoints.undo(**options))

    def redo(self, **options: Any) -> Undone:
        return asyncio.run(self.checkpoints.redo(**options))

    def diff(self) -> str:
        return asyncio.run(self.checkpoints.diff())

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def files(self) -> dict[str, tuple[Any, ...]]:
        """Kinds, modes and contents of all files but git's."""
        found = snapshot(self.folder)
        own = str(self.folder / ".git")
        return {name: (mode, said) for name, (mode, _, said) in found.items() if not name.startswith(own)}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, Unsandboxed())


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return choose(tmp_path_factory.mktemp("home")).sandbox


SCRIPTS = {
    "change": "echo more >> a; printf 'x\\r\\ny' > crlf",
    "create": "echo new > new; mkdir -p deep/er; echo new > deep/er/file",
    "delete": "rm a; rm -r dir",
    "rename": "mv a b; mv dir other",
    "mode": "chmod +x a; chmod -x run",
    "links": "ln -s a link; rm old-link; ln -s run old-link",
    "file_for_directory": "rm -r dir; echo x > dir",
    "directory_for_file": "rm a; mkdir a; echo x > a/x",
    "link_for_directory": "rm -r dir; ln -s ../outside dir",
    "link_for_file": "rm a; ln -s ../outside/file a",
    "file_for_link": "rm old-link; echo x > old-link",
    "odd_names": "echo x > 'a b'; echo x > '-rf'; echo x > ':(top)x'; echo x > 'new\nline'",
    "binary": "head -c 100000 /dev/urandom > crlf; printf 'caf\\351' > latin",
    "attributes": "echo '* text eol=lf working-tree-encoding=UTF-16' > .gitattributes; printf 'a\\r\\n' > crlf",
    "everything": "rm -rf ./*",
    "nothing": "true",
}


@pytest.mark.parametrize("name", sampled([*SCRIPTS]))
def test_what_a_command_did_is_taken_back_and_brought_back(tmp_path: Path, name: str, sandbox: Sandbox) -> None:
    project = Project(tmp_path, sandbox)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    project.sh("echo a > a; printf '1\\r\\n2\\n' > crlf; mkdir dir; echo f > dir/f; echo g > dir/g; echo r > run")
    project.sh("chmod 755 run; chmod 640 a; ln -s a old-link")
    before, outside = project.files(), snapshot(tmp_path / "outside")
    project.turn(SCRIPTS[name])
    changed = project.files()
    undone = project.undo(everything=True)
    after = project.files()
    if name in ("delete", "rename", "everything", "directory_for_file", "link_for_file"):  # Git stores no 0640.
        before, after = ({path: said[1] for path, said in found.items()} for found in (before, after))
    assert after == before
    assert (undone.label, undone.asks, undone.failed_paths) == ("do it", (), ())
    assert bool(undone.restored_paths) == (name != "nothing")
    assert snapshot(tmp_path / "outside") == outside
    project.redo()
    assert project.files() == changed


CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "write": [("write_file", {"path": "a", "content": "2"}), ("write_file", {"path": "a", "content": "3"})],
    "create": [("write_file", {"path": "deep/er/file", "content": "x"})],
    "edit": [("edit_file", {"path": "a", "edits": [{"old": "a", "new": "b"}]})],
    "patch": [("apply_patch", {"diff": "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"})],
    "mode": [("apply_patch", {"diff": "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"})],
    "delete": [("delete_file", {"path": "a"}), ("delete_file", {"path": "old-link"})],
    "delete_directory": [("delete_file", {"path": "dir"})],
    "move": [
        ("move_file", {"from": "dir", "to": "new/place"}),
        ("write_file", {"path": "new/place/f", "content": "x"}),
    ],
    "make": [("create_directory", {"path": "one/two"})],
    "in_place_of_a_directory": [("delete_file", {"path": "dir"}), ("write_file", {"path": "dir", "content": "x"})],
}


@pytest.mark.parametrize("name", CALLS)
def test_what_the_tools_did_is_taken_back_and_brought_back_exactly(project: Project, name: str) -> None:
    project.sh("echo a > a; chmod 640 a; mkdir -p dir/empty; echo f > dir/f; chmod 755 dir/f; ln -s a old-link")
    before = project.files()
    project.begin()
    for tool, arguments in CALLS[name]:
        project.call(tool, **arguments)
    project.end()
    changed = project.files()
    assert changed != before
    undone = project.undo()
    assert project.files() == before
    assert (undone.asks, undone.failed_paths, undone.not_stored) == ((), (), ())
    project.restart()
    redone = project.redo()
    assert project.files() == changed
    assert redone.asks == ()
    project.undo()
    assert project.files() == before


def test_turns_are_taken_back_and_brought_back_one_after_the_other_also_after_a_restart(project: Project) -> None:
    for number in "123":
        project.begin(number)
        project.call("write_file", path="a", content=number)
        project.end()
    for label, content in (("3", "2"), ("2", "1")):
        project.restart()
        assert (project.undo().label, project.text("a")) == (label, content)
    for label, content in (("2", "2"), ("3", "3")):
        project.restart()
        assert (project.redo().label, project.text("a")) == (label, content)
    assert project.redo() == Undone(None)
    assert [project.undo().label, project.undo().label, project.text("a")] == ["3", "2", "1"]
    project.begin("4")
    project.call("write_file", path="a", content="4")
    assert project.redo() == Undone(None)
    assert (project.undo().label, project.text("a")) == ("4", "1")
    assert (project.undo().label, (project.folder / "a").exists()) == ("1", False)
    assert project.undo() == Undone(None)


@pytest.mark.parametrize("change", ["echo user >> a", "rm a", "chmod +x a", "rm a; mkdir a; touch a/x", "ln -sf b a"])
def test_files_that_were_changed_since_stay_until_the_user_wants_them_back(project: Project, change: str) -> None:
    project.sh("echo a > a; echo b > b; echo mine > mine")
    project.begin()
    for name in "ab":
        project.call("write_file", path=name, content="2")
    project.sh(f"{change}; echo user > mine")
    now = project.files()
    undone = project.undo()
    b = str(project.folder / "b")
    assert (undone.restored_paths, undone.changed_since) == (("b",), ("a",))
    assert {**project.files(), b: now[b]} == now
    assert project.text("b") == "b\n"
    rest = project.undo(everything=True)
    if "mkdir" in change:  # Somebody else's file is in the directory.
        assert rest.failed_paths == ("a",)
        return
    assert (rest.restored_paths, rest.changed_since, project.text("a")) == (("a",), (), "a\n")
    assert project.redo().changed_since == ()
    assert project.files() == {**now, b: project.files()[b]}
    assert project.text("b") == "2"


def test_a_turn_that_still_runs_is_shown_and_taken_back_and_goes_on_as_another(project: Project) -> None:
    project.sh("echo a > a")
    project.begin()
    project.call("write_file", path="a", content="b\n")
    project.command("echo new > new")
    diff = project.diff()
    assert "-a\n+b\n" in diff
    assert "new file mode 100644" in diff
    project.undo(everything=True)
    assert (project.text("a"), project.diff()) == ("a\n", "")
    project.call("write_file", path="a", content="c\n")
    assert (project.undo().restored_paths, project.text("a")) == (("a",), "a\n")


def test_the_diff_is_of_the_turn_only(project: Project) -> None:
    project.sh("echo a > a; echo b > b")
    project.begin()
    project.call("write_file", path="a", content="2")
    project.end()
    project.sh("echo user > b; echo user > a")
    assert project.diff() == (
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+2\n\\ No newline at end of file\n"
    )


def test_the_users_repository_is_not_touched(project: Project) -> None:
    repository(project.folder, a="a\n")
    project.sh("echo staged > staged; git add staged; echo 2 > a")
    before = snapshot(project.folder / ".git")
    project.turn("echo 3 > a; rm staged; echo new > new")
    project.diff()
    project.undo(everything=True)
    assert snapshot(project.folder / ".git") == before
    assert git(project.folder, "status", "--short").split("\n")[:-1] == [" M a", "A  staged"]


@pytest.mark.parametrize("trap", ["filter", "hook", "fsmonitor"])
def test_nothing_of_the_workspace_is_executed(tmp_path: Path, trap: str) -> None:
    project = Project(tmp_path, Unsandboxed())
    repository(project.folder, a="a\n")
    program = tmp_path / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\ncat\n")
    program.chmod(0o755)
    config = {"filter": f'[filter "x"]\n\tclean = {program}\n\tsmudge = {program}\n'}
    config["fsmonitor"] = f"[core]\n\tfsmonitor = {program}\n"
    with (project.folder / ".git/config").open("a") as file:
        file.write(config.get(trap, ""))
    (project.folder / ".gitattributes").write_text("* filter=x\n")
    if trap == "hook":
        for name in ("post-index-change", "reference-transaction"):
            shutil.copy(program, project.folder / ".git/hooks" / name)
    project.turn("echo 2 > a")
    project.undo(everything=True)
    assert project.text("a") == "a\n"
    assert not (tmp_path / "executed").exists()


def test_old_turns_are_forgotten_with_their_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned = []
    project = Project(tmp_path, Unsandboxed(), keep=4)
    monkeypatch.setattr(project.checkpoints._windows._states, "clean", lambda: cleaned.append(1))
    for number in range(54):
        project.begin(str(number))
        project.call("write_file", path="a", content=f"content {number}")
    project.command("echo before the cleaning > b")
    project.begin("last")
    assert cleaned == [1]
    database = next((project.state / "changes").iterdir()) / "changes.sqlite3"
    data = database.read_bytes() + database.with_name("changes.sqlite3-wal").read_bytes()
    assert b"content 53" in data
    assert b"content 3\x00" not in data
    assert [project.undo().label for _ in range(6)] == ["last", "53", "52", "51", "50", None]


def test_the_space_of_states_is_freed(project: Project) -> None:
    project.sh("echo a > a")
    project.turn("echo b > a")
    assert "+b" in project.diff()
    git_dir = next((project.state / "checkpoints").iterdir())
    project.checkpoints._windows._states.clean()
    assert len([path for path in git_dir.rglob("objects/??/*") if path.is_file()]) <= 3
    assert project.undo(everything=True).restored_paths == ("a",)


def test_the_record_is_outside_the_workspace_and_private(project: Project) -> None:
    with pytest.raises(ValueError, match="inside"):
        Checkpoints(DiskWorkspace(project.folder), project.folder / "state", project.sandbox)
    project.turn("echo a > a")
    project.call("write_file", path="b", content="secret")
    kept = [path for name in ("changes", "checkpoints") for path in (project.state / name).rglob("*")]
    others = {str(path): oct(path.stat().st_mode) for path in kept if stat.S_IMODE(path.stat().st_mode) & 0o077}
    assert len(kept) > 10
    assert others == {}


def test_a_command_whose_state_cannot_be_seen_runs_and_undo_names_it(project: Project, caplog: Any) -> None:
    project.turn("true")
    (next((project.state / "checkpoints").iterdir()) / "index.lock").touch()
    project.turn("echo a > a", "broken")
    assert "cannot be taken back" in caplog.text
    undone = project.undo()
    assert (undone.label, undone.restored_paths, (project.folder / "a").exists()) == ("broken", (), True)
    assert [name.partition(" (git ")[0] for name in undone.unknown_changes] == ["echo a > a"]
    project.restart()  # The lock is a dead git's.
    project.turn("echo b > b")
    assert project.undo().unsure == ("b",)


def test_without_git_only_commands_cannot_be_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr("codelab_client.checkpoints.shadow.own_path", lambda *_: str(tmp_path))
    project = Project(tmp_path, Unsandboxed())
    project.begin()
    project.call("write_file", path="a", content="a")
    project.command("echo b > b")
    undone = project.undo()
    assert (undone.restored_paths, undone.unknown_changes) == (("a",), ("echo b > b (git is not installed)",))


def test_a_file_swapped_for_a_link_while_it_is_restored_leads_nowhere(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text("outside")
    project.sh("mkdir dir; echo f > dir/f; echo g > dir/g")
    project.turn("rm dir/f; echo 2 > dir/g")
    finish = records.Record.begin_step

    def swapped(*arguments: Any) -> int:
        with suppress(OSError):
            shutil.rmtree(project.folder / "dir")
            (project.folder / "dir").symlink_to(tmp_path / "outside")
        return finish(*arguments)

    before = snapshot(tmp_path / "outside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records.Record, "begin_step", swapped)
        undone = project.undo(everything=True)
    assert (undone.restored_paths, undone.failed_paths) == ((), ("dir/f", "dir/g"))
    assert snapshot(tmp_path / "outside") == before


def test_what_run_persistent_started_is_watched_to_the_end_of_the_turn(project: Project) -> None:
    project.begin()
    call = ToolCall("c", "run_persistent", {"command": "server", "process_id": "p"})

    async def start() -> None:
        async with project.checkpoints.around(call):
            pass

    asyncio.run(start())
    project.sh("echo log > log")
    project.call("write_file", path="own", content="x")
    project.end()
    undone = project.undo()
    assert (undone.restored_paths, undone.unsure) == (("own",), ("log",))


def test_a_command_that_is_cancelled_while_the_files_are_looked_at_never_begins(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.begin()
    windows = project.checkpoints._windows
    looking, go_on, begin = threading.Event(), threading.Event(), windows.begin

    def slow(*arguments: Any) -> Any:
        looking.set()
        go_on.wait()
        return begin(*arguments)

    monkeypatch.setattr(windows, "begin", slow)

    async def conversation() -> Any:
        call = ToolCall("c", "run_command", {"command": "touch ran"})
        running = asyncio.create_task(project.tools.execute(call, Output()))
        await asyncio.to_thread(looking.wait)
        cancelling = asyncio.create_task(project.tools.cancel("c"))
        await asyncio.sleep(0)
        go_on.set()
        await cancelling
        return (await running).error

    error = asyncio.run(conversation())
    assert (error.code, (project.folder / "ran").exists()) == ("CANCELLED", False)
    project.end()
    assert project.undo().restored_paths == ()


def test_a_file_that_the_user_saves_in_the_moment_of_a_write_is_not_lost(project: Project) -> None:
    project.sh("echo a > a")
    project.begin()
    plan = project.checkpoints.recorder._begin  # type: ignore[attr-defined]

    def saved(*arguments: Any) -> Any:
        planned = plan(*arguments)
        project.sh("echo user > a")
        return planned

    project.checkpoints.recorder._begin = saved  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="changed meanwhile"):
        project.call("write_file", path="a", content="x")
    assert project.text("a") == "user\n"


def test_the_report_names_all_that_is_left_and_shortens_what_is_done() -> None:
    many = tuple(f"f{number}" for number in range(99))
    said = report(Undone("do it", many, many, ("f1",), unsure=many, not_stored=(".env (deleted)",)), "undo")
    lengths = [len(some.paths) for some in said.lists]
    assert (said.gist, lengths) == ("Taken back: do it", [51, 98, 1, 99, 1])
    assert said.lists[0].paths[-1] == "… and 49 more"
    assert said.hint.startswith("/undo all ")
    assert report(Undone("do it"), "undo").gist == "The turn changed no file: do it"
    assert report(Undone("do it", not_stored=(".env (deleted)",)), "undo").gist == "Nothing was taken back of: do it"


def test_a_record_of_a_newer_version_is_refused(project: Project) -> None:
    project.turn("echo a > a")
    database = next((project.state / "changes").iterdir()) / "changes.sqlite3"
    subprocess.run(
        ["python3", "-c", f"import sqlite3; sqlite3.connect({str(database)!r}).execute('pragma user_version = 9')"],
        check=True,
    )
    project.restart()
    with pytest.raises(CheckpointFailed, match="newer version"):
        project.undo()
