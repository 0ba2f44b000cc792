"""`codelab` on a terminal: keys that stop, clear, go back and suspend, and what the user runs with `!`."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from codelab_client.execution import ToolOutcome
from codelab_client.terminal.asked import LOOK_S
from codelab_client.terminal.completion import Suggestions
from codelab_client.terminal.local_commands import LocalCommands
from codelab_client.tools import processes
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.client.test_images import PNG
from tests.client.test_terminal import Codelab, turn_ends
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until

UP, SHIFT_TAB, ESCAPE = "\x1b[A", "\x1b[Z", "\x1b"


@pytest.fixture
def codelab(environment: dict[str, str], folder: Path) -> Iterator[Codelab]:
    with ExitStack() as opened:

        def start(*arguments: str, columns: int = 80, **more: str) -> Terminal:
            terminal = Terminal([*CODELAB, *arguments], {**environment, **more}, folder, columns=columns)
            opened.enter_context(terminal)
            terminal.expect("/help lists the commands")
            return terminal

        yield start


def test_cleared_text_comes_back_and_does_not_count_as_a_ctrl_c(codelab: Codelab) -> None:
    terminal = codelab()
    terminal.type("a long thought")
    terminal.expect("› a long thought")
    terminal.type("\x03")
    terminal.expect("Cleared")
    terminal.type("\x03")
    terminal.expect("Ctrl-C again quits")
    terminal.type(UP)
    terminal.expect("› a long thought")
    terminal.type("\x03\x03\x03")
    assert terminal.ended() == 0


def test_shift_tab_goes_through_the_modes(codelab: Codelab) -> None:
    terminal = codelab()
    for mode in ("plan", "ask", "manual", "autonomous", "code"):
        terminal.type(SHIFT_TAB)
        terminal.expect(f"\nmode {mode}")
    until(lambda: re.search(r"(?m)^code · ", terminal.shown()))


def test_a_plan_is_accepted_by_a_key(codelab: Codelab, model: ScriptedModel) -> None:
    plan = call("propose_plan", steps=["Write a.py"], explanation="It is missing.")
    script = model.script("key-plan", Says("", [plan]), Says("Carried out."))
    terminal = codelab()
    terminal.type(SHIFT_TAB)
    terminal.expect("mode plan")
    terminal.type(f"{script}\r")
    terminal.expect("Carry out this plan?  y yes (code)  a yes (autonomous)")
    shown = terminal.shown()
    assert "It is missing." in shown
    assert "1. Write a.py" in shown
    time.sleep(LOOK_S)
    terminal.type("a")
    terminal.expect("mode plan → autonomous")
    terminal.expect("Carried out.")
    until(lambda: re.search(r"(?m)plan 0/1 · autonomous · ", terminal.shown()))


def test_several_changes_are_approved_at_once_when_all_have_been_shown(
    codelab: Codelab, model: ScriptedModel, folder: Path
) -> None:
    long = "".join(f"row {number}\n" for number in range(100))
    calls = [
        call("write_file", path="one.txt", content="first\n"),
        call("run_command", command="true"),
        call("write_file", path="two.txt", content=long),
        call("write_file", path=".vscode/tasks.json", content="{}\n"),
        call("write_file", path="three.txt", content="third\n"),
    ]
    terminal = codelab(columns=120)
    terminal.type(model.script("key-together", Says("", calls), Says("Done.")) + "\r")
    terminal.expect("Run write_file one.txt? (4 more)  y yes  n no  e edit  a always  A 3 changes")
    assert "row 0" not in terminal.all_lines()
    time.sleep(LOOK_S)
    terminal.type("A")
    terminal.expect("Run these 3 changes: write_file one.txt, write_file two.txt, write_file three.txt?")
    for content in ("+first", "+row 0", "+row 50", "+row 99", "+third"):
        assert content in terminal.all_lines()
    assert not (folder / "one.txt").exists()
    time.sleep(LOOK_S)
    terminal.type(ESCAPE)
    terminal.expect("Run write_file one.txt? (4 more)")
    time.sleep(LOOK_S)
    terminal.type("A")
    terminal.expect("y yes, all")
    time.sleep(LOOK_S)
    terminal.type("y")
    terminal.expect("Run run_command? (1 more)  y yes  n no")
    until(lambda: all((folder / f"{name}.txt").exists() for name in ("one", "two", "three")))  # in any order
    assert (folder / "one.txt").read_text() == "first\n"
    assert (folder / "two.txt").read_text() == long
    time.sleep(LOOK_S)
    terminal.type("A")
    terminal.expect("Only several changes of files that are not protected can be approved at once")
    terminal.type("y")
    terminal.expect("Run write_file .vscode/tasks.json?")
    time.sleep(LOOK_S)
    terminal.type("n\r")
    terminal.expect("Done.")
    assert not (folder / ".vscode").exists()


def test_escape_stops_the_turn_and_the_last_message_is_changed(codelab: Codelab, model: ScriptedModel) -> None:
    first = model.script("key-first", Says("The first answer."))
    slow = model.script("key-slow", Says("word " * 3_000, delay=0.05))
    again = model.script("key-again", Says("The other answer."))
    terminal = codelab("--session", "keys")
    terminal.type(f"{first}\r")
    terminal.expect("The first answer.")
    turn_ends(terminal)
    terminal.type(f"{slow} wrong\r")
    terminal.expect("word word")
    terminal.type(ESCAPE)
    terminal.expect("The turn ended: cancelled")
    until(lambda: "Stopping" not in terminal.shown())
    terminal.type("/edit\r")
    terminal.expect("/resume keys goes")
    terminal.expect("› [[key-slow]] wrong")
    until(lambda: terminal.shown().count("/help lists the commands") == 2)
    terminal.type("\x15")
    terminal.type(f"{again} right\r")
    terminal.expect("The other answer.")
    messages = str(model.requests["key-again"][0]["messages"])
    assert "key-first" in messages
    assert "wrong" not in messages


def test_a_command_of_the_user_goes_with_the_next_message(codelab: Codelab, model: ScriptedModel) -> None:
    terminal = codelab()
    terminal.type("!printf 'one\\ntwo\\n'; exit 3\r")
    terminal.expect("● ! printf 'one\\ntwo\\n'; exit 3  exit code 3\n  one\n  two")
    terminal.type(model.script("key-local", Says("I see.")) + "\r")
    terminal.expect("I see.")
    content = model.requests["key-local"][0]["messages"][-1]["content"]
    assert "I ran this command myself (exit code 3):" in content
    assert "$ printf 'one\\ntwo\\n'; exit 3\none\ntwo\n```" in content
    assert "I ran" not in terminal.shown()
    terminal.type("!sleep 60\r")
    terminal.expect("◌ ! sleep 60")
    terminal.type(ESCAPE)
    terminal.expect("You have stopped it")
    terminal.type("!echo seen; exec sleep 60\r")
    terminal.expect("\n  seen")
    terminal.type(ESCAPE)
    terminal.expect("You have stopped it\n  seen")


def test_enter_sends_what_was_typed_while_the_client_started(
    environment: dict[str, str], folder: Path, model: ScriptedModel
) -> None:
    early = model.script("key-early", Says("So early."))
    with Terminal(CODELAB, environment, folder) as terminal:
        terminal.type(f"{early}\r")
        terminal.expect("codelab in")
        terminal.type("and more")
        terminal.expect("So early.")
        terminal.expect("› and more")
        terminal.type("\x03\x03\x03")
        assert terminal.ended() == 0
        assert terminal.mode() == terminal.first_mode


@pytest.mark.deep  # `test_images.py` has the rules
def test_ctrl_v_attaches_the_image_in_the_clipboard(
    codelab: Codelab, environment: dict[str, str], model: ScriptedModel, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    png, program = tmp_path / "bin" / "image", tmp_path / "bin" / "xclip"
    program.write_text(f'#!/bin/sh\n[ "$4" = image/png ] && cat {png}\n')
    program.chmod(0o755)
    clipboard = {"PATH": f"{program.parent}:{environment['PATH']}", "DISPLAY": ":0", "WAYLAND_DISPLAY": ""}
    terminal = codelab(**clipboard, SSH_CONNECTION="")
    terminal.type("\x16")
    terminal.expect("There is no image in the clipboard")
    png.write_bytes(PNG)
    terminal.type(model.script("key-image", Says("A pixel.")) + " look: \x16")
    terminal.expect("/1.png")
    terminal.type("\r")
    terminal.expect("with 1.png")
    terminal.expect("A pixel.")
    assert "data:image/png;base64" in str(model.requests["key-image"][0]["messages"])


def test_the_menu_says_what_commands_do(codelab: Codelab) -> None:
    terminal = codelab()
    terminal.type("/und")
    assert re.search(r"/undo +take back what the last turn did", terminal.expect("take back what"))
    terminal.type("\x03!seq 1 80\r")
    terminal.expect("\n  80")
    terminal.type("/red")
    assert re.search(r"/redo +bring back", terminal.expect("/redo")), "also where the input is at the end of the screen"


def test_long_texts_are_folded_and_unfolded(codelab: Codelab, model: ScriptedModel) -> None:
    terminal = codelab()
    script = model.script("key-paste", Says("Read."))
    paste = "\n".join(f"line {n}" for n in range(200))
    terminal.type(f"\x1b[200~{paste}\x1b[201~ {script}")
    terminal.expect("› [pasted 200 lines] [[key-paste]]")
    terminal.type("\r")
    terminal.expect("Read.")
    assert "[pasted 200 lines]" in terminal.shown()
    assert "line 199" in model.requests["key-paste"][0]["messages"][-1]["content"]
    terminal.type("!seq 1 40\r")
    terminal.expect("… 28 more lines (Ctrl-O shows them)")
    assert "\n  7\n" not in terminal.shown()
    terminal.type("\x0f")
    terminal.expect("\n  7\n")
    terminal.type(f"\x1b[200~{paste}\x1b[201~")
    terminal.expect("› [pasted 200 lines]")
    terminal.type("\x0f")
    terminal.expect("line 199")


def test_ctrl_z_suspends_and_the_shell_continues_it(environment: dict[str, str], folder: Path) -> None:
    with Terminal(["bash", "--norc", "--noprofile", "-i"], {**environment, "PS1": "shell> "}, folder) as terminal:
        terminal.expect("shell>")
        terminal.type(f"{shlex.join([sys.executable, '-m', *CODELAB[2:]])}\r")
        terminal.expect("/help lists the commands")
        terminal.type("\x1a")
        terminal.expect("Stopped")
        terminal.type("echo $((6 * 7))\r")
        terminal.expect("\n42")
        terminal.type("fg\r")
        until(lambda: terminal.shown().rstrip().split("\n")[-1].startswith("code · "))
        terminal.type("after it")
        terminal.expect("› after it")


@pytest.mark.parametrize("number", [signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.deep)])
def test_a_signal_that_ends_it_leaves_no_process_and_restores_the_terminal(codelab: Codelab, number: int) -> None:
    terminal = codelab()
    terminal.type("!echo number $$.; exec sleep 600\r")
    until(lambda: re.search(r"number \d+\.", terminal.shown()))
    match = re.search(r"number (\d+)\.", terminal.shown())
    assert match is not None
    os.kill(terminal.process.pid, number)
    assert terminal.ended() == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int(match[1]), 0)
    assert terminal.mode() == terminal.first_mode
    assert terminal.raw.rindex(b"\x1b[?2004l") > terminal.raw.rindex(b"\x1b[?2004h")


@pytest.mark.deep
def test_a_signal_also_ends_an_open_list(codelab: Codelab) -> None:
    terminal = codelab()
    terminal.type("/model\r")
    terminal.expect("Which model?")
    os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.ended() == 128 + signal.SIGTERM
    assert terminal.mode() == terminal.first_mode
    assert b"Traceback" not in terminal.raw
    assert b"UnixSelector" not in terminal.raw


def test_forty_columns_without_colours_are_enough(environment: dict[str, str], folder: Path) -> None:
    with Terminal(CODELAB, {**environment, "NO_COLOR": "1"}, folder, columns=40) as terminal:
        terminal.expect("Tip: ")
        terminal.type("/model\r")
        terminal.expect("Which model?")
        terminal.type("\x03")
        until(lambda: "Which model?" not in terminal.shown())
        terminal.type("/cost\r")
        terminal.expect("the server tells no")
        until(lambda: terminal.shown().rpartition("\n")[2].startswith("code"))
        assert not re.search(rb"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7])m|\x1b\]", terminal.raw)


def test_a_terminal_that_can_nothing_gets_lines_only(environment: dict[str, str], folder: Path) -> None:
    with Terminal(["env", "TERM=dumb", *CODELAB], environment, folder) as terminal:
        terminal.expect("/help lists the commands")
        terminal.type("!echo from here\r")
        terminal.expect("Your choice, 1 to 2, then Enter")
        time.sleep(0.7)  # what is typed sooner was not meant for the question
        terminal.type("1\r")
        terminal.expect("● ! echo from here\n  from here")
        terminal.type("/quit\r")
        assert terminal.ended() == 0
        assert b"\x1b" not in terminal.raw


# -- without a terminal ----------------------------------------------------------------------------------------------


async def test_reports_are_bounded_fenced_and_taken_once(tmp_path: Path) -> None:
    commands, written = LocalCommands(tmp_path), list[str]()
    outcome = await commands.run("printf '```\\nnot out\\n'; seq 1 20000", written.append)
    assert outcome.result["exit_code"] == 0
    report = commands.take_reports()
    assert "````\n$ printf" in report
    assert report.endswith("20000\n````")
    assert "characters left out" in report
    assert len(report) < 13_000
    assert commands.take_reports() == ""
    assert "seq" not in "".join(written)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process reads")
async def test_a_command_that_waits_for_keys_is_ended_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "EVERY_S", 0.1)
    commands = LocalCommands(tmp_path)
    outcome = await commands.run("(head -c 1 < /dev/stderr) >&2; echo after", lambda _: None)
    assert outcome.error is not None
    assert outcome.error.message.startswith("head waits for keys")
    assert commands.take_reports() == "", "the agent reads nothing of it"
    outcome = await commands.run("echo out; kill -9 $$", lambda _: None)
    assert outcome.result == {"exit_code": None, "stdout": "out\n", "note": "ended by SIGKILL"}


async def test_the_user_sees_what_the_agent_reads(tmp_path: Path) -> None:
    """Both streams in the order in which they were written, the end of a flood, and what was stopped with it."""
    commands = LocalCommands(tmp_path, {**os.environ, "SHELL": shutil.which("bash") or "/bin/sh"})
    outcome = await commands.run("echo a; echo b >&2; [[ 1 == 1 ]] && echo c; printf 'd\r' >&2; echo e", lambda _: None)
    assert outcome.result["stdout"] == "a\nb\nc\ne\n"
    assert "\na\nb\nc\ne\n```" in commands.take_reports()
    begun = "[ ! -d /proc/self ] || until grep -q sleep /proc/$!/comm; do :; done"
    outcome = await commands.run(f"seq 1 100000; sleep 60 & {begun}; echo the end", lambda _: None)
    assert outcome.result["stdout"].endswith("\n100000\nthe end\n")
    report = commands.take_reports()
    assert report.endswith("\n100000\nthe end\n```")
    if Path("/proc").is_dir():
        assert "(exit code 0; ended with it: sleep)" in report
        assert outcome.result["note"] == "ended with it: sleep"


async def test_one_command_runs_at_a_time_and_can_be_stopped(tmp_path: Path) -> None:
    commands = LocalCommands(tmp_path)
    begun = asyncio.Event()
    first = asyncio.ensure_future(commands.run("echo begun; exec sleep 60", lambda _: begun.set()))
    await begun.wait()
    second: ToolOutcome = await commands.run("true", lambda _: None)
    assert second.error is not None
    commands.stop()
    outcome = await first
    assert outcome.error is not None
    assert outcome.error.code == "CANCELLED"
    assert "stopped by the user" in commands.take_reports()
    assert not commands.is_running


def test_files_and_commands_are_suggested_with_descriptions(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("src/parser.py", "parse.md", "src/\x1bpars\u202e.py"):
        (tmp_path / name).touch()
    suggestions = Suggestions(tmp_path, lambda: {"undo": "take back", "usage": "tokens"})

    def suggested(text: str) -> list[tuple[str, str, str]]:
        found = suggestions.get_completions(Document(text), CompleteEvent())
        return [(item.text, item.display_text, item.display_meta_text) for item in found]

    assert suggested("/un") == [("/undo", "/undo", "take back")]
    assert suggested("look at @pars") == [("parse.md", "parse.md", ""), ("src/parser.py", "src/parser.py", "")]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux, which breaks long lines anew")
def test_a_narrower_terminal_leaves_no_rest_of_what_was_live(
    environment: dict[str, str], folder: Path, model: ScriptedModel, tmp_path: Path
) -> None:
    go = threading.Event()
    text = "A long line of an answer that is still being written, which goes on and on. The second half of it is this."
    script = model.script("key-narrow", Says(text, halfway=go))

    def tmux(*arguments: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", str(tmp_path / "tmux"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=True).stdout

    def shows(expected: str) -> bool:
        return expected in tmux("capture-pane", "-p", "-S", "-")

    tmux("new-session", "-d", "-x", "80", "-y", "30", *CODELAB)
    try:
        until(lambda: shows("/help lists the commands"))
        tmux("send-keys", "-l", script)
        tmux("send-keys", "Enter")
        until(lambda: shows("written"))
        tmux("resize-window", "-x", "30", "-y", "30")
        until(lambda: shows("\nthinking"))
        tmux("clear-history")
        go.set()
        until(lambda: shows("of it is") and shows("\ncode"))
        assert tmux("capture-pane", "-p", "-S", "-").count("A long line of an") == 1
    finally:
        tmux("kill-server")
