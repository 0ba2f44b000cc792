"""What the terminal's client tells the model of the place where calls run."""

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from codelab_client.local_executor import LocalExecutor
from codelab_client.sandbox import Unsandboxed, choose
from codelab_client.tools import surroundings
from codelab_client.tools.executor import Executor
from codelab_client.tools.memory import MemoryWorkspace
from codelab_client.tools.surroundings import place, tree
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import git, repository
from tests.client.conftest import Codelab
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.frames import check_sent

if TYPE_CHECKING:
    from codelab_client.tools.commands import CommandRunner


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, git answers in time."""
    monkeypatch.setattr(surroundings, "_PATIENCE_S", 60.0)


def situation(folder: Path) -> dict[str, str]:
    told = asyncio.run(Executor(DiskWorkspace(folder), Unsandboxed()).situation())
    check_sent({"type": "user_message", "content": "x", "environment": told})
    return told


def test_the_tree_has_two_levels_and_counts_what_it_leaves_out() -> None:
    many = [f"lib/part_{number:02}.py" for number in range(20)]
    shown = tree(["setup.py", "src/a.py", "src/deep/b.py", "src/deep/deeper/c.py", *many])
    names = [f"  part_{number:02}.py" for number in range(12)]
    assert shown.split("\n") == ["lib/", *names, "  (8 more)", "setup.py", "src/", "  a.py", "  deep/"]


@pytest.mark.parametrize(
    "paths",
    [
        [f"{top:03}/{name:03}{'x' * 100}" for top in range(100) for name in range(10)],
        [f"{number}{'й' * 250}.py" for number in range(500)],
    ],
)
def test_a_large_tree_stays_within_what_the_server_takes(paths: list[str]) -> None:
    shown = tree(paths)
    check_sent({"type": "hello", "environment": {"tree": shown}})
    assert shown.count("\n") <= 60 * 14
    assert "more)" in shown[-20:] or len(shown) == 6_000


def test_names_that_break_a_line_or_hide_are_told_visibly() -> None:
    files = {("a\nb.py",): b"", ("\u202esrc", "x\u2028y"): b"", ("c\udcff",): b""}
    told = asyncio.run(Executor(MemoryWorkspace(files)).environment())
    check_sent({"type": "hello", "environment": told})
    assert told == {"tree": "a?b.py\nc?\n?src/\n  x?y"}


def test_the_place_says_what_commands_can_reach(tmp_path: Path) -> None:
    told = place(tmp_path, Unsandboxed().guarantees, network=False)
    assert (told["sandbox"], told["workspace"]) == ("anything that the user can reach", tmp_path.name)
    check_sent({"type": "hello", "environment": told})


def test_of_commands_that_run_elsewhere_no_sandbox_is_claimed(tmp_path: Path) -> None:
    """In an editor's terminals, for example."""
    commands = cast("CommandRunner", object())
    told = asyncio.run(Executor(DiskWorkspace(tmp_path), choose().sandbox, commands=commands).environment())
    assert told["sandbox"] == "anything that the user can reach"


def test_a_message_is_sent_also_where_calls_cannot_be_executed(tmp_path: Path) -> None:
    (tmp_path / ".codelab").mkdir()
    (tmp_path / ".codelab/config.toml").write_text("= broken")
    assert asyncio.run(LocalExecutor(tmp_path).situation()) == {}


def test_git_is_told_with_the_message(tmp_path: Path) -> None:
    folder = repository(tmp_path / "shop", **{"a.py": "1", "b.py": "2"})
    assert situation(folder)["git"] == "branch main; nothing to commit"
    (folder / "a.py").write_text("3")
    (folder / "new").mkdir()
    for name in ("x.py", "y\n[note].py"):
        (folder / "new" / name).write_text("")
    git(folder, "rm", "--quiet", "b.py")
    told = situation(folder)
    assert told["git"] == "branch main; modified a.py, deleted b.py, untracked new/"
    assert re.fullmatch(r"\w+, \d{4}-\d\d-\d\d \d\d:\d\d \(UTC[+-]\d{4}\)", told["date"])


def test_without_a_repository_and_with_thousands_of_changes_it_is_one_short_line(tmp_path: Path) -> None:
    assert situation(tmp_path)["git"] == "no repository"
    folder = repository(tmp_path / "many")
    for number in range(400):
        (folder / f"{number:03}\u2028.txt").write_text("")
    told = situation(folder)["git"]
    assert re.fullmatch(r"branch main; untracked 000\?\.txt, .* and 3\d\d more", told)
    assert len(told) <= 300


def test_codelab_exec_tells_both(codelab: Codelab, folder: Path, model: ScriptedModel) -> None:
    (folder / "cart.py").write_text("")
    script = model.script("surroundings-exec", Says("Yes"))
    done = codelab("exec", script)
    assert done.returncode == 0, done.stderr
    *_, asked = model.requests["surroundings-exec"][0]["messages"]
    before, after = asked["content"].split(script)
    assert f"project: {folder.name}\n" in before
    assert "files, as calls name them:\ncart.py\n" in before
    assert "date: " in after
    assert "\napprovals: changes and commands wait" in after
