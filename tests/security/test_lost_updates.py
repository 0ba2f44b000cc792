"""The user's work is never lost: a call changes a file only as the user has seen it, or as the model knows it."""

import asyncio
import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from codelab_client.acp.files import EditorWorkspace
from codelab_client.acp.params import Editor as EditorOffers
from codelab_client.execution import ToolCall, ToolOutcome
from codelab_client.tools import exchange, replacement
from codelab_client.tools.executor import Executor
from codelab_client.tools.expectations import Expectations, showing, view_of
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.replacement import Change
from codelab_client.tools.tree import Tree
from codelab_client.tools.workspace import DiskWorkspace

from tests.client.calls import Output, error_code, execute, result
from tests.client.conftest import Codelab
from tests.client.editors import Editor, allow
from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.fakes.model.script import Says
from tests.fakes.model.script import call as says_call
from tests.fakes.model.server import ScriptedModel

OLD, SAVED, NEW = "one\ntwo\nthree\n", "one\ntwo\nthree\nsaved by the user\n", "one\n2\nthree\n"
DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
DELETION = "--- a/a.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n"

#: Every call that changes or removes a.py.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "write_file": ("write_file", {"path": "a.py", "content": NEW}),
    "write_to_file": ("write_to_file", {"path": "a.py", "content": NEW}),
    "edit_file": ("edit_file", {"path": "a.py", "edits": [{"old": "two", "new": "2"}]}),
    "delete_file": ("delete_file", {"path": "a.py"}),
    "move_file": ("move_file", {"from": "a.py", "to": "b.py"}),
    "apply_patch": ("apply_patch", {"diff": DIFF}),
    "apply_patch that deletes": ("apply_patch", {"diff": DELETION}),
}


class User:
    """Answers questions about changes, and does something meanwhile."""

    def __init__(self, *answers: bool, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.answers, self.asked, self._meanwhile = list(answers), list[str](), meanwhile

    async def confirm(self, tool: str, arguments: Mapping[str, Any], why: str) -> bool:
        self.asked.append(why)
        self._meanwhile()
        return self.answers.pop(0)

    async def choose(self, message: str, actions: Sequence[str]) -> str | None:
        return None

    async def review(self, message: str, diff: str, chunks: int) -> Sequence[int] | None:
        return range(1, chunks + 1)


class Place:
    """A folder, and a client in it."""

    def __init__(self, folder: Path, user: User | None) -> None:
        self.folder, self.file, self.expectations = folder, folder / "a.py", Expectations()
        self._workspace = DiskWorkspace(folder)
        self.executor = Executor(self._workspace, dialogue=user, expectations=self.expectations)

    def show(self, call_id: str, tool: str, arguments: Mapping[str, Any], shown: Callable[[], object] = int) -> None:
        """The user sees a call, before approving it."""
        with showing(self.expectations, call_id, tool, arguments, self._workspace.tree.fingerprint):
            shown()

    def run(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        return asyncio.run(self.executor.execute(ToolCall(call_id, tool, arguments), Output()))


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Place]:
    def made(user: User | None = None) -> Place:
        (tmp_path / "ws").mkdir()
        (tmp_path / "ws/a.py").write_text(OLD)
        return Place(tmp_path / "ws", user)

    return made


def saved(outcome: ToolOutcome, there: Place) -> None:
    assert outcome.error is not None
    assert there.file.read_text() == SAVED
    assert "Nothing was changed" in outcome.error.message or "did not want" in outcome.error.message


# -- a user who has seen the call --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "arguments"), CALLS.values(), ids=CALLS)
def test_a_save_between_the_diff_and_the_approval_is_not_thrown_away(
    place: Callable[..., Place], tool: str, arguments: dict[str, Any]
) -> None:
    there = place()
    there.show("c", tool, arguments)
    there.file.write_text(SAVED)
    saved(there.run("c", tool, arguments), there)


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("agrees", [True, False])
def test_the_new_diff_is_asked_about(place: Callable[..., Place], tool: str, *, agrees: bool) -> None:
    there = place(user := User(agrees))
    name, arguments = CALLS[tool]
    there.show("c", name, arguments)
    there.file.write_text(SAVED)
    outcome = there.run("c", name, arguments)
    assert user.asked == ["a.py was changed after it was shown to the user"]
    if not agrees:
        saved(outcome, there)
        assert outcome.error is not None
        assert outcome.error.code == "PERMISSION_DENIED"
    elif tool == "apply_patch that deletes":  # what the user has added is not in the diff
        assert outcome.error is not None
        assert there.file.read_text() == SAVED
    else:
        assert outcome.error is None
        assert not there.file.exists() or there.file.read_text() in (NEW, SAVED.replace("two", "2"))


def test_a_save_while_the_new_diff_is_shown_is_asked_about_again(place: Callable[..., Place]) -> None:
    there = place(user := User(True, True, False))
    user._meanwhile = lambda: there.file.write_text(f"{SAVED}{len(user.asked)}\n")
    there.show("c", *CALLS["write_file"])
    there.file.write_text(SAVED)
    outcome = there.run("c", *CALLS["write_file"])
    assert outcome.error is not None
    assert len(user.asked) == 3
    assert there.file.read_text() == f"{SAVED}3\n"


def test_a_save_while_the_diff_is_drawn_is_asked_about(place: Callable[..., Place]) -> None:
    there = place(user := User(False))
    there.show("c", *CALLS["write_file"], lambda: there.file.write_text(SAVED))
    saved(there.run("c", *CALLS["write_file"]), there)
    assert len(user.asked) == 1


@pytest.mark.parametrize("tool", ["write_file", "apply_patch"])
def test_a_file_that_the_user_has_created_meanwhile_stays(place: Callable[..., Place], tool: str) -> None:
    there = place()
    there.file.unlink()
    creation = "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+new\n"
    arguments = {"path": "a.py", "content": "new\n"} if tool == "write_file" else {"diff": creation}
    there.show("c", tool, arguments)
    there.file.write_text(SAVED)
    saved(there.run("c", tool, arguments), there)


def test_a_file_that_was_put_into_a_folder_is_not_deleted_with_it(place: Callable[..., Place]) -> None:
    there = place()
    (there.folder / "docs/deep").mkdir(parents=True)
    (there.folder / "docs/deep/a.md").write_text("a")
    there.show("c", "delete_file", {"path": "docs"})
    (there.folder / "docs/deep/b.md").write_text("b")
    assert there.run("c", "delete_file", {"path": "docs"}).error is not None
    assert sorted(path.name for path in (there.folder / "docs/deep").iterdir()) == ["a.md", "b.md"]


@pytest.mark.parametrize(("tool", "arguments"), CALLS.values(), ids=CALLS)
def test_saving_a_file_without_a_change_asks_nothing(
    place: Callable[..., Place], tool: str, arguments: dict[str, Any]
) -> None:
    there = place(user := User())
    there.show("c", tool, arguments)
    there.file.write_text(OLD)
    os.utime(there.file, (1, 1))
    assert there.run("c", tool, arguments).error is None
    assert user.asked == []


@pytest.mark.parametrize("tool", ["write_file", "edit_file", "apply_patch"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_link_is_refused_and_not_asked_about(place: Callable[..., Place], tool: str, *, is_folder: bool) -> None:
    there = place(user := User())
    (there.folder / "real").mkdir()
    there.file.rename(there.folder / "real/a.py")
    there.file.symlink_to("real/a.py")
    (there.folder / "link").symlink_to("real")
    path = "link/a.py" if is_folder else "a.py"
    name, arguments = CALLS[tool]
    given = json.loads(json.dumps(arguments).replace("a.py", path))
    there.show("c", name, given)
    outcome = there.run("c", name, given)
    assert outcome.error is not None
    assert (outcome.error.code, user.asked) == ("PERMISSION_DENIED", [])
    assert "real" in outcome.error.message
    assert (there.folder / "real/a.py").read_text() == OLD


def test_what_is_not_saved_in_an_editor_that_cannot_write_is_asked_about(tmp_path: Path) -> None:
    """The editor only shows its text, so the new one goes to the disk: as the user has seen it."""
    buffer = [OLD]

    class Showing:
        async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
            return {"content": buffer[0]}

    async def talk() -> list[str]:
        (tmp_path / "a.py").write_text("one\n")
        workspace = EditorWorkspace(tmp_path, cast(Any, Showing()), EditorOffers(reads=True), "s", lambda *_: None)
        expectations, user = Expectations(), User(True)
        executor = Executor(workspace, dialogue=user, expectations=expectations)
        call = ToolCall("c", *CALLS["write_file"])
        view = await view_of(workspace, call.tool_name, call.arguments)
        expectations.note_shown("c", view, view)
        buffer[0] = SAVED
        outcome = await executor.execute(call, Output())
        assert outcome.error is None
        return user.asked

    assert asyncio.run(talk()) == ["a.py was changed after it was shown to the user"]
    assert (tmp_path / "a.py").read_text() == NEW


def test_calls_that_were_shown_together_are_not_asked_about_again(place: Callable[..., Place]) -> None:
    there = place(user := User())
    edits = [("two", "2"), ("three", "3"), ("one", "1")]
    calls = {old: {"path": "a.py", "edits": [{"old": old, "new": new}]} for old, new in edits}
    for call_id, arguments in calls.items():
        there.show(call_id, "edit_file", arguments)
    for call_id, arguments in calls.items():
        assert there.run(call_id, "edit_file", arguments).error is None
    assert (user.asked, there.file.read_text()) == ([], "1\n2\n3\n")


def test_a_folder_from_which_an_own_call_deleted_a_file_is_not_asked_about_again(place: Callable[..., Place]) -> None:
    there = place(user := User())
    (there.folder / "docs").mkdir()
    for name in ("a.md", "b.md"):
        (there.folder / "docs" / name).write_text(name)
    calls = [("1", {"path": "docs/a.md"}), ("2", {"path": "docs"})]
    for call_id, arguments in calls:
        there.show(call_id, "delete_file", arguments)
    for call_id, arguments in calls:
        assert there.run(call_id, "delete_file", arguments).error is None
    assert (user.asked, [path.name for path in there.folder.iterdir()]) == ([], ["a.py"])


def test_a_save_between_two_calls_that_were_shown_together_is_not_thrown_away(place: Callable[..., Place]) -> None:
    there = place()
    there.show("1", *CALLS["edit_file"])
    there.show("2", *CALLS["write_file"])
    assert there.run("1", *CALLS["edit_file"]).error is None
    there.file.write_text(SAVED)
    saved(there.run("2", *CALLS["write_file"]), there)


def test_a_diff_that_was_reviewed_is_about_the_files_of_the_review(place: Callable[..., Place]) -> None:
    there = place(User())
    reviewed = there.run("r", "apply_patch_review", {"diff": DIFF})
    there.file.write_text(SAVED)
    saved(there.run("c", "apply_patch", {"diff": reviewed.result["filtered_diff"]}), there)
    there.file.write_text(OLD)
    assert there.run("d", "apply_patch", {"diff": reviewed.result["filtered_diff"]}).error is None


# -- nobody has seen the call ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["write_file", "delete_file"])
def test_without_a_user_a_file_that_was_never_read_is_not_replaced(place: Callable[..., Place], tool: str) -> None:
    there = place()
    there.file.write_text(SAVED)
    outcome = there.run("c", *CALLS[tool])
    saved(outcome, there)
    assert outcome.error is not None
    assert "read it first" in outcome.error.message
    result(there.executor, "read_file", path="a.py")
    assert there.run("d", *CALLS[tool]).error is None


@pytest.mark.parametrize("tool", ["write_file", "delete_file"])
def test_without_a_user_a_file_that_was_saved_since_it_was_read_is_not_replaced(
    place: Callable[..., Place], tool: str
) -> None:
    there = place()
    result(there.executor, "read_file", path="a.py", offset=2, limit=1)
    there.file.write_text(SAVED)
    outcome = there.run("c", *CALLS[tool])
    saved(outcome, there)
    assert outcome.error is not None
    assert "read it again" in outcome.error.message


def test_without_a_user_a_folder_is_deleted_only_if_all_its_files_are_known(place: Callable[..., Place]) -> None:
    there = place()
    for name in ("x", "y"):
        result(there.executor, "write_file", path=f"docs/{name}", content=name)
    (there.folder / "docs/z").write_text("z")
    assert error_code(there.executor, "delete_file", path="docs") == "EXECUTION_FAILED"
    result(there.executor, "read_file", path="docs/z")
    result(there.executor, "delete_file", path="docs")
    for number in range(600):
        (there.folder / f"{number}").touch()
    (there.folder / "many").mkdir()
    for number in range(600):
        (there.folder / f"{number}").rename(there.folder / f"many/{number}")
    outcome = execute(there.executor, "delete_file", path="many")
    assert outcome.error is not None
    assert "only the user can delete it" in outcome.error.message


def test_what_a_call_has_moved_is_still_known(place: Callable[..., Place]) -> None:
    there = place()
    result(there.executor, "read_file", path="a.py")
    result(there.executor, "move_file", **{"from": "a.py", "to": "lib/b.py"})
    result(there.executor, "move_file", **{"from": "lib", "to": "src"})
    result(there.executor, "write_file", path="src/b.py", content=NEW)
    result(there.executor, "write_file", path="a.py", content="a new file of this name")


# -- the check and the write are one -----------------------------------------------------------------------------------


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("tool", ["write_file", "edit_file", "delete_file", "apply_patch", "hard link"])
def test_a_save_between_the_check_and_the_write_is_not_thrown_away(
    place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch, tool: str, *, swaps: bool
) -> None:
    """The user saves as many bytes at the same time, just before the new content takes the file's place."""
    there = place()
    if tool == "hard link":
        (there.folder / "other").hardlink_to(there.file)
    name, arguments = CALLS["write_file" if tool == "hard link" else tool]
    late = OLD.replace("one", "ONE")
    before = there.file.stat()

    def save(*_: Any) -> Any:
        there.file.write_text(late)
        os.utime(there.file, ns=(before.st_atime_ns, before.st_mtime_ns))

    if name == "delete_file":
        aside = replacement.move_aside
        monkeypatch.setattr("codelab_client.tools.tree.move_aside", lambda *given: (save(), aside(*given))[1])
    elif tool == "hard link":
        fsync = os.fsync
        monkeypatch.setattr(os, "fsync", lambda descriptor: (save(), fsync(descriptor)))
    else:
        real = exchange.exchange
        monkeypatch.setattr(replacement, "exchange", lambda *given: (save(), swaps and real(*given))[1])
    there.show("c", name, arguments)
    assert there.run("c", name, arguments).error is not None
    assert there.file.read_text() == late
    assert {path.name for path in there.folder.iterdir()} == {"a.py", *(["other"] if tool == "hard link" else [])}


@pytest.mark.parametrize("kind", ["write", "move"])
def test_a_file_that_takes_a_free_name_at_the_last_moment_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    tree = Tree(tmp_path)
    (tmp_path / "a").write_text("a")
    link = os.link

    def late(source: str, target: str, **more: Any) -> None:
        (tmp_path / "b").write_text("theirs")
        link(source, target, **more)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ToolFailure, match=r"changed meanwhile|exists already"):
        tree.apply([Change(("b",), b"ours", expected=None)]) if kind == "write" else tree.move(("a",), ("b",))
    assert (tmp_path / "b").read_text() == "theirs"
    assert (tmp_path / "a").read_text() == "a"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_no_interleaving_of_calls_and_saves_loses_a_byte(place: Callable[..., Place]) -> None:
    """100 random orders of showing, approving, saving, reading and running: what the user saved last is never lost."""
    there, chance, lost = place(), random.Random(18), 0
    for number in range(100):
        name, arguments = CALLS[chance.choice(["write_file", "edit_file", "delete_file", "apply_patch", "move_file"])]
        there.file.write_text(OLD if chance.random() < 0.5 else f"{OLD}{number}\n")
        seen = there.file.read_text()
        steps = [
            lambda call=f"c{number}", name=name, arguments=arguments: there.show(call, name, arguments),
            lambda number=number: there.file.write_text(f"{OLD}saved {number}\n"),
            lambda: execute(there.executor, "read_file", path="a.py"),
        ]
        chance.shuffle(steps)
        known = seen
        for step in steps[: chance.randint(1, 3)]:
            step()
            if step is not steps[1]:
                known = there.file.read_text()
        last = there.file.read_text()
        outcome = there.run(f"c{number}", name, arguments)
        moved = there.folder / "b.py"
        now = there.file.read_text() if there.file.exists() else moved.read_text() if moved.exists() else None
        loses = name in ("write_file", "delete_file")
        lost += outcome.error is None and loses and "saved" in last and known != last
        lost += outcome.error is not None and now != last
        moved.unlink(missing_ok=True)
    assert lost == 0


# -- the programs ------------------------------------------------------------------------------------------------------

WRITE = says_call("write_file", path="a.py", content=NEW)
DONE = Says("Done.")


@pytest.mark.parametrize("is_plain", [False, True], ids=["inline", "plain"])
def test_on_a_terminal_the_new_diff_is_asked_about(
    environment: dict[str, str], folder: Path, model: ScriptedModel, *, is_plain: bool
) -> None:
    (folder / "a.py").write_text(OLD)
    script = model.script(f"lost-tty-{is_plain}", Says("", [WRITE]), DONE)
    with Terminal([*CODELAB, *(["--plain"] if is_plain else [])], environment, folder) as terminal:
        terminal.expect("/help lists the commands")
        terminal.type(f"{script}\r")
        terminal.expect("type y to approve" if is_plain else "y yes  n no  e edit")
        (folder / "a.py").write_text(SAVED)
        time.sleep(0.7)
        terminal.type("y\r" if is_plain else "y")
        terminal.expect("a.py was changed after it was shown")
        terminal.expect("-saved by the user")
        terminal.expect("Make this change (write_file a.py)?  y yes  n no")
        assert (folder / "a.py").read_text() == SAVED
        if not is_plain:
            terminal.expect("waiting for you")
        time.sleep(0.7)
        terminal.type("n\r" if is_plain else "n")
        terminal.expect("Done.")
    assert (folder / "a.py").read_text() == SAVED
    assert "did not want" in model.requests[f"lost-tty-{is_plain}"][1]["messages"][-1]["content"]


def test_a_user_may_think_longer_about_the_new_diff_than_the_call_has_time(place: Callable[..., Place]) -> None:
    class Slow(User):
        async def confirm(self, tool: str, arguments: Mapping[str, Any], why: str) -> bool:
            await asyncio.sleep(1.2)
            return await super().confirm(tool, arguments, why)

    there = place(Slow(True))
    there.show("c", *CALLS["edit_file"])
    there.file.write_text(SAVED)
    call, output = ToolCall("c", *CALLS["edit_file"], deadline=int((time.time() + 0.6) * 1000)), Output()
    assert asyncio.run(there.executor.execute(call, output)).error is None
    assert output.pieces, "signs of life, which move the deadline at the server"
    assert {text for _, text in output.pieces} == {""}


@pytest.mark.parametrize("has_buffer", [False, True], ids=["disk", "buffer"])
def test_in_an_editor_the_new_diff_is_asked_about(
    environment: dict[str, str], folder: Path, model: ScriptedModel, *, has_buffer: bool
) -> None:
    (folder / "a.py").write_text(OLD)
    buffer = [OLD]

    def save(text: str) -> None:
        buffer[0] = text
        if not has_buffer:
            (folder / "a.py").write_text(text)

    def decide(params: dict[str, Any]) -> dict[str, Any]:
        if params["toolCall"]["toolCallId"].startswith("question-"):
            asked.append(params)
            return allow(params, "no")
        save(SAVED)
        return allow(params)

    asked: list[dict[str, Any]] = []
    answers = {"session/request_permission": decide, "fs/read_text_file": lambda _: {"content": buffer[0]}}
    offers = {"fs": {"readTextFile": True, "writeTextFile": True}} if has_buffer else {}
    script = model.script(f"lost-acp-{has_buffer}", Says("", [WRITE]), DONE)
    with Editor(environment, answers=answers, offers=offers) as editor:
        editor.prompt(editor.new(folder), script)
    (question,) = asked
    assert question["toolCall"]["content"][-1]["oldText"] == SAVED
    assert (buffer[0], has_buffer or (folder / "a.py").read_text() == SAVED) == (SAVED, True)
    assert not any(method == "fs/write_text_file" for method, _ in editor.asked)


def test_exec_replaces_only_what_the_model_has_read(
    codelab: Codelab, folder: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text(OLD)
    policy = tmp_path / "policy.toml"
    policy.write_text('[[allow]]\ntool = "write_file"\npath = "a.py"\ncontent = "one\\n2\\nthree\\n"\n')
    read = says_call("read_file", path="a.py")
    script = model.script("lost-exec", Says("", [WRITE]), Says("", [read]), Says("", [WRITE]), DONE)
    done = codelab("exec", "--policy", str(policy), script)
    assert done.returncode == 0, done.stderr
    assert "a.py exists: read it first. Nothing was changed" in done.stderr
    assert (folder / "a.py").read_text() == NEW
