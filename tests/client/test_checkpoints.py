"""Undo: what a turn did, shell commands included, is taken back; what others did is not."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from codelab_client.checkpoints import CheckpointFailed, Checkpoints, Undone
from codelab_client.execution import ToolCall
from codelab_client.sandbox import Sandbox, Unsandboxed, choose
from codelab_client.tools.executor import Executor
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import git, repository, result, snapshot


class Project:
    """A workspace with checkpoints. A turn is what a shell script does."""

    def __init__(self, folder: Path, sandbox: Sandbox, **options: Any) -> None:
        self.folder = folder / "ws"
        self.state = folder / "state"
        self.folder.mkdir(exist_ok=True)
        self.sandbox = sandbox
        self.options = options
        self.checkpoints = self.fresh()

    def fresh(self) -> Checkpoints:
        """As after a restart of the client."""
        return Checkpoints(DiskWorkspace(self.folder), self.state, self.sandbox, **self.options)

    def begin(self, message: str = "do it") -> None:
        asyncio.run(self.checkpoints.begin_turn(message))

    def end(self) -> None:
        asyncio.run(self.checkpoints.end_turn())

    def turn(self, script: str, message: str = "do it") -> None:
        self.begin(message)
        self.sh(script)
        self.end()

    def sh(self, script: str) -> None:
        subprocess.run(["sh", "-ec", script], cwd=self.folder, check=True)

    def undo(self, **options: Any) -> Undone:
        return asyncio.run(self.checkpoints.undo(**options))

    def files(self) -> dict[str, tuple[Any, ...]]:
        """Kinds, modes and contents of all files but git's."""
        found = snapshot(self.folder)
        own = str(self.folder / ".git")
        return {name: (mode, said) for name, (mode, _, said) in found.items() if not name.startswith(own)}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, choose(tmp_path / "home").sandbox)


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


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_turn_is_taken_back(project: Project, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    project.sh("echo a > a; printf '1\\r\\n2\\n' > crlf; mkdir dir; echo f > dir/f; echo g > dir/g; echo r > run")
    project.sh("chmod 755 run; chmod 640 a; ln -s a old-link")
    before, outside = project.files(), snapshot(tmp_path / "outside")
    project.turn(SCRIPTS[name])
    undone = project.undo()
    after = project.files()
    if name in ("delete", "rename", "everything", "directory_for_file", "link_for_file"):  # Git stores no 0640.
        before, after = ({path: said[1] for path, said in found.items()} for found in (before, after))
    assert after == before
    assert (undone.label, undone.changed_meanwhile) == ("do it", ())
    assert bool(undone.restored) == (name != "nothing")
    assert snapshot(tmp_path / "outside") == outside


def test_what_commands_did_is_taken_back_and_each_has_a_checkpoint(project: Project) -> None:
    workspace = DiskWorkspace(project.folder)
    executor = Executor(workspace, project.sandbox, before_command=project.checkpoints.before_command)
    project.sh("echo a > a")
    project.begin("clean up")
    result(executor, "run_command", command="rm a; echo b > b")
    result(executor, "write_file", path="c", content="c")
    result(executor, "run_command", command="echo d > d")
    project.end()
    taken = asyncio.run(project.checkpoints.taken())
    assert [(found.kind, found.label) for found in taken] == [
        ("turn", "clean up"),
        ("command", "rm a; echo b > b"),
        ("command", "echo d > d"),
        ("end", ""),
    ]
    assert sorted(project.undo().restored) == ["a", "b", "c", "d"]
    assert [path.name for path in project.folder.iterdir()] == ["a"]


def test_turns_are_taken_back_one_after_the_other_also_after_a_restart(project: Project) -> None:
    for number in "123":
        project.turn(f"echo {number} > a", number)
    project.checkpoints = project.fresh()
    assert (project.undo().label, (project.folder / "a").read_text()) == ("3", "2\n")
    project.checkpoints = project.fresh()
    assert (project.undo().label, (project.folder / "a").read_text()) == ("2", "1\n")
    project.turn("echo 4 > a", "4")
    assert (project.undo().label, (project.folder / "a").read_text()) == ("4", "1\n")
    assert (project.undo().label, (project.folder / "a").exists()) == ("1", False)
    assert project.undo() == Undone(None)


@pytest.mark.parametrize("change", ["echo user >> a", "rm a", "chmod +x a", "rm a; mkdir a; touch a/x", "ln -sf b a"])
def test_files_that_were_changed_meanwhile_stay(project: Project, change: str) -> None:
    project.sh("echo a > a; echo b > b; echo mine > mine")
    project.turn("echo 2 > a; echo 2 > b")
    project.sh(f"{change}; echo user > mine")
    now = project.files()
    undone = project.undo()
    assert (undone.restored, undone.changed_meanwhile) == ((), ("a",))
    assert project.files() == now
    undone = project.undo(leave_changed=True)
    assert (undone.restored, undone.changed_meanwhile) == (("b",), ("a",))
    after = project.files()
    assert after[str(project.folder / "b")] != now[str(project.folder / "b")]
    assert {**after, str(project.folder / "b"): now[str(project.folder / "b")]} == now
    assert (project.folder / "mine").read_text() == "user\n"


def test_a_turn_that_still_runs_is_shown_and_taken_back(project: Project) -> None:
    project.sh("echo a > a")
    project.begin()
    project.sh("echo b > a; echo new > new")
    diff = asyncio.run(project.checkpoints.diff())
    assert "-a\n+b\n" in diff
    assert "new file mode 100644" in diff
    assert sorted(project.undo().restored) == ["a", "new"]
    assert asyncio.run(project.checkpoints.diff()) == ""


def test_a_turn_that_never_ended_ends_when_the_next_begins(project: Project) -> None:
    project.begin("first")
    project.sh("echo 1 > a")
    project.checkpoints = project.fresh()
    project.turn("echo 2 > b", "second")
    project.sh("echo user > c")
    assert (project.undo().restored, project.undo().restored) == (("b",), ("a",))
    assert (project.folder / "c").exists()


def test_the_diff_is_of_the_turn_only(project: Project) -> None:
    project.sh("echo a > a; echo b > b")
    project.turn("echo 2 > a")
    project.sh("echo user > b")
    diff = asyncio.run(project.checkpoints.diff())
    assert "a/a" in diff
    assert "user" not in diff


def test_the_users_repository_is_not_touched(project: Project) -> None:
    repository(project.folder, a="a\n")
    project.sh("echo staged > staged; git add staged; echo 2 > a")
    before = snapshot(project.folder / ".git")
    project.turn("echo 3 > a; rm staged; echo new > new")
    asyncio.run(project.checkpoints.diff())
    project.undo()
    after = snapshot(project.folder / ".git")
    assert after == before
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
    project.undo()
    assert (project.folder / "a").read_text() == "a\n"
    assert not (tmp_path / "executed").exists()


def test_ignored_large_and_special_files_and_other_repositories_are_left_alone(tmp_path: Path) -> None:
    project = Project(tmp_path, choose(tmp_path / "home").sandbox, largest=1000)
    repository(project.folder)
    project.sh("echo '*.log' > .gitignore; echo out >> .git/info/exclude; mkfifo pipe; echo small > grows")
    repository(project.folder / "inner", x="x\n")
    project.turn(
        "echo 1 > x.log; echo 1 > out; head -c 2000 /dev/zero > large; echo 2 > inner/x; echo a > a;"
        "head -c 2000 /dev/zero > grows"
    )
    undone = project.undo()
    assert (undone.restored, undone.changed_meanwhile) == ((), ("grows",))
    undone = project.undo(leave_changed=True)
    assert (undone.restored, undone.changed_meanwhile) == (("a",), ("grows",))
    assert sorted(undone.left_out) == ["grows", "inner", "large"]
    for name in ("x.log", "out", "large", "inner/x"):
        assert (project.folder / name).exists()


def test_old_checkpoints_are_dropped(tmp_path: Path) -> None:
    project = Project(tmp_path, Unsandboxed(), keep=4)
    project.checkpoints._shadow.clean = lambda: cleaned.append(1)  # type: ignore[method-assign]
    cleaned: list[int] = []

    async def many() -> None:
        for number in range(54):
            (project.folder / "a").write_text(str(number))
            await project.checkpoints.before_command(ToolCall(str(number), "run_command", {"command": str(number)}))

    asyncio.run(many())
    taken = asyncio.run(project.fresh().taken())
    assert [found.label for found in taken] == ["50", "51", "52", "53"]
    assert cleaned == [1]


def test_cleaning_keeps_what_is_kept(project: Project) -> None:
    project.sh("echo a > a")
    project.turn("echo b > a")
    asyncio.run(project.checkpoints.taken())
    project.checkpoints._shadow.clean()
    assert project.undo().restored == ("a",)


def test_checkpoints_are_outside_the_workspace_and_private(project: Project, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"):
        Checkpoints(DiskWorkspace(project.folder), project.folder / "state", project.sandbox)
    project.turn("echo a > a")
    folders = [path for path in (tmp_path / "state/checkpoints").iterdir() if path.is_dir()]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700]


def test_a_command_runs_without_a_checkpoint_but_a_turn_says_so(project: Project, caplog: Any) -> None:
    project.begin()
    (next((project.state / "checkpoints").iterdir()) / "index.lock").touch()
    project.sh("echo a > a")
    asyncio.run(project.checkpoints.before_command(ToolCall("c", "run_command", {"command": "x"})))
    assert "no checkpoint before the command" in caplog.text
    with pytest.raises(CheckpointFailed, match=r"index\.lock"):
        project.end()


def test_a_file_swapped_for_a_link_while_it_is_restored_leads_nowhere(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text("outside")
    project.sh("mkdir dir; echo f > dir/f; echo g > dir/g")
    project.turn("rm dir/f; echo 2 > dir/g")
    contents = project.checkpoints._shadow.contents

    def swapped(blobs: Any) -> Any:
        shutil.rmtree(project.folder / "dir")
        (project.folder / "dir").symlink_to(tmp_path / "outside")
        return contents(blobs)

    project.checkpoints._shadow.contents = swapped  # type: ignore[method-assign]
    before = snapshot(tmp_path / "outside")
    undone = project.undo()
    assert (undone.restored, sorted(undone.changed_meanwhile)) == ((), ["dir/f", "dir/g"])
    assert snapshot(tmp_path / "outside") == before
