"""The terminal's pickers and commands: conversations, models, permissions, costs, copies, and calling the user."""

import asyncio
import base64
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from codelab_client import last_sessions, terminal
from codelab_client.config import ConfigError, config_file, load
from codelab_client.session import Address, SessionError
from codelab_client.terminal import cards, past
from codelab_client.terminal.attention import Attention
from codelab_client.terminal.clipboard import NothingToCopy, copied_by, selection, sequence
from codelab_client.terminal.commands import Commands
from codelab_client.terminal.conversations import conversations, newest
from codelab_client.terminal.picker import Choice, Picker, pick
from codelab_client.terminal.plain import PlainScreen
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.client.terminals import Terminal
from tests.client.test_exec import CODELAB
from tests.client.test_terminal import WRITE, Codelab, decide, turn_ends
from tests.client.test_terminal_cards import EVIL, Talk
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until

DOWN = "\x1b[B"


@pytest.fixture
def codelab(environment: dict[str, str], folder: Path) -> Iterator[Codelab]:
    with ExitStack() as opened:

        def start(*arguments: str, columns: int = 80, ready: str = "/help lists the commands", **more: str) -> Terminal:
            terminal = Terminal([*CODELAB, *arguments], {**environment, **more}, folder, columns=columns)
            opened.enter_context(terminal)
            terminal.expect(ready)
            return terminal

        yield start


# -- on a terminal ---------------------------------------------------------------------------------------------------


def test_conversations_are_chosen_from_a_list_with_a_preview(codelab: Codelab, model: ScriptedModel) -> None:
    first = codelab("--session", "pick-one")
    script = model.script("pick-one", Says("", [call("read_file", path="a.py")]), Says("It is about ships."))
    first.type(f"{script} ships\r")
    first.expect("It is about ships.")
    turn_ends(first)
    first.type("/new\r")
    until(lambda: first.shown().count("/help lists the commands") == 2)
    first.type("/resume\r")
    first.expect("Go on with which conversation?")
    first.type("pick-one")
    first.expect("search: pick-one")
    first.expect("│ It is about ships.")
    first.type("\r")
    until(lambda: first.shown().count("/help lists the commands") == 3)
    shown = first.expect("It is about ships.")
    assert "✗ read_file a.py" in shown
    assert "FILE_NOT_FOUND" in shown
    first.type("\x04")
    assert first.ended() == 0
    again = codelab("resume", ready="Go on with which conversation?")
    again.type("pick-one")
    again.expect("▸ ")
    again.type("\r")
    again.expect("/help lists the commands")
    again.expect("session pick-one")


def test_a_model_and_a_permission_are_chosen_from_lists(codelab: Codelab, folder: Path, model: ScriptedModel) -> None:
    terminal = codelab()
    terminal.type("/model\r")
    assert re.search(r"▸ \S+  \d+ tokens", terminal.expect("Which model?"))
    terminal.type("other\r")
    terminal.expect("universal · other")
    terminal.type(model.script("pick-rule", Says("", [WRITE]), Says("All done.")) + "\r")
    decide(terminal, "a")
    terminal.expect("Allow from now on")
    terminal.type("s")
    terminal.expect("All done.")
    turn_ends(terminal)
    terminal.type("/permissions\r")
    terminal.expect("Enter revokes it")
    terminal.expect("▸ allow write_file a.py")
    terminal.type("\r")
    terminal.expect("Revoked.")
    terminal.type("/allowed-tools\r")
    terminal.expect("Nothing runs unasked")
    terminal.type("/cost\r")
    terminal.expect("since the start: 1 turn,")


def test_copies_and_calls_go_to_the_terminal_if_they_are_wanted(
    codelab: Codelab, environment: dict[str, str], model: ScriptedModel
) -> None:
    config = Path(environment["XDG_CONFIG_HOME"]) / "codelab" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('notify = ["bell", "title", "desktop"]\n')
    terminal = codelab(SSH_CONNECTION="here", TMUX="")
    terminal.type(model.script("copy", Says("Take this:\n\n```sh\nmake\n```\n")) + "\r")
    terminal.expect("make")
    turn_ends(terminal)
    terminal.type("/copy code\r")
    terminal.expect("copied 5 characters")
    assert b"\x1b]52;c;" + base64.b64encode(b"make\n") + b"\x07" in terminal.raw
    assert b"\x1b]777;notify;codelab;codelab has finished: work\x07" in terminal.raw
    assert b"\x1b]2;working: codelab work\x07" in terminal.raw
    terminal.type("/raw\r")
    terminal.expect("/raw\nTake this:\n\n```sh\nmake\n```")
    terminal.type("/quit\r")
    assert terminal.ended() == 0
    assert b"\x1b[23;0t" in terminal.raw


def test_a_new_project_gets_instructions_and_a_model(codelab: Codelab, model: ScriptedModel) -> None:
    terminal = codelab()
    asked = len(model.requests.get("", []))
    terminal.type("/init\r")
    terminal.expect("› /init")
    turn_ends(terminal)
    assert "Look at this project, then write AGENTS.md at its top" in str(model.requests[""][asked]["messages"][-1])
    terminal.type("/clear\r")
    until(lambda: terminal.shown().count("/help lists the commands") == 2)
    terminal.type("/setup\r")
    terminal.expect("rovider")
    terminal.type("demo\r")
    terminal.expect("The demonstration model answers")
    terminal.expect("A local cloud uses it from the next message on")
    terminal.type("still here")
    terminal.expect("› still here")


# -- without a terminal ----------------------------------------------------------------------------------------------


class Rest:
    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    async def get(self, path: str) -> Any:
        return self.answers["get"]

    async def history(self, session_id: str, limit: int) -> Any:
        return self.answers["history"]


CHOICES = [Choice("a", "Fix the parser", "2026-11-01"), Choice("b", "Write docs"), Choice("c", "fix docs", "x")]


def keys(text: str, choices: Sequence[Choice] = CHOICES) -> str | None:
    async def play() -> str | None:
        with create_pipe_input() as keyboard:
            keyboard.send_text(text)
            return await pick("Which?", choices, keyboard=keyboard, output=DummyOutput())

    return asyncio.run(play())


def test_arrows_letters_and_escape_choose() -> None:
    assert keys("\r") == "a"
    assert keys(f"{DOWN}{DOWN}{DOWN}{DOWN}\r") == "c"
    assert keys("docs\r") == "b"
    assert keys("fix docs\r") == "c"
    assert keys("nothing\r\x03") is None
    assert keys("fixx\x7f 2026\r") == "a"
    assert keys("\x1b") is None


def test_a_list_fits_its_columns_and_hostile_rows_stay_text() -> None:
    picker = Picker(EVIL, [Choice(str(n), f"{EVIL} {n} " + "long " * 40) for n in range(30)])
    for _ in range(40):
        picker.move(1)
    for columns in (40, 80):
        drawn = "".join(fragment[1] for fragment in picker.lines(columns, [EVIL * 3] * 20))
        assert not set("\x1b\x07\x9b\u202e\u200b") & set(drawn)
        assert max(map(len, drawn.split("\n"))) < columns
        assert len(drawn.split("\n")) <= 24
    assert picker.chosen is not None
    assert picker.chosen.value == "29"


def test_without_a_cursor_rows_have_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def all_of_them(*_: Any) -> list[Choice]:
        return CHOICES

    async def chosen(line: str) -> str | None:
        async def ask(_: str) -> str:
            return line

        monkeypatch.setattr(terminal, "ask", ask)
        return await terminal.choose_session(Address.parse("ws://localhost:8000"), tmp_path, None, plain=True)

    async def picked(line: str) -> str | None:
        screen, talk = PlainScreen(), Talk(tmp_path)
        talk.conversation.screen, screen.conversation = screen, talk.conversation
        picking = asyncio.ensure_future(screen.pick("Which?", CHOICES))
        await asyncio.sleep(0)
        assert talk.conversation.questions[0].answer(line) is None
        return await picking

    monkeypatch.setattr("codelab_client.terminal.conversations.conversations", all_of_them)
    assert asyncio.run(chosen("2\n")) == "b"
    assert "3 fix docs  x\n" in capsys.readouterr().out
    assert asyncio.run(chosen("\n")) is None
    with pytest.raises(SessionError, match="no number from 1 to 3"):
        asyncio.run(chosen("4"))
    assert asyncio.run(picked("3")) == "c"
    assert asyncio.run(picked("4")) is None


def test_conversations_of_this_folder_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    address = Address.parse("ws://localhost:8000")
    last_sessions.remember(address, tmp_path, "here")
    sessions = [{"session_id": name, "title": f"about {name}", "last_activity": "2026-11-01T10:00"} for name in "xy"]
    rest: Any = Rest(
        get={"sessions": [*sessions, {"session_id": "here"}, "broken"]},
        history={"messages": [{"role": "user", "content": f"hi {EVIL}"}, {"role": "assistant", "content": "yes\nno"}]},
    )
    found = asyncio.run(conversations(rest, address, tmp_path))
    assert [choice.value for choice in found] == ["here", "x", "y"]
    assert str(tmp_path) in found[0].detail
    assert asyncio.run(newest(rest, "x"))[1:] == ["  yes", "no"]


def test_the_past_shows_calls_and_their_outcome() -> None:
    messages = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "calls": [
                {"call_id": "1", "tool_name": "read_file", "arguments": {"path": EVIL}},
                {"call_id": "2", "tool_name": "write_file", "arguments": {"path": "b.py"}},
                {"call_id": "3", "tool_name": "run_command", "arguments": "odd"},
                {"call_id": "4", "tool_name": "run_command", "arguments": {"command": "rm x"}},
                "odd",
            ],
        },
        {"role": "tool", "call_id": "1", "content": "one\ntwo\n"},
        {"role": "tool", "call_id": "2", "content": '{"error": {"code": "REJECTED", "message": "not now"}}'},
        {"role": "tool", "call_id": "4", "content": '{"status":"rejected","feedback":"not this one"}'},
    ]
    shown = "".join(
        cards.rendered(card, 80, colour=False) for card in past.shown(past.messages_of({"messages": messages}))
    )
    assert "2 lines" in shown
    assert "✗ write_file b.py\n  REJECTED: not now" in re.sub(" +\n", "\n", shown)
    assert "◌ run_command  no outcome yet" in shown
    assert "✗ run_command rm x\n  REJECTED: not this one" in re.sub(" +\n", "\n", shown)
    assert not set("\x1b\x07\x9b\u202e") & set(shown)


def test_blocks_and_answers_are_copied_without_what_nobody_sees() -> None:
    answer = "Text\n\n```py\na = 1\n```\n\n~~~~\nb ```\n~~~~\n"
    assert selection(answer, "1") == "a = 1\n"
    assert selection(answer, "code") == "b ```\n"
    assert selection("1. Run:\n   ```sh\n   make\n     x\n   ```\n", "1") == "make\n  x\n"
    assert selection(answer, "").startswith("Text")
    assert "\x1b" not in selection(f"x{EVIL}", "")
    for text, argument in (("", ""), ("no code", "code"), (answer, "3"), (answer, "-1")):
        with pytest.raises(NothingToCopy):
            selection(text, argument)
    with pytest.raises(NothingToCopy):
        sequence("x" * 60_000)


def test_tmux_gets_what_it_would_not_take_from_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tmux"
    program.write_text('#!/bin/sh\necho "$@" > "$0.options"; cat > "$0.text"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path / 'bin'}:/bin:/usr/bin", "TMUX": "x"}
    assert copied_by("ё\n", environment, tmp_path / "work") == "tmux"
    assert (tmp_path / "bin/tmux.text").read_text() == "ё\n"
    assert (tmp_path / "bin/tmux.options").read_text() == "load-buffer -w -\n"
    assert copied_by("x", {**environment, "PATH": str(tmp_path / "bin")}, tmp_path) == ""  # it is of the workspace
    assert copied_by("x", {**environment, "TMUX": "", "SSH_CONNECTION": "x", "DISPLAY": ":0"}, tmp_path) == ""


def test_the_user_is_called_once_for_each_change() -> None:
    written: list[str] = []
    attention = Attention(("desktop",), written.append, f"a;b{EVIL}")
    for state in ("busy", "busy", "waiting", "waiting", "busy", "idle", "idle"):
        attention.update(state)
    assert len(written) == 2
    assert all(text.count("\x1b") == 2 and text.count(";") == 4 for text in written)
    Attention((), written.append, "x").update("waiting")
    assert len(written) == 2
    Attention(("bell",), written.append, "x").update("waiting")
    assert written[2:] == ["\x07"]


def test_notify_must_be_a_list_of_known_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    config_file().parent.mkdir(parents=True)
    config_file().write_text('notify = ["bell"]')
    assert load(tmp_path).notify == ("bell",)
    config_file().write_text('notify = ["fax"]')
    with pytest.raises(ConfigError, match="bell, title, desktop"):
        load(tmp_path)


async def test_every_name_of_a_command_leads_to_one(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    servers: Any = SimpleNamespace(command=None)
    commands = Commands(talk.conversation, Rest(), talk.conversation.executor, servers)  # type: ignore[arg-type]
    for text in commands.suggested.values():
        if text.startswith("the same as "):
            assert text.removeprefix("the same as /") in commands.described
    await commands.run("/exit")
    assert commands.wants_to_quit
    await commands.run("/clera")
    assert "did you mean /clear?" in talk.screen.printed
    await asyncio.sleep(0)
