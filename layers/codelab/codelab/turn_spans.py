"""The spans of turns, in the words of OpenTelemetry ("Semantic conventions for generative AI"): one trace a turn.

    invoke_agent coder            the turn, from its message to its end
    ├─ user_message               the function that took the message
    ├─ step 1                     from its dispatch to its commit
    │  ├─ chat gpt-4.1-mini       a Request to the model
    │  └─ execute_tool read_file  a call, from when it is open until it is settled
    │     ├─ approval             the wait for a human
    │     ├─ hitl_decision        the functions that took the decision and the result
    │     └─ tool_result
    └─ step 2 …

Nothing is stored for it. Ids of traces and spans are derived from those of the session, the turn, the step and the
call, and the rest from what a transaction has written; so all functions name the same spans, and one that is made twice
has the same id. A span of a process that died is missing, and those below it name a parent that is not there.

A span tells what was done and how long it took, never what was said: no message, argument, result or error's words.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from codelab.sessions.items import CallItem
from codelab.sessions.register import CallState, Phase, Register
from codelab.sessions.transition import Transition

#: The characters of a tool's name that a span has: the model may have invented the name.
_NAME_CHARS = 64
#: The most spans that wait to be sent.
MOST_SPANS = 500
_NS = 1_000_000


class Kind(IntEnum):
    """OTLP's `SpanKind`."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


@dataclass(slots=True)
class Span:
    """Times are nanoseconds since the epoch. `error` is the conventions' `error.type`; empty if nothing has failed."""

    trace_id: str
    id: str
    parent_id: str
    name: str
    kind: Kind
    start: int
    end: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


def trace_id(register: Register) -> str:
    """The id of the turn's trace, of 32 hexadecimal digits.

    It begins with the time of the turn's message in seconds, as AWS X-Ray wants it: there it is 1-{8 digits}-{24}.
    """
    return f"{register.last_activity // 1000 & 0xFFFFFFFF:08x}{_digest(register.pk, register.turn_id)[:24]}"


def root_id(register: Register) -> str:
    """The id of the turn's span."""
    return _digest(register.pk, register.turn_id, "turn")[:16]


def step_id(register: Register) -> str:
    """The id of the span of the register's step; before it is acquired, that of the attempt that will acquire it."""
    attempt = register.attempt + (register.phase is Phase.DISPATCHED)
    return _digest(register.pk, register.turn_id, f"step {register.step} {attempt}")[:16]


def call_id(register: Register, call: str) -> str:
    """The id of a call's span."""
    return _digest(register.pk, register.turn_id, f"call {call}")[:16]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_sampled(trace: str, ratio: float) -> bool:
    """Whether a trace is in the sample of `ratio` (0 to 1): by its last 56 bits, so that all functions agree."""
    return int(trace[-14:], 16) < ratio * (1 << 56)


class TurnSpans:
    """The spans of this process that are not sent yet. Used by several threads.

    ratio: the share of turns that are traced. clock: nanoseconds since the epoch.
    """

    def __init__(self, ratio: float, clock: Callable[[], int] = time.time_ns) -> None:
        self._ratio = ratio
        self._clock = clock
        self._spans: list[Span] = []
        #: Spans that there was no room for.
        self._dropped = 0

    def take(self) -> tuple[list[Span], int]:
        """The spans to send, and how many there was no room for. The next call returns those that were added since."""
        spans, self._spans = self._spans, []
        dropped, self._dropped = self._dropped, 0
        return spans, dropped

    def add_event(self, name: str, register: Register, start: int, call: str = "") -> None:
        """Add the function that has handled an event of the register's turn since `start`. `call`: the event's call."""
        if register.phase is Phase.IDLE:
            return
        parent = call_id(register, call) if call else root_id(register)
        self._add(register, secrets.token_hex(8), parent, name, Kind.SERVER, start)

    def add_model_call(self, register: Register | None, start: int, attributes: Mapping[str, Any], error: str) -> None:
        """Add a Request to the model that has ended: of the register's step, or without one a trace of its own."""
        name = f"chat {attributes['gen_ai.request.model']}"
        if register is None:
            trace = f"{start // 1_000_000_000 & 0xFFFFFFFF:08x}{secrets.token_hex(12)}"
            span = Span(trace, secrets.token_hex(8), "", name, Kind.CLIENT, start, self._clock(), attributes, error)
            self._keep(span)
            return
        parent = step_id(register)
        self._add(register, secrets.token_hex(8), parent, name, Kind.CLIENT, start, attributes, error)

    def add_transition(self, transition: Transition) -> None:
        """Add the step, the calls and the turn that a committed transition has ended."""
        before, after = transition.before, transition.after
        if before is None or before.phase is Phase.IDLE:
            return
        if before.phase is Phase.RUNNING and after.phase is not Phase.RUNNING:
            self._add_step(before, after)
        for call in _settled(transition):
            self._add_call(before, call)
        end = transition.turn_end
        if end is not None:
            frames = [event.frame for event in transition.events]
            codes = [frame.get("error_code", "") for frame in frames if frame["type"] == "error"]
            self._add_turn(before, end, codes[-1] if codes else "")

    def _add_step(self, before: Register, after: Register) -> None:
        next_step = (after.turn_id, after.step) if after.phase is Phase.DISPATCHED else None
        error = "interrupted" if next_step == (before.turn_id, before.step) else ""
        attributes = {"codelab.step": before.step, "codelab.attempt": before.attempt}
        name, start = f"step {before.step}", before.invoked_at * _NS
        self._add(before, step_id(before), root_id(before), name, Kind.INTERNAL, start, attributes, error)

    def _add_call(self, before: Register, call: CallItem) -> None:
        tool = call.tool[:_NAME_CHARS]
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.call_id,
            "codelab.call.state": str(call.state),
        }
        span, start, end = call_id(before, call.call_id), call.at * _NS, call.settled_at * _NS
        name, error = f"execute_tool {tool}", _error_of(call)
        self._add(before, span, step_id(before), name, Kind.INTERNAL, start, attributes, error, end=end)
        if call.requires_approval:
            decision = str(call.decision.get("reason") or call.decision.get("decision") or call.state)
            approval, attributes = _digest(span, "approval")[:16], {"codelab.decision": decision[:_NAME_CHARS]}
            end = call.decided_at * _NS
            self._add(before, approval, span, "approval", Kind.INTERNAL, start, attributes, end=end)

    def _add_turn(self, before: Register, end: Mapping[str, Any], error: str) -> None:
        usage = end.get("usage") or {}
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": before.agent,
            "gen_ai.conversation.id": before.pk,
            "gen_ai.usage.input_tokens": usage.get("prompt_tokens", 0),
            "gen_ai.usage.output_tokens": usage.get("completion_tokens", 0),
            "codelab.turn.id": before.turn_id,
            "codelab.turn.steps": before.step,
            "codelab.turn.end": end["reason"],
        }
        error = error or "error" if end["reason"] == "error" else ""
        name, start = f"invoke_agent {before.agent}", before.last_activity * _NS
        self._add(before, root_id(before), "", name, Kind.INTERNAL, start, attributes, error)

    def _add(
        self,
        register: Register,
        span_id: str,
        parent_id: str,
        name: str,
        kind: Kind,
        start: int,
        attributes: Mapping[str, Any] | None = None,
        error: str = "",
        *,
        end: int | None = None,
    ) -> None:
        """Add a span of the register's turn, which ends now by default, if the turn is in the sample."""
        trace = trace_id(register)
        if not is_sampled(trace, self._ratio):
            return
        end = self._clock() if end is None else end
        self._keep(Span(trace, span_id, parent_id, name, kind, start, max(start, end), attributes or {}, error))

    def _keep(self, span: Span) -> None:
        if not is_sampled(span.trace_id, self._ratio):
            return
        if len(self._spans) < MOST_SPANS:
            self._spans.append(span)
        else:
            self._dropped += 1


def _settled(transition: Transition) -> Iterator[CallItem]:
    """The calls of the turn that the transition has settled, also those that it has made."""
    before = transition.before
    assert before is not None
    for item in transition.puts:
        if isinstance(item, CallItem) and item.settled_at and item.turn_id == before.turn_id:
            earlier = before.calls.get(item.call_id)
            if earlier is None or earlier.state.is_open:
                yield item


def _error_of(call: CallItem) -> str:
    """The conventions' `error.type` of a call: its error's code, one of the protocol's."""
    if call.state != CallState.FAILED:
        return ""
    outcome = call.outcome if isinstance(call.outcome, dict) else {}
    error = outcome.get("error")
    return str(error.get("code", "error")) if isinstance(error, dict) else "error"
