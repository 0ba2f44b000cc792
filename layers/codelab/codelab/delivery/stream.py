"""The streaming sender: one ordered writer for the text of one answer.

The first piece of text is sent at once, by the thread that reads the model: it would have to wait for another one to
wake up. Then a batch is sent when the fastest connection has the last one and a delay
has passed since its post began, so that a fast model costs few writes. The delay follows the reader, who is behind a
long text soon: it begins short, and grows with every batch to `STREAM_MAX_DELAY_MS`. Each batch is appended to
the log and then posted. A consistent read of the register follows, which detects new connections and the loss of the
lease; in parallel to the post it would compete with it for the interpreter. Slower connections get the same batches
later. If all are slow, one batch per second is logged. The last batch of a complete answer is not: the commit logs it
in the message's final frame. The model's thoughts are sent in the same way, but in few and large batches.

The lease of the step is short, and this thread extends it. A writer whose lease was taken over stops: a frame of the
new owner has the seq of its next append, and it looks at the register whenever a seq is taken. Nothing stops a post of
a batch that was appended before, so no batch is posted after the time at which the lease ends without an extension.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from time import monotonic as _monotonic
from time import sleep as _sleep
from typing import NamedTuple

from codelab.aws.errors import AwsError
from codelab.delivery.call_drafts import CallDrafts
from codelab.delivery.fan_out import Delivery, FanOut
from codelab.delivery.settled_calls import with_outcomes_for
from codelab.observability import logger
from codelab.protocol import limits
from codelab.protocol.outgoing import AssistantMessage, AssistantThought, ServerFrame
from codelab.sessions.items import Audience, EventItem
from codelab.sessions.register import LEASE_MS, RENEW_MS, Phase, Register
from codelab.sessions.store import Conflict, SessionStore
from codelab.sessions.transition import Transition

#: Seconds that the reader of a fast model may pause while a batch grows.
_REST_S = 0.012
#: Characters that one read returns at most while the reader keeps up with the model.
_SMALL = 40

#: The delay (seconds) of the second batch, and the factor by which it grows with each batch.
_FIRST_DELAY_S, _GROWTH = 0.1, 1.25

#: Seconds that an append waits for another writer's transaction at its seq.
_CONFLICT_S = 0.005

#: Seconds after which a stream without pauses reports posted frames, so that the sweep does not post them again.
_REPORT_S = 5.0

#: Seconds that a batch waits for the fastest connection to take the one before.
_PACE_S = 1.0

#: The delay (seconds) of the first batch of thoughts, the factor by which it grows with each, and the longest.
_FIRST_THOUGHT_S, _THOUGHT_GROWTH, _LONGEST_THOUGHT_S = 0.5, 2.0, 8.0
#: The characters of one answer's thoughts that are sent and logged; a note replaces the rest.
THOUGHT_CHARS = 20_000
_REST_OF_THOUGHTS = "\n[… the rest of the thoughts is not shown]"

#: Seconds between reads of the register while the model is silent (for a cancel, a lost lease, new connections).
WATCH_S = 0.25


def delays(most_s: float) -> Iterator[float]:
    """The seconds that each batch after the first waits, however much text there is; at most `most_s`."""
    delay = _FIRST_DELAY_S
    while delay < most_s:
        yield delay
        delay *= _GROWTH
    yield from itertools.repeat(most_s)


class _Sent(NamedTuple):
    """A batch that was appended, and is being posted to these connections."""

    event: EventItem
    targets: list[str]
    delivery: Delivery


class StreamSender:
    """Sends the text of one message, in a thread of its own from `start` on.

    It posts the frames of `acquisition`, the transition that acquired the step, then those of `follow`, then the text.
    `drafts` shows the calls meanwhile. It calls `on_lost` from its thread when the lease is lost or the turn was
    cancelled. After `close`, `log_end` is the last seq, `sent_pieces` the logged text, and `register` the register as
    last read. `fan_out` may still be posting then. `retention_s` is in seconds; `clock` returns milliseconds;
    `lease_ends` is in seconds of the monotonic clock.
    """

    def __init__(
        self,
        store: SessionStore,
        fan_out: FanOut,
        acquisition: Transition,
        *,
        max_delay_s: float,
        retention_s: int,
        clock: Callable[[], int],
        lease_ends: float,
        on_lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._fan_out = fan_out
        self._transitions_to_post = [acquisition]
        self._agent = acquisition.after.agent
        self._delays = delays(max_delay_s)
        self._delay_s = next(self._delays)
        self._retention_s = retention_s
        self._clock = clock
        self.lease_ends = lease_ends
        self._renew_at = clock() + RENEW_MS
        self._on_lost = on_lost
        self.register: Register = acquisition.after
        self.log_end = acquisition.after.last_seq
        self.sent_pieces: list[str] = []
        self.lost = False
        self.failure: BaseException | None = None
        self.drafts = CallDrafts(fan_out, acquisition.after.message_id)
        self._lease = acquisition.after.lease
        self._message_id = acquisition.after.message_id
        self._buffer: list[str] = []
        self._thoughts: list[str] = []
        self._thought_chars = 0
        self._thought_due = 0.0
        self._thought_delay_s = _FIRST_THOUGHT_S
        self._closing = False
        self._keeps_last = False
        #: The sender's thread waits for something to do.
        self._idle = True
        #: The writer's thread sends the first piece meanwhile, and leaves it here for the sender's to follow it up.
        self._writer_sends = False
        self._writers_batch: _Sent | None = None
        self._batch_due = 0.0
        self._reader_waits_since, self._has_rested = 0.0, False
        self._wake = threading.Condition()
        self._first_is_out, self._awaits_first = threading.Event(), True
        self._thread_end = threading.Event()

    def start(self, threads: Executor) -> None:
        """Send in a thread of `threads` until `close`. A failure is raised by `close`."""
        self._post_decided()
        threads.submit(self._run)

    def _run(self) -> None:
        try:
            self._send_all()
        except BaseException as error:
            self._fail(error)
        finally:
            self._first_is_out.set()
            self._thread_end.set()

    def _fail(self, error: BaseException) -> None:
        self.failure, self.lost = error, True
        self._on_lost()

    def follow(self, transition: Transition) -> None:
        """Post the frames of another decision of this step. Call it before the first `write`: the text follows them."""
        with self._wake:
            self.log_end = max(self.log_end, transition.after.last_seq)
            self._transitions_to_post.append(transition)
            self._wake.notify()

    def take(self, piece: str) -> None:
        """Add the piece of text that the model has just sent, and pause before the next one is read if that saves work.

        See `write` and `rest`.
        """
        self.write(piece)
        self.rest(piece)

    def write(self, text: str) -> None:
        """Add text to the message. The first piece is sent here, unless the sender's thread is at work.

        Otherwise it never blocks on the network.
        """
        with self._wake:
            self._buffer.append(text)
            if not self._idle:
                return
            is_first = not self.sent_pieces and len(self._buffer) == 1
            if not is_first or self._thoughts or self._closing or len(text) > limits.BATCH_CHARS:
                # Waking the sender for every piece of a growing batch would cost more than the piece.
                self._wake.notify()
                return
            self._idle, self._writer_sends = False, True
            self._buffer.clear()
        first_batch = None
        try:
            self._post_decided()
            self._batch_due = _monotonic() + self._delay_s
            first_batch = self._deliver(text)
            self._delay_s = next(self._delays)
        except BaseException as error:
            self._fail(error)
        finally:
            with self._wake:
                self._writer_sends, self._writers_batch = False, first_batch
                self._wake.notify()

    def think(self, text: str) -> None:
        """Add to the thoughts that precede the text. Never blocks; the sender looks for them every `WATCH_S`."""
        with self._wake:
            room = THOUGHT_CHARS - self._thought_chars
            if room <= 0 or not text:
                return
            if not self._thoughts:
                self._thought_due = _monotonic() + self._thought_delay_s
            self._thought_chars += len(text)
            self._thoughts.append(text if len(text) < room else text[:room] + _REST_OF_THOUGHTS)

    def rest(self, piece: str) -> None:
        """Pause shortly after a small `piece` of a fast model, if the growing batch is not due soon.

        The text that arrives meanwhile is read and parsed at once, which is much cheaper than piece by piece. After a
        large piece there is no pause, because the model is ahead of the reader. Nor is there one after a piece that the
        reader has waited for, or after another pause: a slow model saves little and the pause would delay the end.

        After the first piece the reader waits until that is on its way: reading on would compete with it for the
        interpreter.
        """
        if self._awaits_first:
            self._awaits_first = False
            self._first_is_out.wait(WATCH_S)
            self._reader_waits_since, self._has_rested = _monotonic(), True
            return
        now = _monotonic()
        is_fast = now - self._reader_waits_since < _REST_S / 2 and not self._has_rested
        self._has_rested = is_fast and len(piece) <= _SMALL and self._batch_due - now > 2 * _REST_S
        if self._has_rested:
            _sleep(_REST_S)
        self._reader_waits_since = _monotonic()

    def close(self, *, keeps_last: bool = False) -> str:
        """Send what is left and end the thread. Raises the sender's failure.

        `keeps_last`: the last batch is returned and not sent, unless it is the first one too.
        """
        with self._wake:
            self._closing, self._keeps_last = True, keeps_last
            self._wake.notify()
        self._thread_end.wait()
        if self.failure is not None:
            raise self.failure
        return "".join(self._buffer)[: limits.BATCH_CHARS] if keeps_last else ""

    # -- the sender's thread -------------------------------------------------------------------------------------

    def _send_all(self) -> None:
        report_by = _monotonic() + _REPORT_S
        self._take_over()
        while not self.lost:
            self._renew_in_time()
            text = self._next()
            first_batch, self._writers_batch = self._writers_batch, None
            if first_batch is not None:
                self._follow_up(first_batch)
            if self.lost:
                return
            has_posted = self._post_decided()
            if thought := self._next_thought(is_over=text != ""):
                self._send_thought(thought)
            if text is None:
                return
            if self._holds_lease():
                self.drafts.post(self.register, self._live())
            if not text:
                if not (has_posted or first_batch):
                    self._watch()
                continue
            self._batch_due = _monotonic() + self._delay_s
            batch = self._deliver(text)
            if batch is not None:
                self._follow_up(batch)
            self._delay_s = next(self._delays)
            if _monotonic() > report_by:
                self._report()
                report_by = _monotonic() + _REPORT_S

    def _take_over(self) -> None:
        """Wait until the writer's thread has sent the first piece, if it does."""
        with self._wake:
            self._wake.wait_for(lambda: not self._writer_sends)
            self._idle = False

    def _renew_in_time(self) -> None:
        """Extend the lease when that is due. If it fails, it is tried again with the next batch."""
        now = self._clock()
        if now < self._renew_at:
            return
        ends = _monotonic() + LEASE_MS / 1000
        try:
            if not self._store.renew(self.register, now + LEASE_MS):
                self._lose()
                return
        except (Conflict, AwsError) as error:
            logger().warning("lease not extended", extra={"session": self.register.pk, "error": str(error)})
            return
        self.lease_ends, self._renew_at = ends, now + RENEW_MS

    def _holds_lease(self) -> bool:
        """May a batch be posted? The lease's end is compared with the monotonic clock, which cannot be set back."""
        return _monotonic() < self.lease_ends

    def _lose(self) -> None:
        self.lost = True
        self._on_lost()

    def _post_decided(self) -> bool:
        """Post the frames of decisions that are not posted yet. Returns False if there were none."""
        with self._wake:
            transitions, self._transitions_to_post = self._transitions_to_post, []
        for transition in transitions:
            self._agent = transition.after.agent
            self._look_at(transition.after)
            for events in transition.posts:
                connection_ids = self._live()
                events_to_post = with_outcomes_for(
                    self._store, self._fan_out.payloads, events, self.register, connection_ids
                )
                with self._fan_out.tracked(events[0].seq) as delivery:
                    # In the background, because the text may come meanwhile and can be appended.
                    self._fan_out.send(events_to_post, self.register, connection_ids, delivery, in_background=True)
        return bool(transitions)

    def _next(self) -> str | None:
        """The next batch; empty after `WATCH_S` seconds without text, or when the writer has sent the first piece.

        None when nothing more is to be sent.
        """
        with self._wake:
            if not (self._buffer or self._closing or self._transitions_to_post or self._writers_batch):
                self._idle = True
                self._wake.wait(WATCH_S)
                self._wake.wait_for(lambda: not self._writer_sends)
                self._idle = False
            if self._writers_batch is not None:
                return ""
            # Let the batch grow unless the answer is complete; the first batch is due at once.
            while self._buffer and not self._closing and (seconds_left := self._batch_due - _monotonic()) > 0:
                self._wake.wait(seconds_left)
            text = "".join(self._buffer)
            if self._keeps_last and self.sent_pieces and len(text) <= limits.BATCH_CHARS:
                return None
            self._buffer[:] = [text[limits.BATCH_CHARS :]] if len(text) > limits.BATCH_CHARS else []
            text = text[: limits.BATCH_CHARS]
            return None if self._closing and not text else text

    def _next_thought(self, *, is_over: bool) -> str:
        """The thoughts to send now; empty if there are none, or they may wait, which they do until they are over."""
        with self._wake:
            if not self._thoughts or not (is_over or _monotonic() >= self._thought_due):
                return ""
            self._thought_delay_s = min(_THOUGHT_GROWTH * self._thought_delay_s, _LONGEST_THOUGHT_S)
            text = "".join(self._thoughts)
            self._thoughts.clear()
            return text

    def _send_thought(self, text: str) -> None:
        """Append a batch of thoughts and post it, unless nobody is there who could show it."""
        connections = self.register.connections.values()
        if self.lost or (connections and not any(connection.extensions for connection in connections)):
            return
        event = self._append(text, is_thought=True)
        if event is not None:
            self._fan_out.send([event], self.register, self._live(), Delivery(event.seq, may_post=self._holds_lease))

    def _deliver(self, text: str) -> "_Sent | None":
        """Append a batch and post it. None if the lease is lost."""
        event = self._append(text)
        if event is None:
            return None
        # The delay counts from post to post, however long the append takes.
        self._batch_due = _monotonic() + self._delay_s
        targets = self._live()
        # A client that misses a batch notices the gap at the next frame; there is always a final one.
        delivery = self._fan_out.send([event], self.register, targets, Delivery(event.seq, may_post=self._holds_lease))
        self._first_is_out.set()
        return _Sent(event, targets, delivery)

    def _follow_up(self, batch: "_Sent") -> None:
        """Look at the register after a batch: for a cancel, a lost lease, new connections."""
        event = batch.event
        self._look_at(self._store.read(self.register.pk))
        newcomers = [connection_id for connection_id in self._live() if connection_id not in batch.targets]
        if newcomers:
            self._fan_out.send([event], self.register, newcomers, Delivery(event.seq, may_post=self._holds_lease))
        self._keep_pace(batch.delivery)

    def _keep_pace(self, delivery: Delivery) -> None:
        ends_at = _monotonic() + _PACE_S
        while (seconds_left := ends_at - _monotonic()) > 0 and not (self.lost or self._closing):
            if self._fan_out.wait(delivery, min(seconds_left, WATCH_S)):
                return
            self._look_at(self._store.read(self.register.pk))

    def _live(self) -> list[str]:
        return self.register.live(self._clock())

    def _append(self, text: str, *, is_thought: bool = False) -> EventItem | None:
        """Append a batch at the log's end. Returns None if the lease is lost; then nothing was appended."""
        origin = {"message_id": self._message_id, "turn_id": self.register.turn_id, "agent": self._agent}
        while True:
            self.log_end += 1
            now = self._clock()
            frame: ServerFrame
            if is_thought:
                frame = AssistantThought(seq=self.log_end, at=now, content=text, **origin)
            else:
                frame = AssistantMessage(seq=self.log_end, at=now, token=text, content=text, is_final=False, **origin)
            event = EventItem(
                seq=self.log_end,
                frame=frame.wire(),
                audience=Audience.EXTENSIONS if is_thought else Audience.ALL,
                ttl=now // 1000 + self._retention_s,
                write_id=f"{self._lease}:{self.log_end}",
            )
            try:
                if self._store.append(self.register.pk, event):
                    if not is_thought:
                        self.sent_pieces.append(text)
                    return event
                # Another writer has that seq, perhaps the step's next owner.
                self._look_at(self._store.read(self.register.pk))
                if self.lost:
                    self.log_end -= 1
                    return None
            except Conflict:
                self.log_end -= 1
                _sleep(_CONFLICT_S)

    def _report(self) -> None:
        """Report posted frames of the acquire early; otherwise the commit reports them with its own."""
        deliveries = self._fan_out.take_posted()
        if deliveries:
            self._store.posted(self.register, [delivery.first_seq for delivery in deliveries])

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
            self._lose()
        if register is not None and register.version >= self.register.version:
            self.register = register
