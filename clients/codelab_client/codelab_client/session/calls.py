"""Executes the calls of a session, each at most once, and sends each result until the server has settled the call."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from codelab_client import execution
from codelab_client.execution import Stream, ToolExecutor, ToolOutcome
from codelab_client.session import payloads
from codelab_client.session.events import DELEGATE, CallFinished, CallOutput, CallStarted, Error, Event, ToolCall
from codelab_client.session.gate import Gate
from codelab_client.session.journal import Claim, Journal
from codelab_client.tools.risks import risk_of

#: Seconds between two pieces of a command's output on the wire; the user of this client sees every piece at once.
_PIECE_S = 2.0
#: Characters of such a piece: the newest ones.
_PIECE_CHARS = 4_000
#: Seconds after which a result that the server has not acknowledged is checked.
_UNSURE_S = 10.0
#: Seconds between two looks at a call that another process executes.
_LOOK_S = 1.0
#: Tools whose output comes in pieces; a piece of another is empty, and says that the call is not forgotten.
_COMMANDS = ("run_command", "run_persistent")

_INTERRUPTED = (
    "The client stopped while it was executing this call. It may have had all, some or none of its effects, and it is "
    "not executed again: look at the workspace before you repeat it."
)

Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Calls:
    """The calls that this connection executes.

    send: sends a frame on the current connection, and drops it if there is none.
    show: shows an event to the user.
    fail: ends the session with an error.
    has_room: returns when the user's side has read what was shown.
    gate: decides whether a call may be executed; None: every call.
    """

    def __init__(
        self,
        executor: ToolExecutor,
        journal: Journal,
        send: Send,
        show: Callable[[Event], None],
        fail: Callable[[BaseException], None],
        has_room: Callable[[], Awaitable[None]],
        gate: Gate | None = None,
    ) -> None:
        self._executor, self._journal, self._gate = executor, journal, gate
        self._send, self._show, self._fail, self._has_room = send, show, fail, has_room
        self._running: dict[str, asyncio.Task[None]] = {}
        self._of_turns: set[str] = set()  # those of them that a turn has made
        self._executing: dict[str, int] = {}  # those that the executor has, with their seq
        self._sent_at: dict[str, float] = {}  # unsettled results of this process, by time (monotonic)
        self._unwanted_call_ids: set[str] = set()  # settled while the executor has them
        self.clock_skew_ms = 0  # how far this machine's clock is ahead of the server's

    def take(self, call: ToolCall) -> None:
        """Execute a call, or send its result again if it was executed before. Must be called in an event loop."""
        if self._gate is not None:
            self._gate.came(call.call_id)
        if call.call_id not in self._running:
            task = asyncio.ensure_future(self._handle(call))
            self._running[call.call_id] = task
            if call.turn_id is not None:
                self._of_turns.add(call.call_id)
            task.add_done_callback(lambda finished_task: self._ended(call.call_id, finished_task))

    async def reconcile(self, last_seq: int, open_calls: Mapping[str, str]) -> None:
        """Compare with the server's open calls, which are all those up to `last_seq`: states by `call_id`.

        Results that the server does not have are sent again.
        """
        if self._gate is not None:
            self._gate.reconcile(last_seq, open_calls)
        for entry in self._journal.unsettled():
            state = open_calls.get(entry.call_id)
            if state is None and entry.seq <= last_seq:
                await self.settled(entry.call_id)
            elif state != "executing" or entry.call_id in self._executing:
                continue
            elif entry.outcome is not None:
                await self._deliver(entry.call_id, entry.outcome)
            elif self._journal.is_interrupted(entry.call_id):
                await self._interrupted(entry.call_id)

    async def settled(self, call_id: str) -> None:
        """The server has settled a call: stop it if it runs."""
        if self._gate is not None:
            self._gate.close(call_id)
        if call_id in self._executing:
            self._unwanted_call_ids.add(call_id)
            await self._executor.cancel(call_id)
        else:
            self._settle(call_id)

    async def refused(self, error: Error) -> None:
        """The server refused a frame about a call."""
        call_id = error.call_id
        if call_id is None or not (call_id in self._sent_at or call_id in self._executing):
            return
        if error.error_code == "INVALID_CALL_ID":
            await self.settled(call_id)
        elif call_id in self._sent_at and not error.retryable and error.details.get("field") != "payload_ref":
            # The result itself is not acceptable: let the model know instead of waiting for the deadline.
            self._settle(call_id)
            await self._send(_result(call_id, _failed("EXECUTION_FAILED", f"The result was refused: {error.message}")))

    @property
    def is_idle(self) -> bool:
        """Whether no call of a turn is being executed, here or in another process of this machine that has it."""
        return not self._of_turns

    def must_check(self) -> bool:
        """Whether results were sent so long ago that the server must be asked for its open calls; true once in 10 s."""
        now = time.monotonic()
        if not any(now - at > _UNSURE_S for at in self._sent_at.values()):
            return False
        self._sent_at = dict.fromkeys(self._sent_at, now)
        return True

    async def aclose(self) -> None:
        """Stop running calls, record and send their outcomes."""
        if self._gate is not None:
            self._gate.close_all()
        for call_id in list(self._executing):
            await self._executor.cancel(call_id)
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=5)
        for task in list(self._running.values()):
            task.cancel()

    def _ended(self, call_id: str, task: asyncio.Task[None]) -> None:
        del self._running[call_id]
        self._of_turns.discard(call_id)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _handle(self, call: ToolCall) -> None:
        refusal = None
        is_new = self._journal.entry(call.call_id) is None
        if self._gate is not None and is_new and self._is_supported(call):
            if (passage := await self._gate.passage(call)) is None:
                return
            call, refusal = passage.call, passage.refusal
        claim = self._journal.begin(call.call_id, call.tool_name, call.seq or 0)
        while claim is Claim.RUNNING:  # another process of this machine has it
            await asyncio.sleep(_LOOK_S)
            claim = self._journal.begin(call.call_id, call.tool_name, call.seq or 0)
        if claim is Claim.NEW:
            if (outcome := await self._execute(call, refusal)) is not None:
                await self._deliver(call.call_id, outcome)
        elif claim is Claim.INTERRUPTED:
            await self._interrupted(call.call_id)
        elif (entry := self._journal.entry(call.call_id)) is not None and entry.outcome is not None:
            await self._deliver(call.call_id, entry.outcome)

    async def _execute(self, call: ToolCall, refusal: ToolOutcome | None) -> dict[str, Any] | None:
        """Execute a call for the first and only time. refusal: its outcome instead, because it must not be executed.

        Returns the outcome that the journal has; None if the server has settled the call and would refuse it.
        """
        self._executing[call.call_id] = call.seq or 0
        if refusal is None:
            self._show(CallStarted(call_id=call.call_id, tool_name=call.tool_name, arguments=call.arguments or {}))
        try:
            outcome = refusal or await self._outcome(call)
            fields = self._journal.finish(call.call_id, _checked(outcome.fields()))
        finally:
            self._executing.pop(call.call_id, None)
        self._show(CallFinished(call_id=call.call_id, tool_name=call.tool_name, outcome=outcome))
        if call.call_id in self._unwanted_call_ids:
            self._unwanted_call_ids.discard(call.call_id)
            self._settle(call.call_id)
            return None
        return fields

    async def _outcome(self, call: ToolCall) -> ToolOutcome:
        if call.arguments is None:
            return ToolOutcome.failed("EXECUTION_FAILED", "The client could not fetch the call's arguments")
        if not self._is_supported(call):
            return ToolOutcome.failed("TOOL_NOT_FOUND", f"This client does not execute {call.tool_name}")
        # As it was compared with what the user approved: null is the same as nothing there.
        arguments = {name: value for name, value in call.arguments.items() if value is not None}
        executor_call = execution.ToolCall.from_frame(call.frame, arguments)
        own = self._executor.declared_tools if isinstance(self._executor, execution.DeclaresTools) else ()
        executor_call = replace(executor_call, risk=risk_of(call.tool_name, call.arguments, own))
        if executor_call.deadline is not None:
            executor_call = replace(executor_call, deadline=executor_call.deadline + self.clock_skew_ms)
        pieces = _Pieces(call.call_id, self._send)

        async def on_output(stream: Stream, text: str) -> None:
            self._show(CallOutput(call_id=call.call_id, stream=stream, text=text))
            pieces.add(stream, text if call.tool_name in _COMMANDS else "")
            await self._has_room()

        beating = asyncio.ensure_future(pieces.run())
        try:
            return await self._executor.execute(executor_call, on_output)
        except Exception as error:
            return ToolOutcome.failed("EXECUTION_FAILED", f"The client failed: {type(error).__name__}: {error}")
        finally:
            beating.cancel()

    def _is_supported(self, call: ToolCall) -> bool:
        return call.tool_name != DELEGATE and call.tool_name in self._executor.tools_supported

    async def _interrupted(self, call_id: str) -> None:
        outcome = self._journal.finish(call_id, _failed("EXECUTION_FAILED", _INTERRUPTED))
        await self._deliver(call_id, outcome)

    async def _deliver(self, call_id: str, outcome: Mapping[str, Any]) -> None:
        self._sent_at[call_id] = time.monotonic()
        await self._send(_result(call_id, outcome))

    def _settle(self, call_id: str) -> None:
        self._sent_at.pop(call_id, None)
        self._journal.settle(call_id)


class _Pieces:
    """Sends a running command's output in pieces, each of which restarts the call's deadline, as an empty one does."""

    def __init__(self, call_id: str, send: Send) -> None:
        self._call_id, self._send = call_id, send
        self._texts: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._totals: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self._has_new_text = asyncio.Event()

    def add(self, stream: Stream, text: str) -> None:
        self._totals[stream] += len(text)
        self._texts[stream] = (self._texts[stream] + text)[-_PIECE_CHARS:]
        self._has_new_text.set()

    async def run(self) -> None:
        """Send pieces until it is cancelled."""
        while True:
            await asyncio.sleep(_PIECE_S)
            await self._has_new_text.wait()
            self._has_new_text.clear()
            offsets = {stream: self._totals[stream] - len(text) for stream, text in self._texts.items()}
            piece: dict[str, Any] = {
                "stdout": self._texts["stdout"],
                "stderr": self._texts["stderr"],
                "exit_code": None,
            }
            self._texts = {"stdout": "", "stderr": ""}
            begins = {"offset": sum(offsets.values()), "offsets": offsets}
            await self._send({**_result(self._call_id, {"result": piece}), **begins, "partial": True})


def _result(call_id: str, outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_result", "call_id": call_id, **outcome}


def _failed(code: str, message: str) -> dict[str, Any]:
    return ToolOutcome.failed(code, message).fields()


def _checked(outcome: dict[str, Any]) -> dict[str, Any]:
    """The outcome, or an error in its place if it is not JSON or too large."""
    try:
        size = len(json.dumps(outcome, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except (TypeError, ValueError, RecursionError):
        return _failed("EXECUTION_FAILED", "The tool's result is not JSON")
    if size > payloads.MOST_BYTES - 1_000:
        return _failed("PAYLOAD_TOO_LARGE", f"The result has {size:,} bytes; {payloads.MOST_BYTES:,} is the most")
    return outcome


def states(open_calls: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The states of the open calls of a `resumed` frame by `call_id`."""
    return {str(call.get("call_id")): str(call.get("state")) for call in open_calls}
