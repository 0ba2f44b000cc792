"""`codelab notify`: what it tells, how it spells it, and that it only looks on."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from codelab_client import notified
from codelab_client.desktop import Desktop
from codelab_client.notified import Attending, Teller
from codelab_client.session import events as on
from codelab_client.session.address import Address
from codelab_client.session.rest import Rest
from codelab_local import LocalCloud

from tests.client.breakable_proxy import BreakableProxy
from tests.client.conftest import Codelab, Open
from tests.client.test_exec import CODELAB
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import until

WRITE = call("write_file", path="a.py", content="x")
HOSTILE = "-e `id` $(id) \"; do shell script \"id\" & <b>&amp;\\074a href='x'\\076 %s \\n 'x' --help"


def event(kind: str, **fields: Any) -> on.Event:
    return on.event_of({"type": kind, **fields})


def asked(call_id: str, tool: str = "write_file", *, approved: bool = False) -> on.Event:
    return event("tool_call", call_id=call_id, tool_name=tool, arguments={}, requires_approval=not approved)


def ended(turn: str, reason: str = "completed") -> on.Event:
    return event("turn_end", turn_id=turn, reason=reason)


def test_the_first_call_that_waits_and_each_end_of_a_turn_are_told_once() -> None:
    attending = Attending()
    open_call = {"call_id": "c", "state": "awaiting_approval"}
    story = [
        (asked("a"), "waits for you: write_file"),
        (asked("a"), ""),
        (asked("b"), ""),
        (asked("a", approved=True), ""),
        (event("call_update", call_id="a", state="completed"), ""),
        (event("call_update", call_id="b", state="rejected"), ""),
        (asked("c"), "waits for you: write_file"),
        (event("resumed", last_seq=9, open_calls=[open_call]), ""),
        (asked("d"), ""),
        (event("resumed", last_seq=12, open_calls=[]), ""),
        (asked("q", "prompt_user", approved=True), "waits for you: prompt_user"),
        (ended("1"), "has finished"),
        (ended("1"), ""),
        (ended("2", "error"), "has failed"),
        (ended("3", "cancelled"), ""),
        (ended("4", "max_steps"), "has stopped after its last step"),
        (asked("e"), "waits for you: write_file"),
    ]
    for taken, told in story:
        assert attending.take(taken) == told, taken


def program(folder: Path, name: str) -> Path:
    """A program that writes its arguments, what it reads, and whether it has a token, as a line of JSON."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"with open({str(folder / 'shown')!r}, 'a') as file:\n"
        "    told = [sys.argv[1:], sys.stdin.read(), 'CODELAB_TOKEN' in os.environ]\n"
        "    file.write(json.dumps(told) + '\\n')\n"
    )
    path.chmod(0o755)
    return path


def shown(folder: Path) -> list[Any]:
    file = folder / "shown"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    ("platform", "name", "variables"),
    [
        ("linux", "notify-send", {"DISPLAY": ":1"}),
        ("darwin", "osascript", {}),
        ("linux", "powershell.exe", {"WSL_DISTRO_NAME": "x"}),
    ],
)
def test_no_text_becomes_an_option_a_script_or_markup(
    tmp_path: Path, platform: str, name: str, variables: dict[str, str]
) -> None:
    programs = tmp_path / "programs"
    program(programs, name)
    environment = {"PATH": str(programs), "CODELAB_TOKEN": "secret", **variables}
    desktop = Desktop(environment, tmp_path / "work", platform)
    for text in ("harmless", HOSTILE):
        assert desktop.show("CodeLab", text) == ""
    (harmless, _, _), (arguments, read, has_token) = shown(programs)
    assert not has_token
    if name == "powershell.exe":
        assert arguments == harmless, "the script is the same for every text"
        assert json.loads(read) == {"title": "CodeLab", "text": HOSTILE}
        assert read.isascii()
    elif name == "osascript":
        assert arguments[-2:] == ["CodeLab", HOSTILE]
        assert arguments[:-1] == harmless[:-1]
        assert not arguments[-2].startswith("-"), "options end before it"
    else:
        assert arguments[:3] == ["--app-name=CodeLab", "--", "CodeLab"]
        assert not set("<>") & set(arguments[3])
        assert "\\\\074a" in arguments[3], "which notify-send reads as a backslash and digits"


def test_the_program_is_none_of_the_folder_and_none_over_ssh(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    program(programs, "notify-send")
    environment = {"PATH": str(programs), "DISPLAY": ":1"}
    assert Desktop(environment, tmp_path / "work", "linux").program
    assert not Desktop(environment, tmp_path, "linux").program
    assert not Desktop({**environment, "SSH_CONNECTION": "x"}, tmp_path / "work", "linux").program
    assert not Desktop({"PATH": str(programs)}, tmp_path / "work", "linux").program


def test_without_a_desktop_the_terminal_is_told_and_nothing_in_a_title_moves_its_cursor(tmp_path: Path) -> None:
    written: list[str] = []
    teller = Teller(Desktop({"PATH": ""}, tmp_path, "linux"), written.append, is_terminal=True)

    async def tell() -> None:
        showing = asyncio.ensure_future(teller.run())
        teller.tell("a\x1b]2;x\x07;\nb", "has finished")
        while len(written) < 2:
            await asyncio.sleep(0)
        showing.cancel()

    asyncio.run(tell())
    line, rung = written
    assert line == "a␛]2;x␇; b has finished\n"
    assert rung.endswith("\x07")
    assert rung.count("\x1b") == 2
    assert "␇, b has" in rung


# -- with the running system -----------------------------------------------------------------------------------------


def test_a_call_that_waits_is_told_also_after_a_lost_connection_and_stays_undecided(
    cloud: LocalCloud,
    environment: dict[str, str],
    folder: Path,
    tmp_path: Path,
    new_session: Open,
    model: ScriptedModel,
) -> None:
    programs = tmp_path / "programs"
    program(programs, "notify-send")
    path = f"{programs}{os.pathsep}{environment['PATH']}"
    first = model.script("notify-1", Says("", [WRITE]), Says("Done."))
    second = model.script("notify-2", Says("", [WRITE]), Says("Done."))

    def texts() -> list[str]:
        return [arguments[3] for arguments, _, _ in shown(programs)]

    async def work(proxy: BreakableProxy) -> None:
        async with new_session(session_id="notified", decided_elsewhere=True) as session:
            await session.configure(title="Tab <b>s")
            variables = {**environment, "PATH": path, "DISPLAY": ":1", "CODELAB_URL": f"ws://127.0.0.1:{proxy.port}"}
            variables.pop("SSH_CONNECTION", None)
            notifying = subprocess.Popen(
                [*CODELAB, "notify", "notified"], cwd=folder, env=variables, stderr=subprocess.PIPE, text=True
            )
            assert notifying.stderr is not None
            try:
                line = await asyncio.to_thread(notifying.stderr.readline)
                assert "Following notified" in line
                for script, count in ((first, 1), (second, 3)):
                    async for taken in session.prompt(script):
                        if isinstance(taken, on.ToolCall) and taken.requires_approval:
                            await asyncio.to_thread(until, lambda count=count: len(texts()) == count)
                            rest = Rest(Address.parse(cloud.http), None)
                            pending = await rest.get("/sessions/notified/pending-approvals")
                            assert [one["call_id"] for one in pending["pending_approvals"]] == [taken.call_id]
                            await session.approve(taken.call_id)
                    await asyncio.to_thread(until, lambda count=count: len(texts()) == count + 1)
                    proxy.break_all()
                notifying.send_signal(signal.SIGINT)
                assert await asyncio.to_thread(notifying.wait, 20) == 130
                assert "Traceback" not in notifying.stderr.read()
            finally:
                notifying.kill()
                notifying.wait()

    with BreakableProxy(cloud.info["port"]) as proxy:
        asyncio.run(work(proxy))
    waits, finished = "Tab &lt;b&gt;s waits for you: write_file", "Tab &lt;b&gt;s has finished"
    assert texts() == [waits, finished] * 2


def test_a_session_that_begins_later_is_followed_from_its_beginning(
    cloud: LocalCloud,
    tmp_path: Path,
    new_session: Open,
    model: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(notified, "_LOOK_S", 0.1)
    script = model.script("notify-later", Says("Done."))
    told: list[tuple[str, str]] = []

    async def work() -> None:
        following = notified.Following(
            Address.parse(cloud.http), tmp_path / "journal", None, lambda name, what: told.append((name, what))
        )
        looking = asyncio.ensure_future(following.newest())
        while "Following" not in capsys.readouterr().err and not looking.done():
            await asyncio.sleep(0.02)
        async with new_session(session_id="notified-later") as session:
            await session.configure(title="A later one")
            async for _ in session.prompt(script):
                pass
            while ("A later one", "has finished") not in told and not looking.done():
                await asyncio.sleep(0.02)
        looking.cancel()
        await following.end()

    asyncio.run(work())
    assert [what for name, what in told if name == "A later one"] == ["has finished"]


def test_what_cannot_be_followed_is_said(codelab: Codelab) -> None:
    missing = codelab("notify", "no-such-session")
    assert missing.returncode == 3
    assert "No such session" in missing.stderr
    assert codelab("notify", "no/session").returncode == 2
    unreachable = codelab("notify", "--url", "ws://127.0.0.1:9")
    assert unreachable.returncode == 3
    assert "make run" in unreachable.stderr
