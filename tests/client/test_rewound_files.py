"""Files go back to the moment before some calls: what they did is taken back, what the user did since is not."""

import asyncio
import sqlite3
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from codelab_client.checkpoints import FilesBack, files
from codelab_client.checkpoints import undoing as undoings
from codelab_client.checkpoints.record import Change
from codelab_client.execution import ToolCall
from codelab_client.sandbox import Sandbox, Unsandboxed, choose
from codelab_client.tools.tree import Tree

from tests.client.calls import Output, snapshot
from tests.client.test_checkpoints import CALLS, SCRIPTS, Project


class Conversation(Project):
    """Its calls have ids, by which they are taken back."""

    def seen(self, *call_ids: str) -> FilesBack:
        return asyncio.run(self.checkpoints.files_back(call_ids))

    def rewind(self, *call_ids: str, extent: Any = "commands", seen: FilesBack | None = None) -> FilesBack:
        shown = self.seen(*call_ids) if seen is None else seen
        return asyncio.run(self.checkpoints.rewind(call_ids, "back", extent, shown))

    def write(self, path: str, content: str) -> str:
        """A turn that writes a file."""
        self.begin()
        call_id = self.call("write_file", path=path, content=content)
        self.end()
        return call_id


@pytest.fixture
def project(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path, Unsandboxed())


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return choose(tmp_path_factory.mktemp("home")).sandbox


def prepared(project: Conversation) -> dict[str, Any]:
    project.sh("echo a > a; printf '1\\r\\n2\\n' > crlf; mkdir dir; echo f > dir/f; echo g > dir/g; echo r > run")
    project.sh("chmod 755 run; ln -s a old-link; head -c 5000 /dev/urandom > binary")
    return project.files()


@pytest.mark.parametrize("name", ["create", "rename", "links", "odd_names", "binary"])
def test_what_commands_did_is_restored_from_the_state_before(tmp_path: Path, name: str, sandbox: Sandbox) -> None:
    project = Conversation(tmp_path, sandbox)
    before = prepared(project)
    project.begin()
    call_id = project.command(SCRIPTS[name])
    project.end()
    seen = project.seen(call_id)
    assert (seen.edited_paths, seen.changed_since, seen.recorded_calls) == ((), (), frozenset({call_id}))
    changed = project.files()
    assert project.rewind(call_id).command_paths == seen.command_paths
    assert project.files() == before
    project.redo()
    assert project.files() == changed


@pytest.mark.parametrize("name", ["create", "mode", "delete_directory", "move", "in_place_of_a_directory"])
def test_what_the_tools_did_in_several_turns_is_taken_back_together(project: Conversation, name: str) -> None:
    before = prepared(project)
    calls = []
    for tool, arguments in CALLS[name]:
        project.begin(tool)
        calls.append(project.call(tool, **arguments))
        project.end()
    changed = project.files()
    project.restart()
    done = project.rewind(*calls)
    assert project.files() == before
    assert (done.command_paths, done.changed_since, done.failed_paths) == ((), (), ())
    assert project.undo().label is None, "its turns are taken back"
    assert (project.redo().label, project.files()) == ("back", changed)
    project.undo()
    assert project.files() == before, "what was brought back together is taken back together"


def test_only_the_calls_since_the_message_are_taken_back(project: Conversation) -> None:
    project.write("a", "1")
    calls = [project.write("a", "2"), project.write("new", "x"), project.write("a", "3")]
    seen = project.seen(*calls)
    assert (seen.edited_paths, seen.deleted_paths) == (("a", "new"), ("new",))
    project.rewind(*calls)
    assert (project.text("a"), (project.folder / "new").exists()) == ("1", False)
    assert (project.undo().restored_paths, (project.folder / "a").exists()) == (("a",), False)


def test_a_part_of_a_turn_goes_back_if_its_message_was_given_to_a_running_one(project: Conversation) -> None:
    project.begin()
    project.call("write_file", path="a", content="1")
    later = project.call("write_file", path="a", content="2")
    project.end()
    project.rewind(later)
    assert project.text("a") == "1"


@pytest.mark.parametrize("change", ["echo user >> a", "rm a", "chmod +x a", "mv a b", "ln -sf dir a", "rm a; mkdir a"])
def test_what_the_user_changed_since_is_shown_and_stays_unless_it_is_asked_for(
    project: Conversation, change: str
) -> None:
    before = prepared(project)
    calls = [project.write("a", "agent"), project.write("other", "agent")]
    project.sh(change)
    now = project.files()
    seen = project.seen(*calls)
    assert (seen.changed_since, seen.edited_paths) == (("a",), ("other",))
    assert project.rewind(*calls).changed_since == ("a",)
    assert {**project.files(), str(project.folder / "other"): now[str(project.folder / "other")]} == now
    done = project.rewind(*calls, extent="everything")
    assert (done.replaced_paths, done.changed_since) == (("a",), ())
    ours = {path: said for path, said in project.files().items() if not path.endswith("/b")}
    assert ours == before
    project.redo()
    assert project.files() == {path: said for path, said in now.items() if not path.endswith("/other")}


def test_what_somebody_changed_between_two_calls_stays_whole(project: Conversation) -> None:
    calls = [project.write("a", "1")]
    project.sh("echo user > a")
    project.begin()
    calls.append(project.call("edit_file", path="a", edits=[{"old": "user", "new": "agent"}]))
    project.end()
    done = project.rewind(*calls)
    assert (done.restored_paths, done.changed_since, project.text("a")) == ((), ("a",), "agent\n")
    assert project.rewind(*calls, extent="everything").deleted_paths == ("a",)


def test_what_the_user_saves_while_they_look_at_it_stays(project: Conversation) -> None:
    project.sh("echo a > a; echo b > b")
    calls = [project.write("a", "agent"), project.write("b", "agent"), project.write("new", "agent")]
    seen = project.seen(*calls)
    project.sh("echo user > a; rm new; echo user > new")
    for extent in ("commands", "everything"):
        done = project.rewind(*calls, extent=extent, seen=seen)
        assert done.changed_since == ("a", "new")
        assert (project.text("a"), project.text("b"), project.text("new")) == ("user\n", "b\n", "user\n")


def test_commands_are_left_if_the_user_wants_only_the_edits_back(project: Conversation) -> None:
    project.sh("echo a > a; echo b > b")
    calls = [project.write("a", "agent")]
    project.begin()
    calls.append(project.command("echo command > b; echo command > new"))
    project.end()
    done = project.rewind(*calls, extent="edits")
    assert (done.edited_paths, done.command_paths, done.left_paths) == (("a",), (), ("b", "new"))
    assert (project.text("a"), project.text("b")) == ("a\n", "command\n")
    assert project.rewind(*calls).deleted_paths == ("new",)
    assert project.text("b") == "b\n"


def test_another_sessions_work_is_named_and_stays(project: Conversation) -> None:
    project.sh("echo a > a")
    call_id = project.write("a", "one")
    other = Conversation(project.folder.parent, Unsandboxed())
    other.restart("two")
    other.write("a", "two")
    seen = project.seen(call_id)
    assert (seen.changed_since, seen.by_sessions) == (("a",), ("a",))
    project.rewind(call_id)
    assert project.text("a") == "two"


def test_calls_of_the_conversation_before_a_fork_are_taken_back_in_the_fork(project: Conversation) -> None:
    project.sh("echo 0 > a")
    calls = [project.write("a", "1"), project.write("a", "2")]
    project.rewind(calls[1])
    project.restart("fork")
    calls.append(project.write("a", "3"))
    assert project.rewind(calls[0], calls[2]).edited_paths == ("a",)
    assert project.text("a") == "0\n"
    project.restart("one")
    assert (project.redo().label, project.text("a")) == ("back", "0\n"), "the fork has changed it since"


def test_what_was_taken_back_already_is_in_nobodys_way(project: Conversation) -> None:
    project.sh("echo 0 > a")
    calls = [project.write("a", "1"), project.write("a", "2")]
    project.undo()
    calls.append(project.write("a", "3"))
    assert project.seen(*calls).edited_paths == ("a",)
    project.rewind(*calls)
    assert project.text("a") == "0\n"
    assert project.seen(*calls).states == {}


def test_it_may_die_at_any_path_and_is_done_again(project: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    before = prepared(project)
    calls = [project.write("a", "1"), project.write("new/file", "1"), project.write("dir/f", "1")]
    changed = project.files()

    class Death(BaseException):
        pass

    for survived in range(4):
        restored = iter(range(survived))

        def dying(*arguments: Any, put: Any = Tree.apply, left: Any = restored) -> Any:
            if next(left, None) is None:
                raise Death
            return put(*arguments)

        with monkeypatch.context() as patched, suppress(Death):
            patched.setattr(Tree, "apply", dying)
            project.rewind(*calls)
        project.restart()
        project.rewind(*calls)
        assert project.files() == before
        while project.redo().label is not None:
            pass
        assert project.files() == changed


def test_a_record_of_an_earlier_version_is_used_and_its_calls_are_not_known(project: Conversation) -> None:
    call_id = project.write("a", "1")
    database = next((project.state / "changes").iterdir()) / "changes.sqlite3"
    project.checkpoints.close()
    with sqlite3.connect(database) as record:
        record.execute("alter table steps drop column call")
        record.execute("alter table turns drop column rewind")
    record.close()
    project.restart()
    assert project.seen(call_id) == FilesBack()
    call_id = project.write("a", "2")
    project.rewind(call_id)
    assert (project.text("a"), project.undo().restored_paths) == ("1", ("a",))


def test_what_no_state_has_and_what_leads_out_is_named_and_not_touched(project: Conversation, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text("outside")
    project.sh("git init -q .; echo ignored > .gitignore; echo 1 > ignored; mkdir dir; echo f > dir/f")
    outside = snapshot(tmp_path / "outside")
    project.begin()
    call_id = project.command("echo 2 > ignored; echo 2 > dir/f; head -c 6000000 /dev/zero > large")
    project.end()
    project.sh("rm -r dir; ln -s ../outside dir")
    seen = project.seen(call_id)
    assert (seen.changed_since, seen.not_stored) == (("dir/f",), ("ignored (changed)", "large (new)"))
    done = project.rewind(call_id, extent="everything")
    assert (done.restored_paths, done.not_stored) == ((), seen.not_stored)
    assert snapshot(tmp_path / "outside") == outside


def test_a_subagents_calls_are_those_of_the_agents_call(project: Conversation) -> None:
    project.sh("echo a > a; echo b > b")
    project.begin()
    call = ToolCall("inner", "delete_file", {"path": "a"}, parent_call_id="delegate")
    asyncio.run(project.tools.execute(call, Output()))
    command = ToolCall("inner 2", "run_command", {"command": "x"}, parent_call_id="delegate")

    async def run() -> None:
        async with project.checkpoints.around(command):
            project.sh("rm b")

    asyncio.run(run())
    assert project.seen("inner", "inner 2") == FilesBack()
    project.rewind("delegate")
    assert (project.text("a"), project.text("b")) == ("a\n", "b\n")


def change(old: str, new: str, *, exact: bool = True) -> Change:
    return Change(("a",), files.FileState("file", old), files.FileState("file", new), exact=exact, done=True)


@pytest.mark.parametrize(
    ("changes", "now", "edits", "commands"),
    [
        (["ab", "bc"], "c", ("a", ""), ("a", "")),
        (["ab", "bc"], "b", ("a", ""), ("a", "")),
        (["ab", "bc"], "a", ("a", ""), ("a", "")),
        (["ab", "bc"], "u", ("u", "changed"), ("u", "changed")),
        (["ab", "ud"], "d", ("u", "changed"), ("u", "changed")),
        (["xa", "ab", "ac"], "c", ("x", ""), ("x", "")),
        (["ab?"], "b", ("b", "unsure"), ("a", "")),
        (["ab", "bc?", "cd"], "d", ("c", "unsure"), ("a", "")),
        (["ab?", "bc"], "u", ("u", "changed"), ("u", "changed")),
    ],
)
def test_a_path_is_followed_back_as_far_as_each_change_left_what_the_next_one_found(
    changes: Collection[str], now: str, edits: tuple[str, str], commands: tuple[str, str]
) -> None:
    made = [change(text[0], text[1], exact=not text.endswith("?")) for text in changes]
    for extent, expected in (("edits", edits), ("commands", commands)):
        target, reason = undoings._target(made, files.FileState("file", now), extent)  # type: ignore[arg-type]
        assert (target.digest, reason) == expected
