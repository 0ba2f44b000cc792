"""Takes the spans that functions send as OTLP over HTTP (JSON), and shows them as traces.

Functions are given the view as their collector. What they send may be wrong or hostile, so only what has the right form
is kept, all of it is bounded, and names stay text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_MOST_TRACES, _MOST_SPANS = 100, 300
_NAME_CHARS, _TEXT_CHARS = 200, 1_000
_TRACE_ID, _SPAN_ID = re.compile(r"[0-9a-fA-F]{32}"), re.compile(r"[0-9a-fA-F]{16}")
_TIME = re.compile(r"[0-9]{1,20}")
_NS = 1_000_000
_ERROR = 2


@dataclass(slots=True)
class _Span:
    """Times are nanoseconds. `text` is what may be searched for."""

    id: str
    parent: str
    name: str
    start: int
    end: int
    error: str
    text: str


@dataclass(slots=True)
class _Trace:
    spans: dict[str, _Span] = field(default_factory=dict)

    def has(self, match: str) -> bool:
        return any(match in span.text for span in self.spans.values())

    def in_order(self) -> Iterator[tuple[int, _Span]]:
        """Every span with its depth, below its parent, in the order of their starts."""
        children: dict[str, list[_Span]] = {}
        for span in sorted(self.spans.values(), key=lambda span: (span.start, span.name)):
            parent = span.parent if span.parent in self.spans else ""
            children.setdefault(parent, []).append(span)
        ahead = [(0, span) for span in reversed(children.get("", []))]
        while ahead:  # spans that are each other's parents are not reached
            depth, span = ahead.pop()
            yield depth, span
            ahead += [(depth + 1, child) for child in reversed(children.get(span.id, []))]


class Traces:
    """The newest traces. Used only in the event loop's thread."""

    def __init__(self) -> None:
        self._traces: dict[str, _Trace] = {}

    def add(self, document: Any) -> None:
        """Take an `ExportTraceServiceRequest`. A span that came before is replaced."""
        for trace_id, span in _spans(document):
            trace = self._traces.pop(trace_id, None) or _Trace()
            self._traces[trace_id] = trace  # behind the others: the newest
            if span.id in trace.spans or len(trace.spans) < _MOST_SPANS:
                trace.spans[span.id] = span
        while len(self._traces) > _MOST_TRACES:
            self._traces.pop(next(iter(self._traces)))

    def newest(self, match: str, most_spans: int) -> list[dict[str, Any]]:
        """The spans of the newest traces that have the text in a name or an attribute, trace by trace, as a tree.

        `start_ms` and `of_ms` are the span's start in its trace, and how long that lasts.
        """
        shown: list[dict[str, Any]] = []
        for trace_id, trace in reversed(self._traces.items()):
            if not trace.has(match):
                continue
            if len(shown) + len(trace.spans) > most_spans:
                break
            began = min(span.start for span in trace.spans.values())
            lasts = max(span.end for span in trace.spans.values()) - began
            shown += [
                {
                    "trace": trace_id,
                    "span": span.id,
                    "depth": depth,
                    "name": span.name,
                    "at": span.start // _NS,
                    "start_ms": round((span.start - began) / _NS, 1),
                    "duration_ms": round((span.end - span.start) / _NS, 1),
                    "of_ms": round(lasts / _NS, 1),
                    "error": span.error,
                }
                for depth, span in trace.in_order()
            ]
        return shown


def _spans(document: Any) -> Iterator[tuple[str, _Span]]:
    """The spans that have the right form, each with its trace's id."""
    for resource in _objects(document, "resourceSpans"):
        for scope in _objects(resource, "scopeSpans"):
            for raw in _objects(scope, "spans"):
                trace_id, span = raw.get("traceId"), _span(raw)
                if span is not None and isinstance(trace_id, str) and _TRACE_ID.fullmatch(trace_id):
                    yield trace_id.lower(), span


def _span(raw: dict[str, Any]) -> _Span | None:
    span_id, parent, name = raw.get("spanId"), raw.get("parentSpanId") or "", raw.get("name")
    start, end = _time(raw.get("startTimeUnixNano")), _time(raw.get("endTimeUnixNano"))
    if not isinstance(span_id, str) or not _SPAN_ID.fullmatch(span_id) or not isinstance(parent, str):
        return None
    if not isinstance(name, str) or start is None or end is None or end < start:
        return None
    attributes = dict(_texts(raw))
    status = raw.get("status")
    has_failed = isinstance(status, dict) and status.get("code") == _ERROR
    error = attributes.get("error.type", "error") if has_failed else ""
    text = " ".join([name, *attributes.values()])[:_TEXT_CHARS]
    return _Span(span_id.lower(), parent.lower(), name[:_NAME_CHARS], start, end, error[:_NAME_CHARS], text)


def _texts(raw: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The attributes whose values are texts."""
    for pair in _objects(raw, "attributes"):
        key, value = pair.get("key"), pair.get("value")
        if isinstance(key, str) and isinstance(value, dict) and isinstance(text := value.get("stringValue"), str):
            yield key, text


def _time(value: Any) -> int | None:
    """64-bit numbers are texts in OTLP's JSON, and may be numbers."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return int(text) if isinstance(text, str) and _TIME.fullmatch(text) else None


def _objects(parent: Any, name: str) -> list[dict[str, Any]]:
    values = parent.get(name) if isinstance(parent, dict) else None
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
