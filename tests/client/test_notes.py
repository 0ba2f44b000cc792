"""Notes: what a user has agents keep in mind, and only the user."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from codelab_client.notes import MOST_CHARS, NoteRefused, Notes, scope_of
from codelab_client.tools.instructions import topmost_instructions
from codelab_client.tools.tree import Tree

from tests.cases import cases
from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "codelab"


@pytest.fixture
def notes(tmp_path: Path, config: Path) -> Notes:
    (tmp_path / "work").mkdir()
    return Notes(tmp_path / "work")


def fail(complaint: str) -> None:
    raise AssertionError(complaint)


def told(workspace: Path) -> list[tuple[str, str]]:
    tree = Tree(workspace)
    files = [(file["path"], file["content"]) for file in topmost_instructions(tree)]
    tree.close()
    return files


def test_a_note_is_a_line_of_a_file_that_the_agent_gets_before_the_projects_words(notes: Notes, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "AGENTS.md").write_text("Be brief.")
    assert told(work) == [("AGENTS.md", "Be brief.")]
    notes.add("project", "  Use\n tabs. ")
    notes.add("user", "My name is Ann.")
    notes.add("project", "- Say 'ok'.")
    assert told(work) == [
        ("notes of the user.md", "- My name is Ann.\n"),
        (".codelab/notes.md", "- Use tabs.\n- - Say 'ok'.\n"),
        ("AGENTS.md", "Be brief."),
    ]
    assert [(note.scope, note.text) for note in notes.listed(fail)] == [
        ("user", "My name is Ann."),
        ("project", "Use tabs."),
        ("project", "- Say 'ok'."),
    ]


def test_a_note_is_taken_away_and_nothing_else_of_its_file(notes: Notes, tmp_path: Path) -> None:
    file = tmp_path / "work" / ".codelab" / "notes.md"
    file.parent.mkdir()
    file.write_text("# Ours\n\n* one\n- two\n\nA text without an end")
    first, second = notes.listed(fail)
    notes.remove(first)
    assert file.read_text() == "# Ours\n\n- two\n\nA text without an end"
    with pytest.raises(NoteRefused, match="changed"):
        notes.remove(second)
    notes.add("project", "three")
    assert file.read_text() == "# Ours\n\n- two\n\nA text without an end\n- three\n"


@cases("text", ["", " \n ", "x" * (MOST_CHARS + 1)])
def test_a_note_has_a_length(notes: Notes, text: str) -> None:
    with pytest.raises(NoteRefused, match="characters"):
        notes.add("project", text)
    assert notes.listed(fail) == []


def secret(file: Path) -> None:
    (file.parents[1] / ".env").write_text("- KEY=1\n")
    file.symlink_to("../.env")


def outside(file: Path) -> None:
    (file.parents[2] / "other.md").write_text("- KEY=1\n")
    file.symlink_to("../../other.md")


def pipe(file: Path) -> None:
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.mkdir()


def long(file: Path) -> None:
    file.write_text("- x\n" * 10_000)


def bytes_(file: Path) -> None:
    file.write_bytes(b"- \xff\n")


@pytest.mark.parametrize("made", [secret, outside, pipe, folder, long, bytes_])
def test_a_file_of_a_stranger_is_not_told_and_not_written(
    notes: Notes, tmp_path: Path, made: Callable[[Path], None]
) -> None:
    file = tmp_path / "work" / ".codelab" / "notes.md"
    file.parent.mkdir()
    made(file)
    assert told(tmp_path / "work") == []
    with pytest.raises(NoteRefused, match=r"\.codelab/notes\.md"):
        notes.add("project", "Use tabs.")
    notes.add("user", "Mine.")
    complaints: list[str] = []
    assert [note.text for note in notes.listed(complaints.append)] == ["Mine."], "a stranger's file hides none of mine"
    assert len(complaints) == 1
    for name in (".env", "../other.md"):
        if (other := tmp_path / "work" / name).exists():
            assert other.read_text() == "- KEY=1\n"


def test_the_users_file_may_be_a_link_to_where_the_user_keeps_such_files(
    notes: Notes, tmp_path: Path, config: Path
) -> None:
    config.mkdir(parents=True)
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "mine.md").write_text("- one\n")
    (config / "notes.md").symlink_to(tmp_path / "dotfiles" / "mine.md")
    notes.add("user", "two")
    assert (tmp_path / "dotfiles" / "mine.md").read_text() == "- one\n- two\n"
    assert (config / "notes.md").is_symlink()


def test_the_scope_may_be_said() -> None:
    assert scope_of("--user Use tabs.") == ("user", "Use tabs.")
    assert scope_of("--project  x") == ("project", "x")
    assert scope_of("--users x") == (None, "--users x")


# -- with the running system -----------------------------------------------------------------------------------------


def test_the_terminal_asks_where_and_the_next_message_has_it(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    script = model.script("notes-tty", Says("Yes."))
    with Terminal(CODELAB, environment, folder) as terminal:
        terminal.expect("/help lists the commands")
        terminal.type("/remember Use tabs.\r")
        terminal.expect("Remember: Use tabs.  Your choice, 1 to 3, then Enter")
        time.sleep(0.7)  # what is typed sooner was not meant for the question
        terminal.type("2\r")
        kept = f"Keptin{environment['XDG_CONFIG_HOME']}/codelab/notes.md:"
        until(lambda: kept in "".join(terminal.shown().split()))
        terminal.type("/remember --project Be brief.\r")
        terminal.expect("Kept in .codelab/notes.md")
        terminal.type(f"{script}\r")
        terminal.expect("Yes.")
        asked = str(model.requests["notes-tty"][0]["messages"])
        assert "Use tabs." in asked
        assert "Be brief." in asked
        terminal.type("/notes\r")
        terminal.expect("Enter takes it away")
        terminal.type("\r")
        terminal.expect("Taken away")
    assert (folder / ".codelab" / "notes.md").read_text() == "- Be brief.\n"
    assert (Path(environment["XDG_CONFIG_HOME"]) / "codelab" / "notes.md").read_text() == ""
