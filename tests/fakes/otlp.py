"""A collector of OTLP over HTTP, which checks what it gets against OTLP's JSON."""

import re
from dataclasses import dataclass
from typing import Any

from tests.fakes.http import Exchange, HttpServer

PATH = "/v1/traces"

_VALUES: dict[str, type] = {"stringValue": str, "boolValue": bool, "intValue": str, "arrayValue": dict}
_SPAN_FIELDS = {
    *("traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes"),
    "status",
}


@dataclass(frozen=True)
class Received:
    """A span as the collector has got it. Times are nanoseconds."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    start: int
    end: int
    attributes: dict[str, Any]
    is_error: bool


class Collector(HttpServer):
    """Takes spans; `text` is all that it has got. Another `answer` than the usual one may be scripted."""

    def __init__(self) -> None:
        super().__init__(lambda exchange: exchange.json({}))

    @property
    def endpoint(self) -> str:
        return self.url + PATH

    @property
    def text(self) -> str:
        return "".join(exchange.content.decode() for exchange in self.received)

    @property
    def spans(self) -> list[Received]:
        return [span for exchange in self.received for span in spans_of(exchange)]


def spans_of(exchange: Exchange) -> list[Received]:
    """The spans of a request, checked."""
    assert (exchange.method, exchange.path) == ("POST", PATH)
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.body.keys() == {"resourceSpans"}
    spans = []
    for resource_spans in exchange.body["resourceSpans"]:
        assert resource_spans.keys() == {"resource", "scopeSpans"}
        resource = attributes_of(resource_spans["resource"]["attributes"])
        assert resource["service.name"] == "codelab"
        for scope_spans in resource_spans["scopeSpans"]:
            assert scope_spans["scope"]["name"] == "codelab"
            spans += [_span(span) for span in scope_spans["spans"]]
    assert spans, "nobody sends nothing"
    return spans


def _span(span: dict[str, Any]) -> Received:
    assert span.keys() <= _SPAN_FIELDS
    assert re.fullmatch(r"[0-9a-f]{32}", span["traceId"])
    assert set(span["traceId"]) != {"0"}
    assert re.fullmatch(r"[0-9a-f]{16}", span["spanId"])
    parent = span.get("parentSpanId", "")
    assert re.fullmatch(r"[0-9a-f]{16}|", parent)
    assert type(span["kind"]) is int
    assert 1 <= span["kind"] <= 5
    times = [span["startTimeUnixNano"], span["endTimeUnixNano"]]
    assert all(re.fullmatch(r"[0-9]{19}", time) for time in times), "64-bit numbers are text in OTLP's JSON"
    start, end = map(int, times)
    assert start <= end
    assert span["status"] in ({}, {"code": 2})
    ids = (span["traceId"], span["spanId"], parent)
    attributes, is_error = attributes_of(span["attributes"]), span["status"] != {}
    return Received(*ids, span["name"], span["kind"], start, end, attributes, is_error)


def attributes_of(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    assert all(pair.keys() == {"key", "value"} for pair in pairs)
    keys = [pair["key"] for pair in pairs]
    assert len(keys) == len(set(keys)), "keys are unique"
    return {pair["key"]: _value(pair["value"]) for pair in pairs}


def _value(value: dict[str, Any]) -> Any:
    [(kind, raw)] = value.items()
    content: Any = raw
    assert type(raw) is _VALUES[kind]
    if kind == "intValue":
        return int(content)
    return [_value(part) for part in content["values"]] if kind == "arrayValue" else content
