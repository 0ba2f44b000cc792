"""Going back to an earlier message on a terminal: Esc Esc, `/rewind`, and what the user reads and chooses there."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from codelab_client.terminal.asked import LOOK_S

from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.client.test_terminal import WRITE, decide, turn_ends
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until


class Tmux:
    """`codelab` in tmux, on a screen of so many columns."""

    def __init__(self, environment: dict[str, str], folder: Path, socket: Path) -> None:
        self._environment, self._folder, self._socket = environment, folder, socket

    def run(self, *arguments: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", str(self._socket), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=self._environment, cwd=self._folder, check=True
        ).stdout

    def start(self, columns: int, *options: str) -> None:
        self.run("new-session", "-d", "-x", str(columns), "-y", "40", *CODELAB, *options)
        self.expect("/help")

    def shown(self) -> str:
        """The screen with what has scrolled away. Lines that were broken are whole."""
        return self.run("capture-pane", "-p", "-J", "-S", "-")

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def expect(self, text: str) -> None:
        try:
            until(lambda: text in " ".join(self.shown().split()))
        except AssertionError:
            raise AssertionError(f"{text!r} is not on the screen:\n{self.shown()}") from None

    def type(self, text: str, *keys: str) -> None:
        if text:
            self.run("send-keys", "-l", text)
        for key in keys:
            self.run("send-keys", key)

    def escape_twice(self) -> None:
        self.type("", "Escape")
        until(lambda: "Esc again goes back" in self.screen())
        self.type("", "Escape")
        until(lambda: "Go back to before which message?" in self.screen())


@pytest.fixture
def tmux(environment: dict[str, str], folder: Path, tmp_path: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    one = Tmux(environment, folder, tmp_path / "tmux")
    yield one
    subprocess.run(["tmux", "-S", str(tmp_path / "tmux"), "kill-server"], capture_output=True, check=False)


@pytest.mark.deep  # client/test_rewind.py goes back without a terminal
@pytest.mark.parametrize("columns", [40, pytest.param(120, marks=pytest.mark.deep)])
def test_escape_twice_goes_back_with_the_files(tmux: Tmux, folder: Path, model: ScriptedModel, columns: int) -> None:
    first = model.script(f"back-first-{columns}", Says("The first answer."))
    second = model.script(f"back-second-{columns}", Says("", [WRITE]), Says("All done."))
    again = model.script(f"back-again-{columns}", Says("The other answer."))
    tmux.start(columns, "--session", f"back-{columns}")
    tmux.type(first, "Enter")
    tmux.expect("The first answer.")
    tmux.type(second, "Enter")
    tmux.expect("y yes")
    time.sleep(LOOK_S + 0.2)
    tmux.type("y")
    tmux.expect("All done.")
    until(lambda: "thinking" not in tmux.screen())
    tmux.escape_twice()
    until(lambda: f"▸ [[back-second-{columns}]]" in tmux.screen())
    tmux.type("", "Enter")
    tmux.expect("Deleted, because they did not exist then: a.py")
    until(lambda: "▸ Conversation and files" in tmux.screen())
    assert (folder / "a.py").exists()
    time.sleep(LOOK_S + 0.2)  # a key of the list's first moment is not taken for an answer
    tmux.type("", "Escape")
    tmux.expect("Nothing has changed")
    assert (folder / "a.py").exists()
    tmux.escape_twice()
    tmux.type("", "Enter")
    until(lambda: "▸ Conversation and files" in tmux.screen())
    time.sleep(LOOK_S + 0.2)
    tmux.type("", "Enter")
    tmux.expect(f"1 file restored. Deleted, because they did not exist then: a.py In back-{columns}, /redo brings")
    until(lambda: f"› [[back-second-{columns}]]" in tmux.screen().rpartition("/help")[2])
    assert not (folder / "a.py").exists()
    tmux.type("", "C-u")
    tmux.type(again, "Enter")
    tmux.expect("The other answer.")
    messages = str(model.requests[f"back-again-{columns}"][0]["messages"])
    assert (f"back-first-{columns}" in messages, f"back-second-{columns}" in messages) == (True, False)


def test_a_client_that_is_killed_at_the_list_has_changed_nothing_and_does_it_again(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    script = model.script("back-killed", Says("", [WRITE]), Says("All done."))
    (folder / "mine").write_text("mine")
    with Terminal([*CODELAB, "--session", "back-killed"], environment, folder) as terminal:
        terminal.expect("/help lists the commands")
        terminal.type(f"{script}\r")
        decide(terminal, "y")
        terminal.expect("All done.")
        turn_ends(terminal)
        terminal.type("/rewind\r")
        terminal.expect("▸ [[back-killed]]")
        terminal.type("\r")
        terminal.expect("What goes back?")
        terminal.process.kill()
        terminal.ended()
    with Terminal([*CODELAB, "--session", "back-killed"], environment, folder) as terminal:
        terminal.expect("All done.")
        assert (folder / "a.py").exists()
        terminal.type("/rewind\r")
        terminal.expect("▸ [[back-killed]]")
        terminal.type("\r")
        terminal.expect("What goes back?")
        terminal.type("conversation stays")
        terminal.expect("▸ Only the files")
        terminal.type("\r")
        terminal.expect("1 file restored.")
        assert [path.name for path in folder.iterdir()] == ["mine"]
        terminal.type("/redo\r")
        terminal.expect("Brought back: going back to: [[back-killed]]")
        assert (folder / "a.py").exists()
        terminal.type("Go on.\r")
        told = "I have taken changes of these files back, to before my message “[[back-killed]]”"
        until(lambda: told in str(model.requests["back-killed"][-1]["messages"]))


def test_the_users_own_changes_are_replaced_only_if_they_choose_it_also_in_lines_only(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    (folder / "a.py").write_text("before\n")
    edit = call("edit_file", path="a.py", edits=[{"old": "before", "new": "agent"}])
    script = model.script("back-plain", Says("", [edit, call("run_command", command="echo x > made")]), Says("Done."))
    with Terminal([*CODELAB, "--plain"], environment, folder, columns=100) as terminal:
        terminal.expect("/help lists the commands")
        terminal.type(f"{script}\r")
        for number in (1, 2):
            terminal.expect(f"Call #{number}")
            time.sleep(0.7)
            terminal.type(f"y #{number}\r")
        terminal.expect("Done.")
        (folder / "a.py").write_text("mine\n")
        until(lambda: terminal.all_lines().count("Ready.") == 2)
        go_back(terminal, 1, "1")
        terminal.expect("Left as they are, because they were changed since:\n  a.py")
        assert not (folder / "made").exists()
        assert (folder / "a.py").read_text() == "mine\n"
        go_back(terminal, 2, "2")
        until(lambda: (folder / "a.py").read_text() == "before\n")


def go_back(terminal: Terminal, times: int, extent: str) -> None:
    """In lines only: before the newest message, only the files. times: how often that was done, now included."""
    terminal.type("/rewind\r")
    for question, answer in (("which message?", "1"), ("What goes back?", "3"), ("Which files?", extent)):
        line = f"{question}  Your choice"
        until(partial(lambda line: terminal.all_lines().count(line) == times, line))
        time.sleep(0.7)
        terminal.type(f"{answer}\r")
