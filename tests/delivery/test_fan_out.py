"""The fan_out: every connection gets its frames in order, and none waits for another."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from codelab.delivery import fan_out as module
from codelab.delivery.fan_out import Delivery, FanOut
from codelab.delivery.post import PostResult
from codelab.sessions.items import Audience, EventItem
from codelab.sessions.register import Connection, Register

from tests.cases import cases
from tests.waiting import PATIENCE, until

NOW = 1_000_000
DONE, GONE, REFUSED, UNKNOWN = PostResult.DONE, PostResult.GONE, PostResult.REFUSED, PostResult.UNKNOWN


class Connections:
    """API Gateway as a test wants it: `answers` are given to the next posts of a connection, then DONE."""

    payloads = None

    def __init__(self) -> None:
        self.taken: dict[str, list[int]] = {}
        self.tries: dict[str, int] = {}
        self.threads: set[str] = set()
        self.answers: dict[str, Callable[[], PostResult]] = {}
        self._open: dict[str, threading.Event] = {}

    def attempt(self, connection_id: str, frame: dict[str, Any]) -> PostResult:
        self.threads.add(threading.current_thread().name)
        self.tries[connection_id] = self.tries.get(connection_id, 0) + 1
        if connection_id in self._open:
            assert self._open[connection_id].wait(PATIENCE)
        outcome = self.answers.get(connection_id, lambda: DONE)()
        if outcome is DONE or outcome is UNKNOWN:
            self.taken.setdefault(connection_id, []).append(frame["seq"])
        return outcome

    def script(self, connection_id: str, *outcomes: PostResult) -> None:
        rest = iter(outcomes)
        self.answers[connection_id] = lambda: next(rest, DONE)

    def stall(self, connection_id: str) -> threading.Event:
        """Posts to it return only after this event."""
        self._open[connection_id] = threading.Event()
        return self._open[connection_id]


class World:
    def __init__(self, *, patience_s: float = PATIENCE, **joined: int) -> None:
        """Connections by name; one whose name begins with `plain` knows no extensions."""
        self.gateway = Connections()
        self.fan_out = FanOut(self.gateway, lambda: NOW, patience_s)  # type: ignore[arg-type]
        self.register = Register("ann", "s1", 0, "universal")
        for n, (name, at) in enumerate(joined.items()):
            is_new = not name.startswith("plain")
            self.register.connections[name] = Connection(
                n, joined=at, joined_seq=0, extensions=is_new, greeted=name == "greeted"
            )
        self.seq = 0

    def send(self, frames: int = 1, *, tracked: bool = False) -> Delivery:
        first = self.seq + 1
        self.seq += frames
        events = [EventItem(seq, {"seq": seq}, Audience.ALL, 0) for seq in range(first, self.seq + 1)]
        with self.fan_out.tracked(first) if tracked else nullcontext() as delivery:
            return self.fan_out.send(events, self.register, self.register.connections, delivery)

    def taken(self, connection_id: str) -> list[int]:
        return self.gateway.taken.get(connection_id, [])

    def all_seqs(self) -> list[int]:
        return list(range(1, self.seq + 1))


def test_a_window_that_stalls_delays_no_other_and_gets_everything_in_order_later() -> None:
    world = World(slow=0, fast=0)
    go_on = world.gateway.stall("slow")
    for _ in range(5):
        assert world.fan_out.wait(world.send(2), PATIENCE)
    assert world.taken("fast") == world.all_seqs()
    assert world.taken("slow") == []
    go_on.set()
    world.fan_out.drain()
    assert world.taken("slow") == world.all_seqs()


def test_the_only_window_is_posted_to_without_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOW_S", PATIENCE)
    world = World(only=0)
    assert world.send(3).is_done
    assert world.taken("only") == [1, 2, 3]
    assert world.gateway.threads == {threading.current_thread().name}


def test_the_only_window_does_not_keep_the_sender_when_it_refuses() -> None:
    world = World(only=0)
    takes = threading.Event()
    world.gateway.answers["only"] = lambda: DONE if takes.is_set() else REFUSED
    delivery = world.send(2)
    assert not delivery.is_done
    world.send()
    takes.set()
    world.fan_out.drain()
    assert world.taken("only") == [1, 2, 3]
    assert not delivery.failed


def test_the_only_window_does_not_keep_the_sender_when_it_has_become_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOW_S", 0.0)
    world = World(only=0)
    world.send(3)
    world.fan_out.drain()
    assert world.taken("only") == [1, 2, 3]
    assert len(world.gateway.threads) == 2


@pytest.mark.parametrize("name", ["window", "plain"])
def test_what_is_throttled_is_tried_again_and_the_rest_waits_behind_it(name: str) -> None:
    world = World(**{name: 0, "other": 0})
    world.gateway.script(name, DONE, REFUSED, REFUSED, DONE, REFUSED)
    deliveries = [world.send() for _ in range(4)]
    world.fan_out.drain()
    assert world.taken(name) == world.taken("other") == [1, 2, 3, 4]
    assert not any(delivery.failed for delivery in deliveries)


def test_who_refuses_for_too_long_misses_what_waited_and_nothing_after_it() -> None:
    world = World(window=0, other=0, patience_s=0.3)
    world.gateway.answers["window"] = lambda: REFUSED
    missed = [world.send(tracked=True) for _ in range(3)]
    until(lambda: all(delivery.is_done for delivery in missed))
    del world.gateway.answers["window"]
    seen = world.send(tracked=True)
    world.fan_out.drain()
    assert world.taken("window") == [4]
    assert world.taken("other") == [1, 2, 3, 4]
    assert [delivery.failed for delivery in [*missed, seen]] == [True, True, True, False]
    assert world.fan_out.take_posted(at_end=True) == [seen]


def test_a_time_out_is_not_repeated_to_a_client_that_would_show_it_twice() -> None:
    world = World(plain=0, window=0)
    world.gateway.script("plain", UNKNOWN)
    world.gateway.script("window", UNKNOWN)
    deliveries = [world.send(), world.send()]
    world.fan_out.drain()
    assert world.taken("plain") == [1, 2]
    assert world.taken("window") == [1, 1, 2], "it drops the repeat by its seq"
    assert [delivery.failed for delivery in deliveries] == [True, False]


def test_what_waits_for_one_window_is_bounded() -> None:
    world = World(slow=0, fast=0)
    go_on = world.gateway.stall("slow")
    deliveries = [world.send()]
    until(lambda: "slow" in world.gateway.tries)
    for _ in range(module.LANE_BATCHES + 49):
        deliveries.append(world.send())
        assert world.fan_out.wait(deliveries[-1], PATIENCE)
    lane = world.fan_out._lanes["slow"]
    assert len(lane.waiting) <= module.LANE_BATCHES
    go_on.set()
    world.fan_out.drain()
    assert world.taken("fast") == world.all_seqs()
    got = world.taken("slow")
    assert got == [1, *range(module.LANE_BATCHES + 1, world.seq + 1)], "one gap, and then everything"
    assert [delivery.failed for delivery in deliveries].count(True) == module.LANE_BATCHES


def test_the_end_waits_for_the_slow_no_longer_than_it_may() -> None:
    world = World(slow=0, fast=0)
    go_on = world.gateway.stall("slow")
    deliveries = [world.send(3, tracked=True) for _ in range(3)]
    until(lambda: "slow" in world.gateway.tries)
    ending = threading.Thread(target=world.fan_out.drain, args=(0.05,))
    ending.start()
    until(lambda: all(delivery.is_done for delivery in deliveries))
    go_on.set()
    ending.join(PATIENCE)
    tries = world.gateway.tries["slow"]
    time.sleep(0.05)
    assert tries == world.gateway.tries["slow"] == 1, "nothing is posted after the end"
    assert all(delivery.failed for delivery in deliveries), "the sweep posts them again"


def test_a_lane_that_fails_in_its_own_way_is_given_up_and_not_waited_for() -> None:
    def break_down() -> PostResult:
        raise RuntimeError("a fault of our own")

    world = World(broken=0, other=0)
    world.gateway.answers["broken"] = break_down
    delivery = world.send(2)
    world.fan_out.drain()
    assert delivery.failed
    assert world.taken("other") == [1, 2]
    del world.gateway.answers["broken"]
    world.send()
    world.fan_out.drain()
    assert world.taken("broken") == [3]


def test_what_could_not_all_be_sent_is_not_told_as_posted() -> None:
    world = World(window=0)

    def send_half() -> None:
        with world.fan_out.tracked(1):
            world.send()
            raise RuntimeError("the rest of the frames cannot be read")

    with pytest.raises(RuntimeError):
        send_half()
    world.fan_out.drain()
    assert world.taken("window") == [1]
    assert world.fan_out.take_posted(at_end=True) == []


def test_a_pause_before_another_try_does_not_outlive_the_end() -> None:
    world = World(window=0, other=0, patience_s=3600)
    world.gateway.answers["window"] = lambda: REFUSED
    delivery = world.send()
    world.fan_out.drain(0.05)
    assert delivery.failed


def test_who_is_gone_is_posted_to_no_more_unless_it_may_be_coming() -> None:
    world = World(old=NOW - 60_000, greeted=NOW - 100, young=NOW - 100, here=0)
    for name in ("old", "greeted", "young"):
        world.gateway.script(name, GONE)
    first = world.send(2, tracked=True)
    world.fan_out.drain()
    second = world.send(tracked=True)
    world.fan_out.drain()
    assert [world.taken(name) for name in world.register.connections] == [[], [], [3], [1, 2, 3]]
    assert (world.fan_out.gone_ids, world.fan_out.joining_ids) == ({"old", "greeted"}, {"young"})
    assert world.fan_out.take_posted() == [second], "who is gone is not removed yet"
    assert world.fan_out.take_posted(at_end=True) == [], "the young one has missed the first"
    assert not first.failed


@cases("seed", range(20))
def test_whatever_the_connections_answer_order_is_kept_and_the_books_are_right(seed: int) -> None:
    choose = random.Random(seed)
    world = World(a=0, b=0, plain=0, plain2=0, patience_s=0.02)
    for name in world.register.connections:
        weights = (choose.uniform(5, 30), choose.random() * 4, choose.random() * 4)

        def answer(weights: tuple[float, ...] = weights) -> PostResult:
            return choose.choices((DONE, REFUSED, UNKNOWN), weights)[0]

        world.gateway.answers[name] = answer
    deliveries = []
    for _ in range(30):
        deliveries.append(world.send(choose.randrange(1, 4)))
        if choose.random() < 0.5:
            world.fan_out.wait(deliveries[-1], PATIENCE)
    world.fan_out.drain(PATIENCE)
    assert all(delivery.is_done for delivery in deliveries)
    for name in world.register.connections:
        taken = world.taken(name)
        assert taken == sorted(taken)
        if name.startswith("plain"):
            assert len(set(taken)) == len(taken), "no text twice"
    ends = [delivery.first_seq - 1 for delivery in deliveries[1:]] + [world.seq]
    for delivery, end in zip(deliveries, ends, strict=True):
        if not delivery.failed:
            for name in world.register.connections:
                assert set(range(delivery.first_seq, end + 1)) <= set(world.taken(name))


def test_a_frame_that_may_be_lost_waits_for_nobody_and_is_tried_once() -> None:
    world = World(slow=0, fast=0)
    go_on = world.gateway.stall("slow")
    world.send()
    until(lambda: world.taken("fast") == [1])
    until(lambda: world.fan_out.offer({"seq": 90}, world.register, ["fast"]))
    assert not world.fan_out.offer({"seq": 90}, world.register, ["slow"])
    go_on.set()
    world.fan_out.drain()
    world.gateway.script("slow", REFUSED)
    assert world.fan_out.offer({"seq": 91}, world.register, ["slow"])
    world.fan_out.drain()
    world.send()
    world.fan_out.drain()
    assert (world.taken("fast"), world.taken("slow")) == ([1, 90, 2], [1, 2])
    assert world.gateway.tries["slow"] == 3
