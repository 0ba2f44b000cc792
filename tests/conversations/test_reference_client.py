"""The client in docs/protocol.md, on a connection that breaks again and again."""

import contextlib
import random
import re
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from codelab_local import LocalCloud
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.fakes.ide.ide import text_of
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.waiting import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
TURNS = 6


@pytest.fixture(scope="module")
def printed() -> str:
    (code,) = (found for found in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "class " in found)
    return str(code)


@pytest.fixture(scope="module")
def session_class(printed: str) -> Any:
    names: dict[str, Any] = {}
    exec(printed, names)
    return names["Session"]


class Done(Exception):
    pass


class App:
    """Does what an IDE does with the frames: sends the next message after each turn, executes each call once."""

    def __init__(self, session_class: Any, url: str, says: list[str]) -> None:
        self.session = session_class(url, self.show)
        self.frames: list[dict[str, Any]] = []
        self.executed: list[str] = []
        self._says = iter(says)
        self._said = 0

    def show(self, frame: dict[str, Any]) -> None:
        if "seq" in frame and (not self.frames or frame["seq"] > self.frames[-1]["seq"]):
            self.frames.append(frame)
        is_ours = frame["type"] == "tool_call" and frame.get("execute", True)
        if is_ours and frame["call_id"] not in self.executed:
            self.executed.append(frame["call_id"])
            self._send(type="tool_result", call_id=frame["call_id"], result={"content": "x"})
        if frame["type"] == "turn_end" or not self._said:
            self._said += 1
            content = next(self._says, None)
            if content is None:
                raise Done
            self._send(type="user_message", content=content, client_msg_id=f"m{self._said}")

    def _send(self, **frame: Any) -> None:
        with contextlib.suppress(ConnectionClosed):  # The session sends it again on the next connection.
            self.session.send(**frame)


def break_often(app: App, seed: int, over: threading.Event) -> int:
    """Break the connection at random moments, cleanly or not, until `over`. Returns the number of breaks.

    Between two breaks are some frames, however slow the machine is. Every fourth time, the next connection breaks too.
    """
    choose, breaks, broken = random.Random(seed), 0, None
    while not over.is_set():
        wanted = len(app.frames) + choose.randrange(1, 12)
        while len(app.frames) < wanted and not over.wait(0.005):
            pass
        over.wait(choose.uniform(0, 0.03))
        for _ in range(2 if choose.random() < 0.25 else 1):
            while (found := getattr(app.session, "socket", None)) is broken and not over.wait(0.001):
                pass
            broken = found
            if broken is not None:
                breaks += 1
                broken.close_timeout = 0.2  # Its reader may have ended.
                if choose.random() < 0.5:
                    broken.close()
                else:
                    with contextlib.suppress(OSError):
                        broken.socket.shutdown(socket.SHUT_RDWR)
    return breaks


def test_it_is_short(printed: str) -> None:
    assert len(printed.splitlines()) < 40


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_it_misses_and_repeats_nothing_when_its_connection_breaks(
    cloud: LocalCloud, model: ScriptedModel, session_class: Any, seed: int
) -> None:
    text = "every word of it " * 20
    answers = Says(text, [call("read_file", path="a.py")], delay=0.005), Says(text, delay=0.005)
    says = [model.script(f"printed-{seed}-{n}", *answers) for n in range(TURNS)]
    app = App(session_class, cloud.url(f"printed-{seed}", extensions=1), says)
    over, breaks = threading.Event(), []
    killer = threading.Thread(target=lambda: breaks.append(break_often(app, seed, over)), daemon=True)
    killer.start()
    try:
        with pytest.raises(Done):
            app.session.run()
    finally:
        over.set()
        killer.join(PATIENCE)
    assert breaks[0] >= 5
    assert [frame["seq"] for frame in app.frames] == list(range(1, len(app.frames) + 1))
    assert text_of(app.frames) == text * 2 * TURNS
    assert len(app.executed) == TURNS
    assert sum(frame["type"] == "turn_end" for frame in app.frames) == TURNS


def test_it_stops_if_reconnecting_is_useless(cloud: LocalCloud, session_class: Any) -> None:
    with pytest.raises(InvalidStatus):
        session_class(cloud.url("no spaces", extensions=1), lambda _: None).run()
    connections = [session_class(cloud.url("many-connections", extensions=1), lambda _: None) for _ in range(9)]
    ends: list[BaseException] = []

    def run(connection: Any) -> None:
        try:
            connection.run()
        except BaseException as end:
            ends.append(end)

    running = []
    for connection in connections:
        thread = threading.Thread(target=run, args=(connection,), daemon=True)
        thread.start()
        running.append(thread)
        while not hasattr(connection, "socket"):
            thread.join(0.01)
    running[0].join(PATIENCE)
    assert isinstance(ends[0], ConnectionClosed), "a newer connection has taken its place"
    assert len(ends) == 1
    for connection in connections[1:]:
        connection.run = lambda: None
        connection.show = lambda _: (_ for _ in ()).throw(Done)
        connection.socket.send('{"type": "ping"}')
    for thread in running[1:]:
        thread.join(PATIENCE)


def test_it_repeats_only_what_may_be_repeated(session_class: Any) -> None:
    session = session_class("ws://nowhere", None)
    session.socket = SimpleNamespace(send=lambda _: None)
    session.send(type="cancel")
    session.send(type="user_message", content="hello")
    session.send(type="user_message", content="hello", client_msg_id="m1")
    session.send(type="tool_result", call_id="c1", result={})
    assert [frame.get("client_msg_id") or frame.get("call_id") for frame in session.sent] == ["m1", "c1"]
