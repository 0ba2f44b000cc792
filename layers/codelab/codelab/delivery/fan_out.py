"""Frames on their way to the connections of one session: in order to each, and none waits for another.

Every connection has a lane: what waits for it, and at most one thread that posts it. A frame that is refused is tried
again, and what comes after it on that lane waits. A lane that is too far behind is given up: what waits on it is
dropped, the next frame is posted as if nothing were, and a client that knows `seq` sees the gap and resumes from the
log. Memory is bounded by that, and time by `drain`: a function must not end, and be frozen, with posts under way.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from codelab.delivery.post import PATIENCE_S, Poster, PostResult, pauses, render
from codelab.protocol.limits import CONNECTIONS_PER_SESSION
from codelab.sessions.items import EventItem
from codelab.sessions.register import Connection, Register

#: Batches that may wait for one connection; at ten a second it is then half a minute behind.
LANE_BATCHES = 300
#: How long the end of a function waits for those that are behind, in seconds.
DRAIN_S = 5.0
#: A connection that takes longer for a post is not waited for in the thread that has to go on, in seconds.
_SLOW_S = 0.25

#: Lanes that wait must not keep others from a thread; a sweep repairs eight sessions beside each other.
_threads = ThreadPoolExecutor(max_workers=8 * CONNECTIONS_PER_SESSION, thread_name_prefix="post")


@dataclass(slots=True, eq=False)
class Delivery:
    """What becomes of frames that belong together. `first` is the seq by which the register knows them.

    `gone` are the connections that answered 410; `failed`: a frame may not have reached a client that is still there,
    and should be posted again.
    """

    first: int
    gone: list[str] = field(default_factory=list)
    failed: bool = False
    #: Connections that it is still under way to, and whether one has been reached or given up.
    outstanding: int = 0
    has_ended_once: bool = False

    @property
    def is_done(self) -> bool:
        return not self.outstanding


@dataclass(slots=True, eq=False)
class _Batch:
    """What one connection gets of a delivery."""

    frames: deque[dict[str, Any]]
    delivery: Delivery


@dataclass(slots=True, eq=False)
class _Lane:
    connection_id: str
    connection: Connection
    waiting: deque[_Batch] = field(default_factory=deque)
    is_posting: bool = False
    keeps_up: bool = True
    is_gone: bool = False


class FanOut:
    """What one writer posts; `gone` are all connections that have answered 410. One thread at a time may `send`."""

    def __init__(self, poster: Poster, clock: Callable[[], int], patience_s: float = PATIENCE_S) -> None:
        self._poster = poster
        self._clock = clock
        self._patience_s = patience_s
        self._lanes: dict[str, _Lane] = {}
        self._changed = threading.Condition()
        self._is_ending = False
        self._to_report: list[Delivery] = []
        self.gone: set[str] = set()

    @contextmanager
    def tracked(self, first: int) -> Iterator[Delivery]:
        """A delivery that `take_posted` will give; in here its frames are added to it by `send`.

        Where that fails, it is not given: not all that belongs to it is on its way.
        """
        delivery = Delivery(first)
        yield delivery
        self._to_report.append(delivery)

    def send(
        self,
        events: Sequence[EventItem],
        register: Register,
        targets: Iterable[str],
        delivery: Delivery | None = None,
    ) -> Delivery:
        """Have `events` posted to those of the `targets` that they are for, as a part of `delivery` or on their own.

        A connection that is alone, and that keeps up, is posted to in the caller's thread: it delays nobody, and no
        thread has to be woken.
        """
        if delivery is None:
            delivery = Delivery(events[0].seq)
        batches: list[tuple[_Lane, _Batch]] = []
        for target in targets:
            frames = deque(
                frame
                for event in events
                if (frame := render(event, target, register, self._poster.payloads)) is not None
            )
            lane = self._lane(target, register)
            if frames and not lane.is_gone:
                batches.append((lane, _Batch(frames, delivery)))
        self._enqueue(batches)
        return delivery

    def reply(self, connection_id: str, frame: dict[str, Any], register: Register) -> None:
        """Have a frame that is not logged posted to one connection, after what waits for it."""
        if connection_id in register.connections:
            self._enqueue([(self._lane(connection_id, register), _Batch(deque([frame]), Delivery(0)))])

    def _enqueue(self, batches: Sequence[tuple[_Lane, _Batch]]) -> None:
        with self._changed:
            for _, batch in batches:
                batch.delivery.outstanding += 1
            idle = [lane for lane, _ in batches if not lane.is_posting]
            for lane, batch in batches:
                if len(lane.waiting) >= LANE_BATCHES:
                    self._give_up(lane)
                lane.waiting.append(batch)
                lane.is_posting = True
        if len(batches) == 1 and idle and idle[0].keeps_up:
            self._post_all(idle[0], is_callers=True)
        else:
            for lane in idle:
                _threads.submit(self._post_all, lane)

    def wait(self, delivery: Delivery, timeout_s: float) -> bool:
        """Wait until one connection has the batch, the fastest, or no one is left to get it. False if none has yet."""
        with self._changed:
            return self._changed.wait_for(lambda: delivery.has_ended_once or delivery.is_done, timeout_s)

    def take_posted(self, perhaps_there: Set[str] | None = None) -> list[Delivery]:
        """The deliveries whose frames every client has now, each given once, so that they can be reported as posted.

        `perhaps_there` are those of the `gone` that may not be gone; while that is not known, what they did not take
        stays. What has failed is never given: the sweep posts it again.
        """
        with self._changed:
            done = [found for found in self._to_report if found.is_done]
            if perhaps_there is None:
                done = [found for found in done if not found.gone]
            self._to_report = [found for found in self._to_report if found not in done]
        missed = perhaps_there or frozenset()
        return [found for found in done if not found.failed and missed.isdisjoint(found.gone)]

    def drain(self, timeout_s: float = DRAIN_S) -> None:
        """Wait for all posts, at most so long; then what still waits is given up. Nothing is under way afterwards."""
        with self._changed:
            self._changed.wait_for(self._is_idle, timeout_s)
            self._is_ending = True
            for lane in self._lanes.values():
                self._give_up(lane)
            self._changed.notify_all()
            self._changed.wait_for(self._is_idle)  # a single try has a time-out
            self._is_ending = False

    def _is_idle(self) -> bool:
        return not any(lane.is_posting for lane in self._lanes.values())

    def _lane(self, connection_id: str, register: Register) -> _Lane:
        connection = register.connections[connection_id]
        lane = self._lanes.setdefault(connection_id, _Lane(connection_id, connection))
        lane.connection = connection  # it may have said hello by now
        return lane

    # -- the thread of a lane ----------------------------------------------------------------------------------------

    def _post_all(self, lane: _Lane, *, is_callers: bool = False) -> None:
        """Post what waits. A connection that refuses, or has become slow, does not keep the caller's own thread."""
        try:
            self._post_waiting(lane, is_callers=is_callers)
        except BaseException:  # nobody posts on this lane any more, and nobody may wait for that
            with self._changed:
                self._give_up(lane)
                lane.is_posting = False
                self._changed.notify_all()
            raise

    def _post_waiting(self, lane: _Lane, *, is_callers: bool) -> None:
        while (batch := self._next(lane)) is not None:
            if lane.connection.has_expired(self._clock()):
                self._drop(lane)
                continue
            if is_callers and not lane.keeps_up:
                _threads.submit(self._post_all, lane)
                return
            frame = batch.frames[0]
            began = time.monotonic()
            outcome = self._poster.attempt(lane.connection_id, frame)
            lane.keeps_up = outcome in (PostResult.DONE, PostResult.GONE) and time.monotonic() - began < _SLOW_S
            if outcome.may_repeat(lane.connection.extensions):
                if is_callers:
                    continue
                outcome = self._insist(lane, frame)
            self._note(lane, batch, outcome)

    def _next(self, lane: _Lane) -> _Batch | None:
        with self._changed:
            if lane.waiting:
                return lane.waiting[0]
            lane.is_posting = False
            self._changed.notify_all()
            return None

    def _insist(self, lane: _Lane, frame: dict[str, Any]) -> PostResult:
        """Try a frame that was refused again, while there is patience."""
        outcome = PostResult.REFUSED
        for pause in pauses(self._patience_s):
            with self._changed:
                if self._changed.wait_for(lambda: self._is_ending, pause):
                    break
            outcome = self._poster.attempt(lane.connection_id, frame)
            if not outcome.may_repeat(lane.connection.extensions):
                break
        return outcome

    def _note(self, lane: _Lane, batch: _Batch, outcome: PostResult) -> None:
        with self._changed:
            if not lane.waiting or lane.waiting[0] is not batch:
                return  # it was given up meanwhile
            if outcome is PostResult.GONE:
                self.gone.add(lane.connection_id)
                lane.is_gone = not lane.connection.may_be_joining(self._clock())
                for missed in list(lane.waiting) if lane.is_gone else [batch]:
                    missed.delivery.gone.append(lane.connection_id)
                    self._end(lane)
            elif outcome.may_repeat(lane.connection.extensions):
                self._give_up(lane)
            else:
                batch.delivery.failed = batch.delivery.failed or outcome is PostResult.UNKNOWN
                batch.frames.popleft()
                if not batch.frames:
                    self._end(lane)

    def _drop(self, lane: _Lane) -> None:
        """What waits is not for this connection any more: its token has expired. If it is refreshed, it resumes."""
        with self._changed:
            while lane.waiting:
                self._end(lane)

    def _give_up(self, lane: _Lane) -> None:
        while lane.waiting:
            lane.waiting[0].delivery.failed = True
            self._end(lane)

    def _end(self, lane: _Lane) -> None:
        delivery = lane.waiting.popleft().delivery
        delivery.outstanding -= 1
        delivery.has_ended_once = True
        self._changed.notify_all()
