"""Posts frames to the connections of one session: in order for each connection, independently of the others.

Each connection has a lane: a queue of frames, and at most one thread that posts them. A refused frame is retried while
the frames behind it wait. A lane that is too far behind is dropped: its queue is emptied, and the next frame is posted
as usual, so that a client that knows `seq` notices the gap and resumes from the log. This bounds memory. `drain` bounds
time: a function must not end, and be frozen, with posts in flight.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from codelab.delivery.post import PATIENCE_S, Poster, PostResult, pauses, render
from codelab.protocol.limits import CONNECTIONS_PER_SESSION
from codelab.sessions.items import EventItem
from codelab.sessions.register import Connection, Register

#: Batches that may wait for one connection: at ten a second, half a minute.
LANE_BATCHES = 300
#: Seconds that a function waits at its end for lanes that are behind.
DRAIN_S = 5.0
#: A connection whose post takes longer (seconds) is no longer posted to in the caller's thread.
_SLOW_S = 0.25

#: A thread for every lane, so that slow lanes do not block others; a sweep repairs eight sessions in parallel.
_threads = ThreadPoolExecutor(max_workers=8 * CONNECTIONS_PER_SESSION, thread_name_prefix="post")


@dataclass(slots=True, eq=False)
class Delivery:
    """The progress of frames that belong together. The register's outbox has them under `first_seq`.

    `gone_ids` are the connections that answered 410. `failed`: a frame may not have reached a connected client, and
    should be posted again. Its frames are posted only while `may_post` returns True.
    """

    first_seq: int
    may_post: Callable[[], bool] = lambda: True
    gone_ids: list[str] = field(default_factory=list)
    failed: bool = False
    #: How many connections still wait for it, and whether it has ended for at least one.
    outstanding: int = 0
    has_ended_once: bool = False

    @property
    def is_done(self) -> bool:
        return not self.outstanding


@dataclass(slots=True, eq=False)
class _Batch:
    """A delivery's frames for one connection."""

    frames: deque[dict[str, Any]]
    delivery: Delivery
    may_be_lost: bool = False


@dataclass(slots=True, eq=False)
class _Lane:
    connection_id: str
    connection: Connection
    waiting: deque[_Batch] = field(default_factory=deque)
    is_posting: bool = False
    keeps_up: bool = True
    is_gone: bool = False


class FanOut:
    """Posts the frames of one writer. One thread at a time may `send`.

    `gone_ids` are the connections that answered 410, except those that answered it while their `$connect` may still
    have run: these are `joining_ids`, whatever became of them since.
    """

    def __init__(self, poster: Poster, clock: Callable[[], int], patience_s: float = PATIENCE_S) -> None:
        self._poster = poster
        self.payloads = poster.payloads
        self._clock = clock
        self._patience_s = patience_s
        self._lanes: dict[str, _Lane] = {}
        self._condition = threading.Condition()
        self._is_ending = False
        self._to_report: list[Delivery] = []
        self.gone_ids: set[str] = set()
        self.joining_ids: set[str] = set()

    @contextmanager
    def tracked(self, first_seq: int) -> Iterator[Delivery]:
        """A delivery that `take_posted` will return. `send` adds frames to it in this context.

        If the context raises, the delivery is never returned, because not all of its frames are queued.
        """
        delivery = Delivery(first_seq)
        yield delivery
        self._to_report.append(delivery)

    def send(
        self,
        events: Sequence[EventItem],
        register: Register,
        targets: Iterable[str],
        delivery: Delivery | None = None,
        *,
        in_background: bool = False,
    ) -> Delivery:
        """Post each event to the `targets` (connection ids) that it is for, as a part of `delivery` or of a new one.

        Unless `in_background`, a single connection that keeps up is posted to in the caller's thread: nobody else
        waits, and no thread has to be woken.
        """
        if delivery is None:
            delivery = Delivery(events[0].seq)
        batches: list[tuple[_Lane, _Batch]] = []
        for target in targets:
            frames = deque(
                frame for event in events if (frame := render(event, target, register, self.payloads)) is not None
            )
            lane = self._lane(target, register)
            if frames and not lane.is_gone:
                batches.append((lane, _Batch(frames, delivery)))
        self._enqueue(batches, in_background=in_background)
        return delivery

    def reply(self, connection_id: str, frame: dict[str, Any], register: Register) -> None:
        """Post a frame that is not logged to one connection, after the frames that wait for it."""
        if connection_id in register.connections:
            self._enqueue([(self._lane(connection_id, register), _Batch(deque([frame]), Delivery(0)))])

    def offer(self, frame: dict[str, Any], register: Register, targets: Iterable[str]) -> bool:
        """Post a frame that is not logged, and may be lost, to the `targets` for which nothing waits.

        It is tried once. Returns False if something waits for all of them.
        """
        lanes = [self._lane(target, register) for target in targets]
        idle = [lane for lane in lanes if not (lane.is_gone or lane.is_posting)]
        self._enqueue([(lane, _Batch(deque([frame]), Delivery(0), may_be_lost=True)) for lane in idle])
        return bool(idle)

    def _enqueue(self, batches: Sequence[tuple[_Lane, _Batch]], *, in_background: bool = False) -> None:
        with self._condition:
            for _, batch in batches:
                batch.delivery.outstanding += 1
            idle = [lane for lane, _ in batches if not lane.is_posting]
            for lane, batch in batches:
                if len(lane.waiting) >= LANE_BATCHES:
                    self._give_up(lane)
                lane.waiting.append(batch)
                lane.is_posting = True
        if len(batches) == 1 and idle and idle[0].keeps_up and not in_background:
            self._post_all(idle[0], is_callers=True)
        else:
            for lane in idle:
                _threads.submit(self._post_all, lane)

    def wait(self, delivery: Delivery, timeout_s: float) -> bool:
        """Wait until the delivery has ended for the fastest connection, or no connection is left. False on time-out."""
        with self._condition:
            return self._condition.wait_for(lambda: delivery.has_ended_once or delivery.is_done, timeout_s)

    def take_posted(self, *, at_end: bool = False) -> list[Delivery]:
        """The deliveries that have reached every client, to be reported as posted; each is returned once.

        Those that a connection did not take because it is gone are kept until `at_end`, when their writer also removes
        the connection. Failed ones, and those that a joining connection missed, are never returned: the sweep posts
        them again.
        """
        with self._condition:
            ended_deliveries = [
                delivery for delivery in self._to_report if delivery.is_done and (at_end or not delivery.gone_ids)
            ]
            self._to_report = [delivery for delivery in self._to_report if delivery not in ended_deliveries]
        return [
            delivery
            for delivery in ended_deliveries
            if not delivery.failed and self.joining_ids.isdisjoint(delivery.gone_ids)
        ]

    def drain(self, timeout_s: float = DRAIN_S) -> None:
        """Wait at most `timeout_s` for all posts, then drop what still waits. No post is in flight afterwards."""
        with self._condition:
            self._condition.wait_for(self._is_idle, timeout_s)
            self._is_ending = True
            for lane in self._lanes.values():
                self._give_up(lane)
            self._condition.notify_all()
            self._condition.wait_for(self._is_idle)  # each try has a time-out
            self._is_ending = False

    def _is_idle(self) -> bool:
        return not any(lane.is_posting for lane in self._lanes.values())

    def _lane(self, connection_id: str, register: Register) -> _Lane:
        connection = register.connections[connection_id]
        lane = self._lanes.setdefault(connection_id, _Lane(connection_id, connection))
        lane.connection = connection  # it may have changed since
        return lane

    # -- the thread of a lane ----------------------------------------------------------------------------------------

    def _post_all(self, lane: _Lane, *, is_callers: bool = False) -> None:
        """Post what waits. If the connection refuses or becomes slow, the caller's own thread hands the lane over."""
        try:
            self._post_waiting(lane, is_callers=is_callers)
        except BaseException:  # this lane's thread ends, so nobody may wait for it
            with self._condition:
                self._give_up(lane)
                lane.is_posting = False
                self._condition.notify_all()
            raise

    def _post_waiting(self, lane: _Lane, *, is_callers: bool) -> None:
        while (batch := self._next(lane)) is not None:
            if lane.connection.has_expired(self._clock()):
                self._drop(lane)
                continue
            if not batch.delivery.may_post():
                self._skip(lane, batch)
                continue
            if is_callers and not lane.keeps_up:
                _threads.submit(self._post_all, lane)
                return
            frame = batch.frames[0]
            started_at = time.monotonic()
            outcome = self._poster.attempt(lane.connection_id, frame)
            was_taken = outcome in (PostResult.DONE, PostResult.GONE)
            lane.keeps_up = was_taken and time.monotonic() - started_at < _SLOW_S
            may_repeat = not (was_taken or batch.may_be_lost) and outcome.may_repeat(lane.connection.extensions)
            if may_repeat:
                if is_callers:
                    continue
                outcome, may_repeat = self._insist(lane, frame, batch.delivery.may_post)
            self._note(lane, batch, outcome, may_repeat=may_repeat)

    def _next(self, lane: _Lane) -> _Batch | None:
        with self._condition:
            if lane.waiting:
                return lane.waiting[0]
            lane.is_posting = False
            self._condition.notify_all()
            return None

    def _insist(self, lane: _Lane, frame: dict[str, Any], may_post: Callable[[], bool]) -> tuple[PostResult, bool]:
        """Retry a refused frame until `patience_s` has passed, as long as it may be posted.

        Returns the last outcome, and whether the frame might be posted once more.
        """
        outcome = PostResult.REFUSED
        for pause in pauses(self._patience_s):
            with self._condition:
                if self._condition.wait_for(lambda: self._is_ending, pause):
                    break
            if not may_post():
                break
            outcome = self._poster.attempt(lane.connection_id, frame)
            if not outcome.may_repeat(lane.connection.extensions):
                return outcome, False
        return outcome, True

    def _note(self, lane: _Lane, batch: _Batch, outcome: PostResult, *, may_repeat: bool) -> None:
        with self._condition:
            if not lane.waiting or lane.waiting[0] is not batch:
                return  # the lane was dropped meanwhile
            if outcome is PostResult.GONE:
                lane.is_gone = not lane.connection.may_be_joining(self._clock())
                (self.gone_ids if lane.is_gone else self.joining_ids).add(lane.connection_id)
                for lane_batch in list(lane.waiting) if lane.is_gone else [batch]:
                    lane_batch.delivery.gone_ids.append(lane.connection_id)
                    self._end(lane)
            elif may_repeat:
                self._give_up(lane)
            else:
                batch.delivery.failed = batch.delivery.failed or outcome is PostResult.UNKNOWN
                batch.frames.popleft()
                if not batch.frames:
                    self._end(lane)

    def _skip(self, lane: _Lane, batch: _Batch) -> None:
        """Do not post the rest of a batch. It is in the log, so a client that knows `seq` notices the gap."""
        with self._condition:
            if lane.waiting and lane.waiting[0] is batch:
                batch.delivery.failed = True
                self._end(lane)

    def _drop(self, lane: _Lane) -> None:
        """Empty the queue of a connection whose token has expired. If the token is refreshed, the client resumes."""
        with self._condition:
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
        self._condition.notify_all()
