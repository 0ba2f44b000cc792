"""`codelab` on a terminal: what is on the screen, and what each key does."""

import asyncio
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from codelab_local import LocalCloud

from tests.client.breakable_proxy import BreakableProxy
from tests.client.conftest import Open, environment_at
from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until

WRITE = call("write_file", path="a.py", content="print(1)\n")
DONE = Says("All done.")
EVIL = "\x1b]0;owned\x07 \x1b[2J\x9b31m \u202etxt.exe\r over"

Codelab = Callable[..., Terminal]


@pytest.fixture(scope="module")
def shared(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Terminal, Path]]:
    """A terminal, and the folder in which it works."""
    home = tmp_path_factory.mktemp("home")
    (home / "work").mkdir()
    with Terminal(CODELAB, environment_at(cloud, home), home / "work") as terminal:
        terminal.expect("/help lists the commands")
        yield terminal, home / "work"


@pytest.fixture
def folder(shared: tuple[Terminal, Path]) -> Path:
    """An empty folder: the one in which the shared terminal works."""
    for path in shared[1].iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return shared[1]


@pytest.fixture
def terminal(shared: tuple[Terminal, Path], folder: Path) -> Terminal:
    """The shared terminal, in a new conversation, with an empty screen. Starting `codelab` takes half a second."""
    terminal = shared[0]
    terminal.clear()
    terminal.type("/new\r")
    terminal.expect("/help lists the commands")
    terminal.clear()
    return terminal


@pytest.fixture
def codelab(environment: dict[str, str], folder: Path) -> Iterator[Codelab]:
    with ExitStack() as opened:

        def start(*arguments: str, columns: int = 80, **more: str) -> Terminal:
            terminal = Terminal([*CODELAB, *arguments], {**environment, **more}, folder, columns=columns)
            opened.enter_context(terminal)
            terminal.expect("/help lists the commands")
            return terminal

        yield start


def turn_ends(terminal: Terminal) -> None:
    """Wait until the last line is whole and begins with no status. Half drawn, it has none in a turn either."""
    until(
        lambda: re.match(r"(?!thinking|working|waiting)\S.* tokens", terminal.shown().rpartition("\n")[2]) is not None
    )


def decide(terminal: Terminal, key: str) -> None:
    """Press a key when the question has been on the screen for long enough."""
    terminal.expect("y yes  n no  e edit")
    time.sleep(0.7)
    terminal.type(key)


@pytest.mark.parametrize("columns", [80, pytest.param(140, marks=pytest.mark.deep)])
def test_a_call_is_shown_in_full_before_it_is_approved(
    codelab: Codelab,
    folder: Path,
    model: ScriptedModel,
    columns: int,
) -> None:
    (folder / "a.py").write_text("print(0)\n")
    script = model.script(f"tty-{columns}", Says("I **change** it.", [WRITE]), DONE)
    terminal = codelab(columns=columns)
    terminal.type(f"{script}\r")
    for shown in ("y yes  n no  e edit  a always", "waiting for you"):
        terminal.expect(shown)
    for shown in ("I change it.", "? write_file a.py", "-print(0)", "+print(1)"):  # printed a moment later, above it
        terminal.expect(shown)
    assert (folder / "a.py").read_text() == "print(0)\n"
    decide(terminal, "y")
    terminal.expect("● write_file a.py")
    shown = terminal.expect("All done.")
    until(lambda: "waiting for you" not in terminal.shown())
    assert (folder / "a.py").read_text() == "print(1)\n"
    assert max(map(len, shown.splitlines())) <= columns


def test_a_rejection_has_a_reason(terminal: Terminal, folder: Path, model: ScriptedModel) -> None:
    terminal.type(model.script("tty-no", Says("", [WRITE]), DONE) + "\r")
    decide(terminal, "n")
    terminal.expect("Why not?")
    terminal.type("use b.py instead\r")
    terminal.expect("rejected write_file a.py: use b.py instead")
    terminal.expect("All done.")
    assert "use b.py instead" in model.requests["tty-no"][1]["messages"][-1]["content"]
    assert not (folder / "a.py").exists()


def test_an_edit_in_the_users_editor_changes_the_call(
    codelab: Codelab,
    folder: Path,
    tmp_path: Path,
    model: ScriptedModel,
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/1/2/ "$1"\n')
    editor.chmod(0o755)
    terminal = codelab(VISUAL=str(editor))
    terminal.type(model.script("tty-edit", Says("", [WRITE]), DONE) + "\r")
    decide(terminal, "e")
    terminal.expect("All done.")
    assert (folder / "a.py").read_text() == "print(2)\n"


def test_always_shows_the_rule_before_it_counts(terminal: Terminal, folder: Path, model: ScriptedModel) -> None:
    terminal.type(model.script("tty-always", Says("", [WRITE]), Says("", [WRITE]), DONE) + "\r")
    decide(terminal, "a")
    terminal.expect("Allow from now on: write_file a.py")
    assert not (folder / "a.py").exists()
    terminal.type("s")
    terminal.expect("All done.")
    until(lambda: terminal.shown().count("● write_file a.py") == 2)
    assert terminal.shown().count("? write_file a.py") == 1


@pytest.mark.deep  # client/test_acp.py does the same in an editor
def test_an_allowed_command_runs_again_until_its_script_changes(
    terminal: Terminal, folder: Path, model: ScriptedModel
) -> None:
    (folder / "check.sh").write_text("echo run >> runs; wc -l < runs\n")
    run = call("run_command", command="sh check.sh")
    other = call("write_file", path="a.py", content="1\n")
    changed = call("write_file", path="check.sh", content="echo changed\n")
    script = model.script("tty-allowed", Says("", [run]), Says("", [run]), Says("", [other]), Says("", [run]), DONE)
    terminal.type(f"{script}\r")
    decide(terminal, "a")
    terminal.expect("Allow from now on: run_command sh check.sh, in the sandbox,")
    time.sleep(0.7)
    terminal.type("s")
    terminal.expect("? write_file a.py")
    decide(terminal, "y")
    terminal.expect("All done.")
    assert (folder / "runs").read_text() == "run\n" * 3
    turn_ends(terminal)
    terminal.clear()
    terminal.type("/rules\r")
    terminal.expect("allow run_command sh check.sh  (sandbox, this window)")
    terminal.type(model.script("tty-lapsed", Says("", [changed]), Says("", [run]), DONE) + "\r")
    terminal.expect("? write_file check.sh")
    decide(terminal, "y")
    terminal.expect("Allowed until something changes that it runs")
    decide(terminal, "n")
    terminal.type("\r")
    terminal.expect("All done.")
    turn_ends(terminal)
    assert (folder / "runs").read_text() == "run\n" * 3


def test_a_command_that_cannot_be_remembered_says_so(terminal: Terminal, model: ScriptedModel) -> None:
    command = "printf 'one\\ntwo\\n'; exit 3"
    terminal.type(model.script("tty-command", Says("", [call("run_command", command=command)]), DONE) + "\r")
    terminal.expect(f"$ {command}")
    assert "a always" not in terminal.expect("y yes  n no  e edit")
    decide(terminal, "a")

    def is_told() -> bool:
        """The hint is shown for a second only."""
        terminal.type("a")
        time.sleep(0.3)
        return "Such calls always need your approval" in terminal.shown()

    until(is_told)
    terminal.type("y")
    for shown in ("exit code 3", "  one\n  two", "All done."):
        terminal.expect(shown)


def test_what_the_user_types_approves_nothing(terminal: Terminal, folder: Path, model: ScriptedModel) -> None:
    go = threading.Event()
    script = model.script("tty-typing", Says("", [WRITE], until=go), DONE)
    terminal.type(f"{script}\r")
    until(lambda: model.requests["tty-typing"])
    terminal.type("yyy")
    terminal.expect("› yyy")
    go.set()
    terminal.expect("y yes")
    for _ in range(20):
        terminal.type("y")
        time.sleep(0.02)
    terminal.expect(f"› {23 * 'y'}")
    assert not (folder / "a.py").exists()
    terminal.type("\x03")
    until(lambda: "› y" not in terminal.shown())
    decide(terminal, "y")
    terminal.expect("All done.")


def test_ctrl_c_stops_the_turn_and_twice_quits(codelab: Codelab, model: ScriptedModel) -> None:
    script = model.script("tty-stop", Says("word " * 3_000, delay=0.05))
    terminal = codelab()
    terminal.type(f"{script}\r")
    terminal.expect("word word")
    terminal.type("\x03")
    terminal.expect("The turn ended: cancelled")
    terminal.type("\x03\x03")
    assert terminal.ended() == 0


@pytest.mark.parametrize(
    "state", ["idle", *(pytest.param(state, marks=pytest.mark.deep) for state in ("approval", "feedback", "command"))]
)
def test_ctrl_c_twice_quits_in_every_state(codelab: Codelab, model: ScriptedModel, state: str) -> None:
    calls = [call("run_command", command="sleep 60")] if state == "command" else [WRITE]
    script = model.script(f"tty-quit-{state}", Says("", calls), DONE)
    terminal = codelab()
    if state != "idle":
        terminal.type(f"{script}\r")
        terminal.expect("y yes  n no  e edit")
    if state == "feedback":
        decide(terminal, "n")
        terminal.expect("Why not?")
    if state == "command":
        decide(terminal, "y")
        terminal.expect("◌ run_command sleep 60")
    terminal.type("\x03")
    terminal.expect("Ctrl-C again quits")  # while something is printed, two at once may be one signal
    terminal.type("\x03")
    assert terminal.ended() == 0
    assert b"Traceback" not in terminal.raw


def test_messages_typed_during_a_turn_wait(terminal: Terminal, model: ScriptedModel) -> None:
    go = threading.Event()
    slow = model.script("tty-slow", Says("first answer", until=go))
    fast = model.script("tty-fast", Says("second answer"))
    terminal.type(f"{slow}\r")
    until(lambda: model.requests["tty-slow"])
    terminal.type(f"{fast}\r")
    terminal.expect("1 waiting")
    go.set()
    terminal.expect("first answer")
    terminal.expect("second answer")
    shown = terminal.expect("› [[tty-fast]]")  # printed a moment later, above it
    assert shown.index("first answer") < shown.index("› [[tty-fast]]") < shown.index("second answer")
    assert shown.count("[[tty-fast]]") == 1


def test_hostile_text_stays_text(terminal: Terminal, folder: Path, model: ScriptedModel) -> None:
    command = f"echo hi # {EVIL}"
    script = model.script("tty-evil", Says(f"text {EVIL}\n\nmore\n\n"), Says("unused"), DONE)
    attack = model.script("tty-evil-call", Says("x", [call("run_command", command=command)]), DONE)
    terminal.type(f"{script}\r")
    terminal.expect("more")
    terminal.type(f"{attack}\r")
    decide(terminal, "y")
    terminal.expect("All done.")
    assert b"\x1b]0;owned" not in terminal.raw
    assert b"\x1b[2J\xc2\x9b" not in terminal.raw
    assert "\x9b".encode() not in terminal.raw
    assert "\u202e".encode() not in terminal.raw
    assert "␛]0;owned␇" in terminal.raw.decode("utf-8", "replace")


def test_a_broken_connection_is_shown_and_costs_nothing(
    environment: dict[str, str],
    folder: Path,
    cloud: LocalCloud,
    model: ScriptedModel,
) -> None:
    go = threading.Event()
    words = "".join(f"w{n} " for n in range(150))
    script = model.script("tty-break", Says(words, piece=8, delay=0.005, halfway=go))
    with BreakableProxy(cloud.info["port"]) as proxy:
        url = f"ws://127.0.0.1:{proxy.port}"
        with Terminal(CODELAB, {**environment, "CODELAB_URL": url}, folder) as terminal:
            terminal.expect("/help lists the commands")
            terminal.type(f"{script}\r")
            terminal.expect("w1 ")
            proxy.break_all()
            terminal.expect("connected again")
            go.set()

            def printed() -> list[str]:
                """The words below the notice, when the turn is over."""
                below = terminal.shown().partition("connected again")[2]
                return re.findall(r"w\d+", below)[-150:] if " tokens · " in below else []

            until(lambda: printed()[-1:] == ["w149"])
            assert printed() == [f"w{n}" for n in range(150)]


@pytest.mark.deep  # `test_forty_columns_without_colours_are_enough` is in every run
def test_colours_can_be_turned_off(codelab: Codelab, model: ScriptedModel) -> None:
    terminal = codelab(NO_COLOR="1")
    terminal.type(model.script("tty-grey", Says("# Title\n\n`code`", [WRITE]), DONE) + "\r")
    decide(terminal, "y")
    terminal.expect("All done.")
    assert not re.search(rb"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7])m", terminal.raw)


def test_the_plain_mode_writes_lines_only(codelab: Codelab, folder: Path, model: ScriptedModel) -> None:
    terminal = codelab("--plain")
    terminal.type(model.script("tty-plain", Says("I write", [WRITE]), DONE) + "\r")
    terminal.expect("type y to approve")
    terminal.type("y\r")
    terminal.expect("nothing was decided")  # nobody can have read the question yet
    time.sleep(0.7)
    terminal.type("maybe\r")
    terminal.type("y\r")
    terminal.expect("All done.")
    assert (folder / "a.py").exists()
    terminal.type("/quit\r")
    assert terminal.ended() == 0
    assert b"\x1b" not in terminal.raw


def test_commands_with_a_slash(terminal: Terminal, folder: Path, model: ScriptedModel) -> None:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    terminal.type("/nonsense\r")
    terminal.expect("There is no command /nonsense")
    terminal.type("/hlep\r")
    terminal.expect("There is no command /hlep: did you mean /help?")
    terminal.type("/resume nowhere\r")
    terminal.expect("There is no conversation nowhere; /sessions lists them")
    terminal.type("/model other\r")
    terminal.expect("universal · other")
    terminal.type("/agent coder\r")
    terminal.expect("agent universal → coder")
    terminal.type("/rules\r")
    terminal.expect("No decisions are remembered")
    terminal.type("/files add a.py\r")
    terminal.expect("\na.py")
    terminal.type(model.script("tty-undo", Says("", [WRITE]), DONE) + "\r")
    decide(terminal, "y")
    terminal.expect("All done.")
    turn_ends(terminal)
    terminal.type("/diff\r")
    terminal.expect("+++ b/a.py")
    terminal.type("/undo\r")
    terminal.expect("Taken back: [[tty-undo]]")
    assert not (folder / "a.py").exists()
    terminal.type("/redo\r")
    terminal.expect("Brought back: [[tty-undo]]")
    (folder / "a.py").write_text("mine")
    terminal.type("/undo\r")
    terminal.expect("Left as they are, because they were changed since:")
    terminal.expect("/undo all takes these as well")
    assert (folder / "a.py").read_text() == "mine"
    terminal.type("/undo all\r")
    until(lambda: not (folder / "a.py").exists())


def test_after_a_failure_of_the_model_the_user_can_try_again(terminal: Terminal, model: ScriptedModel) -> None:
    terminal.type("/retry\r")
    terminal.expect("The model has not failed since the last message")
    script = model.script("tty-retry", Says(status=400))
    terminal.type(f"{script}\r")
    terminal.expect("/retry tries again")
    model.script("tty-retry", Says("Now it works."))
    terminal.type("/retry\r")
    terminal.expect("Now it works.")
    assert script in str(model.requests["tty-retry"][0]["messages"][-1])


def test_a_conversation_goes_on_with_its_history(codelab: Codelab, model: ScriptedModel) -> None:
    terminal = codelab("--session", "tty-history")
    terminal.type(model.script("tty-first", Says("The first answer.")) + "\r")
    terminal.expect("The first answer.")
    terminal.expect("universal ·")
    terminal.type("\x04")
    terminal.expect("`codelab --continue` goes on with this conversation")
    assert terminal.ended() == 0
    again = codelab("--continue")
    assert "[[tty-first]]" in again.expect("The first answer.")
    again.type(model.script("tty-second", Says("The second answer.")) + "\r")
    again.expect("The second answer.")
    other = codelab("--session", "tty-other")
    other.type("/resume tty-history\r")
    other.expect("The second answer.")


def test_files_are_completed(terminal: Terminal, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "parser.py").touch()
    terminal.type("look at @pars")
    terminal.expect("src/parser.py")


def test_an_image_comes_with_the_message_that_has_its_path(
    terminal: Terminal, folder: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    (tmp_path / "my shot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (folder / "two.gif").write_bytes(b"GIF89a" + bytes(100))
    escaped = str(tmp_path / "my shot.png").replace(" ", "\\ ")
    terminal.type(f"{escaped} and @two.gif {model.script('tty-image', DONE)}\r")
    terminal.expect("with my shot.png, two.gif")
    terminal.expect("All done.")
    content = model.requests["tty-image"][0]["messages"][-1]["content"]
    kinds = [part["image_url"]["url"].partition(";")[0] for part in content if part["type"] == "image_url"]
    assert kinds == ["data:image/png", "data:image/gif"]
    terminal.expect("context 0 %")


def test_help_imports_nothing_of_the_terminal() -> None:
    program = (
        "import sys; from codelab_client.arguments import parser; parser().format_help();"
        "print([name for name in ('rich', 'prompt_toolkit', 'pygments', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.deep  # the same handler as with the full screen
def test_ctrl_c_stops_the_turn_in_the_plain_mode(codelab: Codelab, model: ScriptedModel) -> None:
    script = model.script("tty-plain-stop", Says("A beginning.\n\n" + "word " * 3_000, delay=0.05))
    terminal = codelab("--plain")
    terminal.type(f"{script}\r")
    terminal.expect("A beginning.")  # before it knows of the turn, it would end
    terminal.type("\x03")
    terminal.expect("The turn ended: cancelled")
    terminal.type("/quit\r")
    assert terminal.ended() == 0


def test_thoughts_are_folded_and_shown_on_request(terminal: Terminal, model: ScriptedModel) -> None:
    script = model.script("tty-think", Says("The answer.", thought="First I look.\nThen I decide."))
    terminal.type(f"{script}\r")
    terminal.expect("thought for")
    assert "First I look." not in terminal.expect("The answer.")
    terminal.type("/thoughts\r")
    terminal.expect("First I look.\nThen I decide.")


def test_a_message_and_a_call_of_another_window_are_shown_once(
    codelab: Codelab, new_session: Open, model: ScriptedModel, tmp_path: Path
) -> None:
    ours = model.script("tty-ours", Says("Answer one."))
    theirs = model.script("tty-theirs", Says("", [call("read_file", path="a.py")]), Says("Answer two."))

    async def say(session_id: str) -> None:
        async with new_session(session_id=session_id, state=tmp_path / "theirs") as session:
            async for _ in session.prompt(theirs):
                pass

    terminal = codelab("--session", "two-windows")
    terminal.type(f"{ours}\r")
    terminal.expect("Answer one.")
    asyncio.run(say("two-windows"))
    terminal.expect("Answer two.")
    once = ("› [[tty-theirs]]", "› [[tty-ours]]", "read_file a.py, on another client", "● read_file a.py")
    for shown in once:
        terminal.expect(shown)
    assert [terminal.shown().count(shown) for shown in once] == [1] * len(once)


def test_enter_sends_a_message_also_while_something_is_printed(terminal: Terminal, model: ScriptedModel) -> None:
    long = model.script("tty-print", Says("word\n" * 8_000, piece=40_000))
    with terminal.looked_away():
        terminal.type(f"{long}\r")
        until(lambda: model.requests["tty-print"])
        until(lambda: terminal.unread() > 4_000)
        terminal.type(model.script("tty-printed", Says("All done.")) + "\r")
    terminal.expect("All done.")


def test_agents_and_models_are_listed(terminal: Terminal) -> None:
    terminal.type("/agent\r")
    terminal.expect("▸  universal")
    terminal.type("/model\r")
    assert re.search(r"▸ \S+  \d+ tokens", terminal.expect("Which model?"))
    terminal.type("\x03")
    until(lambda: "Which model?" not in terminal.shown())


def test_messages_that_wait_can_be_changed_and_dropped(codelab: Codelab, model: ScriptedModel) -> None:
    go = threading.Event()
    slow = model.script("tty-queue-slow", Says("the first answer", until=go))
    fast = model.script("tty-queue-fast", Says("", [WRITE]), Says("the second answer"))
    terminal = codelab()
    terminal.type(f"{slow}\r")
    until(lambda: model.requests["tty-queue-slow"])
    terminal.type(f"{fast} now\r")
    terminal.expect("1 waits: [[tty-queue-fast]] now")
    terminal.type("drop me\r")
    terminal.expect("2 waits: drop me")
    terminal.type("/queue drop 2\r")
    until(lambda: "2 waits: drop me" not in terminal.shown())
    terminal.type("/queue edit 1\r")
    until(lambda: "1 waits" not in terminal.shown())
    until(lambda: terminal.shown().count("\n› [[tty-queue-fast]] now") == 1)  # in the prompt
    terminal.type(" please\r")
    terminal.expect("1 waits: [[tty-queue-fast]] now please")
    go.set()
    decide(terminal, "y")
    terminal.expect("the second answer")
    assert "drop me" not in str(model.requests["tty-queue-fast"][0]["messages"])
    assert "now please" in str(model.requests["tty-queue-fast"][0]["messages"])
    turn_ends(terminal)
    terminal.type("/undo\r")
    terminal.expect("Taken back: [[tty-queue-fast]] now please")


def test_a_message_can_steer_the_running_turn(terminal: Terminal, folder: Path, model: ScriptedModel) -> None:
    command = "until [ -e go ]; do sleep 0.1; done"
    script = model.script("tty-steer", Says("", [call("run_command", command=command)]))
    steered = model.script("tty-steered", Says("All done."))
    terminal.type(f"{script}\r")
    decide(terminal, "y")
    terminal.expect("◌ run_command")
    terminal.type(f"/steer {steered} mind the tests\r")
    terminal.expect("1 waits: [[tty-steered]] mind the tests")
    (folder / "go").touch()
    terminal.expect("All done.")
    assert "until [ -e go ]" in str(model.requests["tty-steered"][0]["messages"])
