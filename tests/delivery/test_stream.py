"""The streaming sender beside connections that take nothing: the log goes on, and a cancel is seen."""

import threading

import pytest
from codelab.delivery import stream as module
from codelab.delivery.fan_out import FanOut
from codelab.delivery.stream import StreamSender
from codelab.sessions.items import EventItem
from codelab.sessions.register import Connection, Phase, Register
from codelab.sessions.transition import Transition

from tests.delivery.test_fan_out import NOW, Connections
from tests.ide import PATIENCE
from tests.waiting import until


class Store:
    """The log and the register, as the sender sees them."""

    def __init__(self, register: Register) -> None:
        self.register = register
        self.log: list[EventItem] = []
        self.changed = threading.Condition()

    def append(self, _: str, event: EventItem) -> bool:
        with self.changed:
            self.log.append(event)
            self.changed.notify_all()
        return True

    def read(self, _: str) -> Register:
        return self.register.copy()

    def wait_for(self, entries: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.log) >= entries, PATIENCE)


class Stage:
    def __init__(self, *windows: str) -> None:
        self.register = Register("ann", "s1", 0, "universal", phase=Phase.RUNNING, lease="lease", message_id="m1")
        for n, name in enumerate(windows):
            self.register.connections[name] = Connection(n, joined=0, joined_seq=0, extensions=True)
        self.store = Store(self.register)
        self.gateway = Connections()
        self.fan_out = FanOut(self.gateway, lambda: NOW)  # type: ignore[arg-type]
        self.lost = threading.Event()
        self.sender = StreamSender(
            self.store,  # type: ignore[arg-type]
            self.fan_out,
            Transition(before=None, after=self.register.copy()),
            max_delay_s=0.0,
            retention_s=60,
            clock=lambda: NOW,
            on_lost=self.lost.set,
        )
        self.sender.start()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACE_S", 0.05)
    monkeypatch.setattr(module, "WATCH_S", 0.02)


def _seqs(stage: Stage, window: str) -> list[int]:
    return stage.gateway.taken.get(window, [])


def test_the_log_goes_on_while_no_window_takes_anything():
    stage = Stage("a", "b")
    go_on = [stage.gateway.stall(name) for name in ("a", "b")]
    for n in range(3):
        stage.sender.write(f"piece {n} ")
        stage.store.wait_for(n + 1)
    stage.sender.close()
    for window in go_on:
        window.set()
    stage.fan_out.drain()
    assert "".join(stage.sender.sent) == "piece 0 piece 1 piece 2 "
    assert _seqs(stage, "a") == _seqs(stage, "b") == [1, 2, 3]


def test_a_cancel_is_seen_while_no_window_takes_anything(monkeypatch):
    monkeypatch.setattr(module, "_PACE_S", 3600.0)
    stage = Stage("a", "b")
    go_on = [stage.gateway.stall(name) for name in ("a", "b")]
    stage.sender.write("never taken")
    stage.store.wait_for(1)
    stage.register.cancelled_at = NOW
    assert stage.lost.wait(PATIENCE)
    for window in go_on:
        window.set()
    stage.sender.close()
    stage.fan_out.drain()


def test_who_joins_while_the_others_take_nothing_is_sent_the_text_at_once():
    stage = Stage("a", "b")
    go_on = [stage.gateway.stall(name) for name in ("a", "b")]
    stage.sender.write("first ")
    stage.store.wait_for(1)
    stage.register.connections["late"] = Connection(9, joined=NOW, joined_seq=0, extensions=True)
    stage.sender.write("second ")
    stage.store.wait_for(2)
    until(lambda: 2 in _seqs(stage, "late"))
    assert _seqs(stage, "a") == []
    stage.sender.close()
    for window in go_on:
        window.set()
    stage.fan_out.drain()
    assert _seqs(stage, "a") == [1, 2]


def test_the_end_of_the_text_does_not_wait_for_a_slow_window(monkeypatch):
    monkeypatch.setattr(module, "_PACE_S", 3600.0)
    stage = Stage("a", "b")
    go_on = [stage.gateway.stall(name) for name in ("a", "b")]
    stage.sender.write("all ")
    stage.store.wait_for(1)
    stage.sender.write("of it")
    stage.sender.close()
    assert [event.frame["token"] for event in stage.store.log] == ["all ", "of it"]
    for window in go_on:
        window.set()
    stage.fan_out.drain()
