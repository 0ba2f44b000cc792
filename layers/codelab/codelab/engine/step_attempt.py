"""An attempt at a step: acquires it, and commits what the owner decides before the answer is complete.

The step is acquired while the model works. Nothing is logged, routed or committed before that has succeeded.
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from codelab.delivery.fan_out import FanOut
from codelab.delivery.stream import StreamSender
from codelab.engine.engine import Engine
from codelab.engine.meter import Meter
from codelab.http.cancellation import Cancellation
from codelab.llm.errors import Cancelled
from codelab.sessions.register import LEASE_MARGIN_MS, LEASE_MS, Register
from codelab.sessions.store import Conversation
from codelab.sessions.transition import Step, Transition
from codelab.turns import routing, steps
from codelab.turns.draft import Draft
from codelab.turns.steps import Lease


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation of `llm_request`: the id of Lambda's request, and what its steps share.

    `remaining_ms` returns the time that it has left.
    """

    id: str
    remaining_ms: Callable[[], int]
    fan_out: FanOut
    meter: Meter


class StepAttempt:
    """One attempt of an invocation at a step. `register` names the session's agent; it changes when a choice is routed.

    `conversation` is what was read, with its register. Each attempt has its own lease, cancellation and sender, so that
    several can run at once; `threads` runs the senders. `cancellation` stops the attempt's Requests. `lease` is set
    once it was tried to acquire the step.
    """

    lease: Lease

    def __init__(
        self, engine: Engine, threads: Executor, step: Step, conversation: Conversation, invocation: Invocation
    ) -> None:
        assert conversation.register is not None
        self._engine = engine
        self._threads = threads
        self._step = step
        self._conversation = conversation
        self._invocation = invocation
        self.register: Register = conversation.register
        self.cancellation = Cancellation()
        self._was_tried = False
        self._failure: BaseException | None = None
        self._sender: StreamSender | None = None

    def acquire(self) -> None:
        """Acquire the step, unless that was tried before. On failure the model request is cancelled. Never raises."""
        if self._was_tried:
            return
        self._was_tried = True
        try:
            self._sender = self._acquire()
        except BaseException as error:
            self._failure = error
        if self._sender is None:
            self.cancellation.cancel()

    def ensure_acquired(self) -> bool:
        """Acquire the step, unless that was tried before. Returns whether it is acquired.

        Raises the error of the attempt to acquire it.
        """
        self.acquire()
        if self._failure is not None:
            raise self._failure
        return self._sender is not None

    def acquire_sender(self) -> StreamSender:
        """Acquire the step, unless that was tried before, and return the sender of its current message.

        Raises Cancelled if the step was not acquired, and what `ensure_acquired` raises.
        """
        if not self.ensure_acquired() or self._sender is None:
            raise Cancelled("another invocation has the step")
        return self._sender

    def route(self, choice: routing.Choice) -> None:
        """Commit the choice, unless the user has made another one. Raises Cancelled if the step must not go on."""
        sender, router, transition = self.acquire_sender(), self.register.agent, None
        if not self.cancellation.cancelled:
            transition = self._decide(sender, lambda draft: routing.route(draft, self.lease, router, choice))
        if transition is None:
            self.cancellation.cancel()
            raise Cancelled("the lease is lost, or the turn was cancelled")
        sender.follow(transition)
        self.register = transition.after

    def restart(self, usage: dict[str, int]) -> bool:
        """Discard the streamed text; what follows is another message. `usage` is that of the Request that broke off.

        Returns False if that is not possible: the lease is lost, the turn was cancelled, or a client would show both.
        """
        sender, message_id = self.acquire_sender(), "msg_" + self._engine.ids()
        sender.close()  # all text is logged before it is discarded
        transition = self._decide(
            sender, lambda draft: steps.restart(draft, self.lease, message_id, usage, sender.log_end)
        )
        if transition is None:
            return False
        self._sender = self._start_sender(transition, sender.lease_ends)
        return True

    def _acquire(self) -> StreamSender | None:
        """Acquire the step and start its sender. None: another invocation has it, or the model was asked too early."""
        lease_ends, now = time.monotonic() + LEASE_MS / 1000, self._engine.clock()
        self.lease = lease = Lease(
            token=steps.token(self._invocation.id, self._engine.ids()),
            ends_at=now + LEASE_MS,
            message_id="msg_" + self._engine.ids(),
            alive_until=now + self._invocation.remaining_ms() + LEASE_MARGIN_MS,
        )
        register, step = self.register, self._step

        def decide(draft: Draft) -> Transition | None:
            same_prompt = steps.same_prompt(draft.register, register)
            return steps.acquire(draft, step, lease) if same_prompt or steps.owns(draft.register, lease) else None

        transition = self._engine.decide(
            register.user, register.session_id, decide, register=register, items=self._conversation.items
        )
        return None if transition is None else self._start_sender(transition, lease_ends)

    def _decide(self, sender: StreamSender, decide: Callable[[Draft], Transition | None]) -> Transition | None:
        """Commit a decision of the step's owner, from the register as its sender has last read it."""
        register = sender.register
        return self._engine.decide(register.user, register.session_id, decide, register=register)

    def _start_sender(self, transition: Transition, lease_ends: float) -> StreamSender:
        sender = StreamSender(
            self._engine.store,
            self._invocation.fan_out,
            transition,
            max_delay_s=self._engine.settings.stream_max_delay_ms / 1000,
            retention_s=self._engine.settings.event_retention_s,
            clock=self._engine.clock,
            lease_ends=lease_ends,
            on_lost=self.cancellation.cancel,
        )
        sender.start(self._threads)
        return sender
