"""The streaming sender beside connections that take nothing: the log goes on, and a cancel is seen."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from codelab.delivery import stream as module
from codelab.delivery.fan_out import FanOut
from codelab.delivery.stream import StreamSender
from codelab.protocol import limits
from codelab.sessions.items import EventItem
from codelab.sessions.register import LEASE_MS, RENEW_MS, Connection, Phase, Register
from codelab.sessions.transition import Transition

from tests.delivery.test_fan_out import NOW, Connections
from tests.waiting import PATIENCE, until

_threads = ThreadPoolExecutor()


class Store:
    """The log and the register, as the sender sees them."""

    def __init__(self, register: Register) -> None:
        self.register = register
        self.log: list[EventItem] = []
        self.renewed: list[int] = []
        #: Seqs that other writers have.
        self.taken: set[int] = set()
        self.changed = threading.Condition()

    def append(self, _: str, event: EventItem) -> bool:
        with self.changed:
            if event.seq in self.taken:
                return False
            self.log.append(event)
            self.changed.notify_all()
        return True

    def read(self, _: str) -> Register:
        return self.register.copy()

    def renew(self, register: Register, until: int) -> bool:
        self.renewed.append(until)
        return register.lease == self.register.lease

    def wait_for(self, entries: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.log) >= entries, PATIENCE)


class Stage:
    """Two windows, a and b, that take nothing until `release`. `lease_s` is how long the lease still lasts."""

    def __init__(self, lease_s: float = 3600.0, max_delay_s: float = 0.0) -> None:
        self.now = NOW
        self.register = Register("ann", "s1", 0, "universal", phase=Phase.RUNNING, lease="lease", message_id="m1")
        self.store = Store(self.register)
        self.gateway = Connections()
        self._stalled = []
        for n, name in enumerate("ab"):
            self.register.connections[name] = Connection(n, joined=0, joined_seq=0, extensions=True)
            self._stalled.append(self.gateway.stall(name))
        self.fan_out = FanOut(self.gateway, lambda: NOW)  # type: ignore[arg-type]
        self.lost = threading.Event()
        self.sender = StreamSender(
            self.store,  # type: ignore[arg-type]
            self.fan_out,
            Transition(before=None, after=self.register.copy()),
            max_delay_s=max_delay_s,
            retention_s=60,
            clock=lambda: self.now,
            lease_ends=time.monotonic() + lease_s,
            on_lost=self.lost.set,
        )
        self.sender.start(_threads)

    def release(self) -> None:
        for window in self._stalled:
            window.set()

    def taken(self, window: str) -> list[int]:
        return self.gateway.taken.get(window, [])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACE_S", 0.05)
    monkeypatch.setattr(module, "WATCH_S", 0.02)


def test_the_log_goes_on_while_no_window_takes_anything() -> None:
    stage = Stage()
    for n in range(3):
        stage.sender.write(f"piece {n} ")
        stage.store.wait_for(n + 1)
    stage.sender.close()
    stage.release()
    stage.fan_out.drain()
    assert "".join(stage.sender.sent_pieces) == "piece 0 piece 1 piece 2 "
    assert stage.taken("a") == stage.taken("b") == [1, 2, 3]


def test_a_cancel_is_seen_while_no_window_takes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACE_S", 3600.0)
    stage = Stage()
    stage.sender.write("never taken")
    stage.store.wait_for(1)
    stage.register.cancelled_at = NOW
    assert stage.lost.wait(PATIENCE)
    stage.release()
    stage.sender.close()
    stage.fan_out.drain()


def test_who_joins_while_the_others_take_nothing_is_sent_the_text_at_once() -> None:
    stage = Stage()
    stage.sender.write("first ")
    stage.store.wait_for(1)
    stage.register.connections["late"] = Connection(9, joined=NOW, joined_seq=0, extensions=True)
    stage.sender.write("second ")
    stage.store.wait_for(2)
    until(lambda: 2 in stage.taken("late"))
    assert stage.taken("a") == []
    stage.sender.close()
    stage.release()
    stage.fan_out.drain()
    assert stage.taken("a") == [1, 2]


def test_the_reader_rests_until_the_first_piece_is_in_the_log_and_no_longer_if_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WATCH_S", PATIENCE)
    stage = Stage()
    stage.release()
    stage.sender.write("first ")
    stage.sender.rest("first ")
    assert [event.frame["token"] for event in stage.store.log] == ["first "]
    stage.sender.close()
    stage.fan_out.drain()

    broken = Stage()
    broken.release()
    monkeypatch.setattr(broken.store, "append", lambda *_: 1 / 0)
    broken.sender.write("first ")
    began = time.monotonic()
    broken.sender.rest("first ")
    assert time.monotonic() - began < PATIENCE
    with pytest.raises(ZeroDivisionError):
        broken.sender.close()
    assert broken.lost.is_set()


def test_the_first_piece_is_sent_by_the_thread_that_has_it_and_all_others_by_the_senders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WATCH_S", PATIENCE)
    stage = Stage()
    stage.release()
    really_append, threads = stage.store.append, []

    def append(pk: str, event: EventItem) -> bool:
        threads.append(threading.current_thread())
        return really_append(pk, event)

    monkeypatch.setattr(stage.store, "append", append)
    until(lambda: stage.sender._wake._waiters)  # type: ignore[attr-defined]  # the sender's thread has nothing to do
    stage.sender.write("first ")
    assert [event.frame["token"] for event in stage.store.log] == ["first "]
    for n in range(3):
        stage.sender.write(f"{n} ")
        stage.store.wait_for(n + 2)
    stage.sender.close()
    stage.fan_out.drain()
    mine, *others = threads
    assert mine is threading.current_thread()
    assert mine not in others
    assert stage.taken("a") == stage.taken("b") == [1, 2, 3, 4]


def test_no_piece_is_lost_if_the_first_is_longer_than_a_batch() -> None:
    stage = Stage()
    stage.release()
    pieces = ["x" * (limits.BATCH_CHARS + 1), "y", "z"]
    for piece in pieces:
        stage.sender.write(piece)
    stage.sender.close()
    stage.fan_out.drain()
    assert "".join(stage.sender.sent_pieces) == "".join(pieces)


def test_thoughts_come_before_the_first_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.release()
    stage.sender.think("Hm.")
    stage.sender.write("text")
    stage.sender.close()
    stage.fan_out.drain()
    assert [event.frame["type"] for event in stage.store.log] == ["assistant_thought", "assistant_message"]


def test_the_end_of_the_text_does_not_wait_for_a_slow_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACE_S", 3600.0)
    stage = Stage()
    stage.sender.write("all ")
    stage.store.wait_for(1)
    stage.sender.write("of it")
    stage.sender.close()
    assert [event.frame["token"] for event in stage.store.log] == ["all ", "of it"]
    stage.release()
    stage.fan_out.drain()


def test_a_taken_seq_is_stepped_over_while_the_lease_is_held() -> None:
    stage = Stage()
    stage.store.taken = {1, 2}
    stage.sender.write("text")
    stage.sender.close()
    assert [event.seq for event in stage.store.log] == [3]
    assert stage.sender.sent_pieces == ["text"]
    stage.release()
    stage.fan_out.drain()


def test_the_sender_stops_at_a_seq_that_the_next_owner_has() -> None:
    stage = Stage()
    stage.sender.write("mine ")
    stage.store.wait_for(1)
    stage.release()
    with stage.store.changed:
        stage.store.taken = {2}
        stage.store.register.lease = "another"
    stage.sender.write("too late")
    assert stage.lost.wait(PATIENCE)
    stage.sender.close()
    stage.fan_out.drain()
    assert [event.seq for event in stage.store.log] == [1]
    assert stage.sender.sent_pieces == ["mine "]
    assert stage.taken("a") == stage.taken("b") == [1]


def test_the_lease_is_extended_while_the_model_is_silent() -> None:
    stage = Stage()
    stage.now = NOW + RENEW_MS
    until(lambda: stage.store.renewed)
    assert stage.store.renewed == [stage.now + LEASE_MS]
    stage.sender.close()
    assert not stage.lost.is_set()


def test_a_lease_that_cannot_be_extended_is_lost() -> None:
    stage = Stage()
    stage.store.read = lambda _: None  # type: ignore[method-assign,assignment,return-value]
    stage.store.register.lease = "another"
    stage.now = NOW + RENEW_MS
    assert stage.lost.wait(PATIENCE)
    stage.sender.close()


def test_a_batch_is_not_posted_after_the_lease_has_ended() -> None:
    """It was appended in time, but the process was stopped before it posted."""
    stage = Stage(lease_s=0.0)
    stage.release()
    stage.sender.write("text")
    stage.store.wait_for(1)
    stage.sender.close()
    stage.fan_out.drain()
    assert stage.taken("a") == stage.taken("b") == []


def test_batches_come_quickly_at_first_and_seldom_in_a_long_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 tokens in six seconds, by a clock of the test's own."""
    clock = [1000.0]
    monkeypatch.setattr(module, "_monotonic", lambda: clock[0])
    stage = Stage(max_delay_s=0.35)
    stage.release()
    sent: list[float] = []
    due = 0.0
    for n in range(300):
        stage.sender.write(f"{n} ")
        if clock[0] >= due:
            sent.append(clock[0] - 1000)
            until(lambda: len(stage.taken("a")) == len(sent))  # the sender knows then when the next one is due
            due = stage.sender._batch_due
        clock[0] += 0.02
    stage.sender.close()
    assert "".join(stage.sender.sent_pieces) == "".join(f"{n} " for n in range(300))
    assert sent[0] == 0
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert gaps[0] < 0.15
    assert gaps == sorted(gaps)
    assert max(gaps) < 0.4
    assert len(stage.store.log) <= 25


def test_the_last_batch_of_an_answer_is_left_to_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_DELAY_S", 3600.0)
    stage = Stage(max_delay_s=3600.0)
    stage.release()
    stage.sender.write("the first piece")
    stage.store.wait_for(1)
    stage.sender.write(", a long one: " + "x" * limits.BATCH_CHARS)
    stage.sender.write(" and the end")
    assert stage.sender.close(keeps_last=True) == "x" * 14 + " and the end"
    assert stage.sender.sent_pieces == ["the first piece", ", a long one: " + "x" * (limits.BATCH_CHARS - 14)]


def test_an_answer_of_one_piece_is_sent_at_once() -> None:
    stage = Stage()
    stage.release()
    stage.sender.write("Hello")
    assert stage.sender.close(keeps_last=True) == ""
    assert stage.sender.sent_pieces == ["Hello"]


@pytest.mark.parametrize(("pieces_per_s", "reads"), [(100, 200), (1_000, 320)])
def test_the_reader_rests_only_beside_a_fast_model(
    monkeypatch: pytest.MonkeyPatch, pieces_per_s: int, reads: int
) -> None:
    """Two seconds of pieces; those that arrive during a rest are read at once."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    stage = Stage()
    stage.release()
    stage.sender.close()
    monkeypatch.setattr(module, "_monotonic", lambda: now)
    monkeypatch.setattr(module, "_sleep", sleep)
    stage.sender._batch_due = 3600.0
    taken = done = 0
    while taken < 2 * pieces_per_s:
        arrived = int(now * pieces_per_s + 1e-6)
        if arrived == taken:  # the reader waits for the next piece
            arrived += 1
            now = arrived / pieces_per_s
        stage.sender.rest("x" * min(1_000, arrived - taken))
        taken, done = arrived, done + 1
    assert abs(done - reads) <= reads // 10
