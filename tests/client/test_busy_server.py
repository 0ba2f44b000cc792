"""What people read while a busy server refuses frames: in the terminal, with lines only, in an editor, on stderr."""

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from codelab_client import waiting
from codelab_client.acp.params import Editor
from codelab_client.acp.updates import Updates
from codelab_client.folders import Folders
from codelab_client.session import events as on
from codelab_client.terminal.conversation import TerminalConversation
from codelab_client.terminal.plain import PlainScreen
from codelab_client.terminal.status_line import status_line
from codelab_local import LocalCloud

from tests.fakes.model.script import Says
from tests.fakes.model.server import ScriptedModel
from tests.processes import run
from tests.sampling import sampled
from tests.throttling_proxy import ThrottlingProxy

BUSY = on.Busy(why="Too Many Requests", retry_in=4.0)
SENTENCE = "The server is busy (Too Many Requests), trying again in 4 s"


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes."""
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: 100.0))


def test_each_pause_has_a_sentence() -> None:
    assert waiting.notice(BUSY) == SENTENCE
    lost = on.Disconnected(why="nothing listens there", retry_in=0.6)
    assert waiting.notice(lost) == "Connection lost: nothing listens there, trying again in 1 s"
    assert waiting.notice(on.Connected(again=True)) == ""


def test_the_servers_words_cannot_write_to_the_terminal() -> None:
    assert "\x1b" not in waiting.notice(on.Busy(why="\x1b]0;owned\x07", retry_in=1))


def test_the_status_line_counts_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    conversation = conversing(tmp_path, SimpleNamespace(show=lambda _: None))
    conversation.take(BUSY)
    assert "the server is busy (Too Many Requests), trying again in 4 s" in status_line(conversation, 200)
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: 102.5))
    assert "trying again in 2 s" in status_line(conversation, 200)
    conversation.take(on.Connected(again=True))
    assert "busy" not in status_line(conversation, 200)


def test_lines_only_say_each_pause_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen()
    conversation = screen.conversation = conversing(tmp_path, screen)
    for event in (BUSY, on.Ignored(why="something else"), BUSY):
        conversation.take(event)
        screen.changed()
    assert capsys.readouterr().out.count("the server is busy (Too Many Requests), trying again in 4 s") == 1


def conversing(folder: Path, screen: Any) -> TerminalConversation:
    conversation = TerminalConversation(folder, screen)
    session: Any = SimpleNamespace(is_online=False, status="thinking", plan=[], agent="coder", queued={}, info=None)
    conversation.session = session
    return conversation


def test_an_editor_is_told_of_pauses_that_people_notice(tmp_path: Path) -> None:
    sent: list[dict[str, Any]] = []
    updates = Updates(Folders(tmp_path), sent.append, Editor())
    for event in (on.Busy(why="Too Many Requests", retry_in=0.7), BUSY):
        updates.take(event)
    assert [update["content"]["text"] for update in sent] == [f"*{SENTENCE}*\n\n"]


def test_stderr_tells_it_until_a_window_does(capsys: pytest.CaptureFixture[str]) -> None:
    take = waiting.tell_until_open()
    for event in (BUSY, on.Connected(again=False), BUSY):
        take(event)
    assert capsys.readouterr().err == f"{SENTENCE}\n"


@pytest.mark.parametrize("first", sampled(["user_message", "hello"]))
def test_exec_says_on_stderr_that_it_waits_and_answers_in_the_end(
    cloud: LocalCloud, model: ScriptedModel, environment: dict[str, str], folder: Path, first: str
) -> None:
    script = model.script(f"exec-busy-{first}", Says("Well."))
    with ThrottlingProxy(cloud.info["port"], first, 0.8) as proxy:
        urls = {"CODELAB_URL": f"ws://127.0.0.1:{proxy.port}"}
        done = run(
            sys.executable, "-m", "codelab_client.command_line", "exec", script, cwd=folder, env={**environment, **urls}
        )
    said = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, "Well.\n")
    assert [line.rpartition(" in ")[0] for line in said] == [
        "The server is busy (Too Many Requests), trying again"
    ] * len(proxy.refused)
    assert all(before <= after for before, after in itertools.pairwise(said)), "the pauses grow"
