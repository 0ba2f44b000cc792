"""The calls of a session that have no outcome yet: shown once, decided about, and executed when it is safe."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from codelab_client.session import payloads
from codelab_client.session.calls import Calls, states
from codelab_client.session.events import Error, Event, Ignored, MalformedFrame, Resumed, ToolCall, event_of
from codelab_client.session.link import Phase
from codelab_client.session.payload_hosts import PayloadHosts


class OpenCalls:
    """The session's open calls.

    calls: executes them; None for a viewer. send: sends a frame, and drops it if there is no connection.
    show: shows an event to the user. start: runs a coroutine beside the others. phase: of the connection.
    secure: whether arguments must be fetched over TLS. pause_s: the unit of the pauses between two fetches.
    decision_refused: called with a call whose decision the server did not take.
    """

    def __init__(
        self,
        calls: Calls | None,
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
        show: Callable[[Event], None],
        start: Callable[[Coroutine[Any, Any, Any]], object],
        phase: Callable[[], Phase],
        *,
        hosts: PayloadHosts,
        pause_s: float,
        decision_refused: Callable[[str], None],
    ) -> None:
        self._decision_refused = decision_refused
        self._calls, self._send, self._show, self._start, self._phase = calls, send, show, start, phase
        self._hosts, self._pause_s = hosts, pause_s
        self._open: dict[str, ToolCall] = {}
        self._decisions: dict[str, Mapping[str, Any]] = {}  # frames that the server may not have
        self._held_calls: dict[str, ToolCall] = {}  # calls that came before it was known which are open
        self._pending: dict[str, ToolCall] = {}  # those that `session_info` says to wait for a decision

    @property
    def known(self) -> dict[str, ToolCall]:
        """The calls that are known to be open, by `call_id`."""
        return dict(self._open)

    def take(self, call: ToolCall) -> None:
        """Show and execute a call, once each. A repeated frame may make this connection the executor."""
        previous = self._open.get(call.call_id)
        is_new = previous is None or previous.requires_approval != call.requires_approval
        if not call.requires_approval:
            self._decisions.pop(call.call_id, None)
        elif previous is not None and not previous.requires_approval:
            return  # a repeat that comes late
        if previous is not None and not is_new:
            call = _with_known_arguments(call, previous)
            is_new = call.requires_approval and _differ(call, previous)  # then it is another question
        self._open[call.call_id] = call
        if call.arguments is None and call.payload_url:
            self._start(self._fetch(call, is_new))
        else:
            self._see(call, is_new)

    def take_pending(self, pending: Sequence[Mapping[str, Any]]) -> None:
        """Remember the calls of `session_info` that wait for a decision: a log that is too short does not have them."""
        self._pending.clear()
        for call in pending:
            if call.get("state") != "awaiting_approval" or not (call.get("arguments") or call.get("payload_url")):
                continue
            frame = {name: value for name, value in call.items() if name != "state"}
            with contextlib.suppress(MalformedFrame):
                event = event_of({**frame, "type": "tool_call", "requires_approval": True})
                if isinstance(event, ToolCall):
                    self._pending[event.call_id] = event

    async def decide(self, frame: Mapping[str, Any]) -> None:
        """Send a decision until the server has it."""
        self._decisions[frame["call_id"]] = frame
        await self._send(frame)

    def settled(self, call_id: str) -> None:
        """The server has settled a call."""
        self._open.pop(call_id, None)
        self._decisions.pop(call_id, None)
        if self._calls is not None:
            self._start(self._calls.settled(call_id))

    def refused(self, error: Error) -> None:
        """The server refused a frame about a call."""
        decision = self._decisions.pop(error.call_id or "", None)
        if decision is not None:
            self._decision_refused(decision["call_id"])
        if self._calls is not None:
            self._start(self._calls.refused(error))

    def turn_ended(self, turn_id: str) -> None:
        """A turn ended, and its calls with it."""
        self._open = {call_id: call for call_id, call in self._open.items() if call.turn_id != turn_id}

    def connected(self) -> None:
        """A new connection is open: what the last one held comes again."""
        self._held_calls.clear()

    def resumed(self, event: Resumed) -> None:
        """Everything missed has been replayed: execute what is still open, and forget what is not."""
        open_calls = states(event.open_calls)
        for call in self._held_calls.values():
            is_open = open_calls.get(call.call_id) == "executing" or (call.seq or 0) > event.last_seq
            if is_open and self._calls is not None:
                self._calls.take(call)
        self._held_calls.clear()
        for call_id, call in self._pending.items():
            if call_id not in self._open and open_calls.get(call_id) == "awaiting_approval":
                self.take(call)
        self._pending.clear()
        for call_id, call in list(self._open.items()):
            if call_id not in open_calls and (call.seq or 0) <= event.last_seq:
                del self._open[call_id]

    async def catch_up(self, event: Resumed) -> None:
        """Repeat the results and decisions that may have been lost with the connection before."""
        open_calls = states(event.open_calls)
        if self._calls is not None:
            await self._calls.reconcile(event.last_seq, open_calls)
        for call_id, decision in list(self._decisions.items()):
            if open_calls.get(call_id) == "awaiting_approval":
                await self._send(decision)
            elif call_id not in open_calls:
                self._decisions.pop(call_id, None)

    def clear(self) -> None:
        """Which calls are open is not known any more."""
        self._open.clear()

    async def _fetch(self, call: ToolCall, is_new: bool) -> None:
        """Fetch a call's arguments; after three failures, they stay None."""
        for wait in (self._pause_s, 4 * self._pause_s, None):
            try:
                payload = await payloads.fetch(call.payload_url or "", call.payload_bytes, self._hosts)
                if not isinstance(payload, dict):
                    raise payloads.TransferError("the arguments are not an object")
                call = replace(call, arguments=payload, frame={**call.frame, "arguments": payload})
                break
            except payloads.TransferError as error:
                if wait is None:
                    self._show(Ignored(why=f"The arguments of {call.tool_name} could not be fetched: {error}"))
                else:
                    await asyncio.sleep(wait)
        self._open[call.call_id] = call
        self._see(call, is_new)

    def _see(self, call: ToolCall, is_new: bool) -> None:
        if is_new:
            self._show(call)
        if call.requires_approval or not call.execute or self._calls is None:
            return
        phase = self._phase()
        if phase is Phase.ONLINE:
            self._calls.take(call)
        elif phase is Phase.RESUMING:
            self._held_calls[call.call_id] = call


def _with_known_arguments(call: ToolCall, previous: ToolCall) -> ToolCall:
    """A repeated call, whose arguments need not be fetched again."""
    if call.arguments is not None or previous.arguments is None:
        return call
    return replace(call, arguments=previous.arguments, frame={**call.frame, "arguments": previous.arguments})


def _differ(call: ToolCall, previous: ToolCall) -> bool:
    return (call.tool_name, call.arguments) != (previous.tool_name, previous.arguments)
