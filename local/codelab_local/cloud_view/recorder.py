"""Remembers the newest invocations and log lines, and the faults to inject."""

import itertools
import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codelab_local.functions.pool import Result
from codelab_local.http.protocol import loads
from codelab_local.template.deployment import Function

#: Of each function, because the scheduled ones would push out the others.
_INVOCATIONS = 200
_LINES = 5_000
_LINE_CHARS = 4_000
_EVENT_BYTES = 16_384
_TEXT_CHARS = 400


@dataclass(slots=True)
class Faults:
    """What disturbs a function, in seconds. `kill_after` holds for one invocation, `delay` until it is set to 0."""

    delay: float = 0.0
    kill_after: float | None = None


class Recorder:
    """Everything is in memory and bounded. Used only in the event loop's thread."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._invocations: dict[str, deque[InvocationTrace]] = {}
        self._lines: deque[tuple[int, int, str, str]] = deque(maxlen=_LINES)
        self.faults: dict[str, Faults] = {}

    def trace(self, request_id: str, function: Function, payload: bytes) -> "InvocationTrace":
        """Remember a new invocation."""
        name = function.source.name
        faults = self.faults.setdefault(name, Faults())
        trace = InvocationTrace(next(self._numbers), request_id, name, payload, faults)
        self._invocations.setdefault(name, deque(maxlen=_INVOCATIONS)).append(trace)
        return trace

    def line(self, function: str, text: str) -> None:
        """Remember a line of the log."""
        self._lines.append((next(self._numbers), _now(), function, text[:_LINE_CHARS]))

    def invocations(self, match: str, limit: int) -> list[dict[str, Any]]:
        """The newest whose events or answers contain the text, newest first."""
        needle = match.encode()
        matches = (trace for traces in self._invocations.values() for trace in traces if trace.has(needle))
        newest = sorted(matches, key=lambda trace: trace.number, reverse=True)
        return [trace.describe() for trace in newest[:limit]]

    def lines(self, match: str, limit: int) -> list[dict[str, Any]]:
        """The newest that contain the text, newest first."""
        matches = ({"n": n, "at": at, "function": name, "text": text} for n, at, name, text in self._matching(match))
        return list(itertools.islice(matches, limit))

    def _matching(self, match: str) -> Iterator[tuple[int, int, str, str]]:
        return (line for line in reversed(self._lines) if match in line[3])


class InvocationTrace:
    """One attempt of an invocation; `codelab_local.functions.pool.Trace`."""

    def __init__(self, number: int, request_id: str, function: str, payload: bytes, faults: Faults) -> None:
        self.number = number
        self.delay = faults.delay
        self._faults = faults
        self._request_id = request_id
        self._function = function
        self._event = payload[:_EVENT_BYTES]
        self._kind, self._text = _about(payload)
        self._accepted_at = time.monotonic()
        self._at = _now()
        self._began_at: float | None = None
        self._ended_at: float | None = None
        self._cold: bool | None = None
        self._error: str | None = None

    def began(self, *, cold: bool) -> float | None:
        self._began_at, self._cold = time.monotonic(), cold
        kill_after, self._faults.kill_after = self._faults.kill_after, None
        return kill_after

    def ended(self, result: Result) -> None:
        self._ended_at = time.monotonic()
        if result.error is not None:
            answer = loads(result.payload)
            error = answer if isinstance(answer, dict) else {}
            self._error = f"{error.get('errorType', result.error)}: {error.get('errorMessage', '')}"[:_TEXT_CHARS]

    def has(self, needle: bytes) -> bool:
        return needle in self._event

    def describe(self) -> dict[str, Any]:
        now = time.monotonic()
        start = self._began_at
        return {
            "n": self.number,
            "request_id": self._request_id,
            "function": self._function,
            "kind": self._kind,
            "text": self._text,
            "at": self._at,
            "waited_ms": _ms((start if start is not None else self._ended_at or now) - self._accepted_at),
            "duration_ms": None if start is None else _ms((self._ended_at or now) - start),
            "cold": self._cold,
            "state": "failed"
            if self._error is not None
            else "done"
            if self._ended_at
            else "running"
            if start
            else "waiting",
            "error": self._error,
        }


def _about(payload: bytes) -> tuple[str, str]:
    """What kind of event it is, and a short text. Without headers and queries, which may have tokens."""
    event = loads(payload)
    if not isinstance(event, dict):
        return "event", ""
    context = event.get("requestContext")
    context = context if isinstance(context, dict) else {}
    http = context.get("http")
    if event.get("type") == "REQUEST":
        return "authorizer", str(context.get("connectionId") or event.get("rawPath") or "")
    if isinstance(http, dict):
        return "http", f"{http.get('method')} {http.get('path')}"
    if "routeKey" in context:
        return "websocket", f"{context['routeKey']} {context.get('connectionId')}"
    if str(event.get("source", "")).startswith("aws."):
        return "schedule", str(event.get("detail-type", ""))
    return "event", json.dumps(event, ensure_ascii=False)[:_TEXT_CHARS]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _now() -> int:
    return int(time.time() * 1000)
