"""The streaming sender: one ordered writer for the text of one answer.

The first delta goes at once. Then a batch goes when the fastest connection has the last one and `STREAM_MAX_DELAY_MS`
has passed since its post began, so that a fast model costs few writes. Each batch is appended to the log and then
posted, while a consistent read of the register, begun after the append was acknowledged, looks for connections that
have joined and for the end of our lease. A connection that is slower than the others gets the same batches later; when
all are slow, the log goes on at one batch a second.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic as _monotonic
from time import sleep as _sleep

from codelab.delivery.fan_out import Delivery, FanOut
from codelab.protocol import limits
from codelab.protocol.outgoing import AssistantMessage
from codelab.sessions.items import Audience, EventItem
from codelab.sessions.register import Phase, Register
from codelab.sessions.store import Conflict, SessionStore
from codelab.sessions.transition import Transition

#: How long the reader of the model may rest while a batch grows, in seconds.
_REST_S = 0.03
#: Characters of what a read gives while the reader keeps up with the model.
_SMALL = 40

#: How long an append waits for another writer's transaction at its seq, in seconds.
_CONFLICT_S = 0.005

#: When a stream without a pause reports its first frames as posted, lest the sweep post them again, in seconds.
_REPORT_S = 5.0

#: How long a batch waits for the first connection to have taken the one before, in seconds.
_PACE_S = 1.0

#: How often the register is read while the model is silent (cancel, foreign token, new connections), in seconds.
WATCH_S = 0.25


class StreamSender:
    """Sends the text of one message from a thread of its own.

    `started` is the transition that acquired the step: its frames are posted first, then those of what is given to
    `follow`, then the text. `on_lost` is called, from the sender's thread, when the lease is no longer ours or the turn
    was cancelled. After `close` the log's end is `log_end`, what was logged is `sent`, the register as it was last read
    is `register`; posts may still be under way in the fan_out.
    """

    def __init__(
        self,
        store: SessionStore,
        fan_out: FanOut,
        started: Transition,
        *,
        max_delay_s: float,
        retention_s: int,
        clock: Callable[[], int],
        on_lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._fan_out = fan_out
        self._decided = [started]
        self._agent = started.after.agent
        self._max_delay_s = max_delay_s
        self._retention_s = retention_s
        self._clock = clock
        self._on_lost = on_lost
        self.register: Register = started.after
        self.log_end = started.after.last_seq
        self.sent: list[str] = []
        self.lost = False
        self.failure: BaseException | None = None
        self._lease = started.after.lease
        self._message_id = started.after.message_id
        self._buffer: list[str] = []
        self._closing = False
        self._idle = False
        self._batch_due = 0.0
        self._wake = threading.Condition()
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="watch")
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def follow(self, transition: Transition) -> None:
        """Post the frames of another decision of this step, before the first `write`: the text comes behind them."""
        with self._wake:
            self.log_end = max(self.log_end, transition.after.last_seq)
            self._decided.append(transition)
            self._wake.notify()

    def write(self, text: str) -> None:
        """Add text to the message. Never blocks on the network."""
        with self._wake:
            self._buffer.append(text)
            if self._idle:  # while a batch grows, waking the sender for each piece would cost more than the piece
                self._wake.notify()

    def rest(self, last: str) -> None:
        """Sleep a little after a small piece if the batch that is growing has the time.

        Nothing would be sent sooner, and what the model writes meanwhile is then read and parsed at once, which costs a
        fraction of doing it piece by piece. A large piece means that the model is ahead of us: no rest then.
        """
        if len(last) <= _SMALL and self._batch_due - _monotonic() > 2 * _REST_S:
            _sleep(_REST_S)

    def close(self) -> None:
        """Send what is left and end the thread. Raises what made the sender fail."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        self._reader.shutdown(wait=False)
        if self.failure is not None:
            raise self.failure

    # -- the sender's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        report_by = _monotonic() + _REPORT_S
        try:
            self._post_decided()
            while not self.lost:
                text = self._next()
                posted = self._post_decided()
                if text is None:
                    return
                if not text:
                    if not posted:
                        self._watch()
                    continue
                self._batch_due = _monotonic() + self._max_delay_s
                self._send(text)
                if _monotonic() > report_by:
                    self._report()
                    report_by = _monotonic() + _REPORT_S
        except BaseException as error:
            self.failure = error
            self._on_lost()

    def _post_decided(self) -> bool:
        """Post what was decided and is not posted yet. False if there was nothing."""
        with self._wake:
            decided, self._decided = self._decided, []
        for transition in decided:
            self._agent = transition.after.agent
            self._look_at(transition.after)
            if transition.events:
                with self._fan_out.tracked(transition.events[0].seq) as delivery:
                    self._fan_out.send(transition.events, self.register, self._live(), delivery)
        return bool(decided)

    def _next(self) -> str | None:
        """The next batch; empty after `WATCH_S` of silence; None when all is sent."""
        with self._wake:
            if not self._buffer and not self._closing and not self._decided:
                self._idle = True
                self._wake.wait(WATCH_S)
                self._idle = False
            # Let the batch grow, unless the answer is complete; the first one is due at once.
            while self._buffer and not self._closing and (left := self._batch_due - _monotonic()) > 0:
                self._wake.wait(left)
            text = "".join(self._buffer)
            self._buffer[:] = [text[limits.BATCH_CHARS :]] if len(text) > limits.BATCH_CHARS else []
            text = text[: limits.BATCH_CHARS]
            return None if self._closing and not text else text

    def _send(self, text: str) -> None:
        event = self._append(text)
        self._batch_due = _monotonic() + self._max_delay_s  # between two posts, however long the log takes
        refresh: Future[Register | None] = self._reader.submit(self._store.read, self.register.pk)
        known = self._live()
        # A client that misses a piece of text sees the gap at the next frame, and there is one: the final.
        delivery = self._fan_out.send([event], self.register, known)
        self._look_at(refresh.result())
        newcomers = [found for found in self._live() if found not in known]
        if newcomers:
            self._fan_out.send([event], self.register, newcomers)
        self._keep_pace(delivery)

    def _keep_pace(self, delivery: Delivery) -> None:
        until = _monotonic() + _PACE_S
        while (left := until - _monotonic()) > 0 and not (self.lost or self._closing):
            if self._fan_out.wait(delivery, min(left, WATCH_S)):
                return
            self._look_at(self._store.read(self.register.pk))

    def _live(self) -> list[str]:
        return self.register.live(self._clock())

    def _append(self, text: str) -> EventItem:
        while True:
            self.log_end += 1
            frame = AssistantMessage(
                seq=self.log_end,
                token=text,
                content=text,
                is_final=False,
                message_id=self._message_id,
                turn_id=self.register.turn_id,
                agent=self._agent,
            )
            event = EventItem(
                seq=self.log_end,
                frame=frame.wire(),
                audience=Audience.ALL,
                ttl=self._clock() // 1000 + self._retention_s,
                write_id=f"{self._lease}:{self.log_end}",
            )
            try:
                if self._store.append(self.register.pk, event):
                    self.sent.append(text)
                    return event
            except Conflict:
                self.log_end -= 1
                _sleep(_CONFLICT_S)

    def _report(self) -> None:
        """Say what was posted of the acquire's frames; the commit does it otherwise, in one write with its own."""
        posted = self._fan_out.take_posted()
        if posted:
            self._store.posted(self.register, [delivery.first for delivery in posted])

    def _watch(self) -> None:
        self._report()
        self._look_at(self._store.read(self.register.pk))

    def _look_at(self, register: Register | None) -> None:
        if (
            register is None
            or register.phase is not Phase.RUNNING
            or register.lease != self._lease
            or register.cancelled_at
        ):
            self.lost = True
            self._on_lost()
        if register is not None and register.version >= self.register.version:
            self.register = register
