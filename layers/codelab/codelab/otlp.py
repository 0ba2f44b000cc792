"""Sends spans to a collector: OTLP over HTTP, as JSON ("OpenTelemetry Protocol Specification", section OTLP/HTTP).

The end of an event waits for the collector, but not long, and an event never fails because of it: spans that it does
not take are lost, and counted.
"""

import json
import os
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from http.client import HTTPException, RemoteDisconnected
from socket import socket
from typing import Any
from urllib.parse import quote, urlsplit

from codelab.http.pool import Pool
from codelab.http.responses import read_answer
from codelab.http.route import Route
from codelab.turn_spans import Span

#: Seconds that the end of an event waits for the collector.
PATIENCE_S = 0.5
#: Seconds in which a collector that has failed is not asked again.
PAUSE_S = 60.0
#: Seconds after which an idle connection is not used again.
_KEPT_S = 20.0
#: The most bytes of an answer, and of a piece of it.
_ANSWER_BYTES, _PIECE = 64 << 10, 16 << 10
#: The collector may take a part of the spans. It is searched, not parsed: whoever answers may be hostile.
_REJECTED = re.compile(rb'"rejectedSpans"\s*:\s*"?([0-9]{1,6})\b')
_ERROR = 2


class Collector:
    """The collector at a URL, to which spans of the functions of `service` are sent.

    clock: the wall clock in seconds; the monotonic one may stand still while Lambda freezes the process.
    """

    def __init__(self, url: str, service: str, *, clock: Callable[[], float] = time.time) -> None:
        self._url = url
        self._service = service
        self._clock = clock
        self._pool = Pool(_KEPT_S, clock)
        self._asked_again_at = 0.0

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        """Send the spans, at most for `PATIENCE_S`. Returns how many are lost, and why. Never raises.

        Another thread sends, because a name that is looked up cannot be given up otherwise. It ends by itself.
        """
        if self._clock() < self._asked_again_at:
            return len(spans), "paused"
        result = [(len(spans), "timeout")]
        sender = threading.Thread(target=self._post, args=(spans, result), name="otlp", daemon=True)
        with suppress(RuntimeError):  # there are too many threads
            sender.start()
            sender.join(PATIENCE_S)
        lost_count, reason = result[0]
        if lost_count and reason != "rejected":
            self._asked_again_at = self._clock() + PAUSE_S
        return lost_count, reason

    def _post(self, spans: Sequence[Span], result: list[tuple[int, str]]) -> None:
        """Replace the result by what has become of the spans."""
        try:
            status, answer = self._exchanged(json.dumps(document(spans, self._service)).encode())
        except Exception as error:  # nothing that a collector does may reach the turn
            result[0] = (len(spans), type(error).__name__)
            return
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            result[0] = (len(spans), f"status {status}")
            return
        rejected = _REJECTED.search(answer)
        result[0] = (min(len(spans), int(rejected[1])) if rejected else 0, "rejected" if rejected else "")

    def _exchanged(self, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer. Asks again on a new connection if a kept one was closed meanwhile."""
        ends_at = time.monotonic() + PATIENCE_S
        parts, route = urlsplit(self._url), Route(self._url)
        target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=") + (f"?{parts.query}" if parts.query else "")
        lines = [
            f"POST {target} HTTP/1.1",
            f"Host: {route.authority}",
            "User-Agent: codelab",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        request = "\r\n".join([*lines, "", ""]).encode("ascii") + body
        kept = self._pool.take()
        if kept is not None:
            try:
                return self._exchange(kept, request, ends_at)
            except (RemoteDisconnected, ConnectionError):
                pass
        trusted = _trusted() if route.is_secure else None
        return self._exchange(route.connect(_left(ends_at), trusted), request, ends_at)

    def _exchange(self, connection: socket, request: bytes, ends_at: float) -> tuple[int, bytes]:
        received = 0

        def receive() -> bytes:
            nonlocal received
            connection.settimeout(_left(ends_at))
            piece = connection.recv(_PIECE)
            received += len(piece)
            if received > _ANSWER_BYTES:
                raise HTTPException("the answer is too long")
            return piece

        try:
            connection.settimeout(_left(ends_at))
            connection.sendall(request)
            head, answer = read_answer(receive)
        except BaseException:
            connection.close()
            raise
        if head.keeps_alive:
            self._pool.keep(connection)
        else:
            connection.close()
        return head.status, answer


def document(spans: Iterable[Span], service: str) -> dict[str, Any]:
    """OTLP's `ExportTraceServiceRequest` as JSON: ids are hexadecimal, 64-bit numbers are text."""
    resource = {
        "service.name": service,
        "faas.name": os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
        "cloud.provider": "aws",
        "cloud.platform": "aws_lambda",
        "cloud.region": os.environ.get("AWS_REGION", ""),
    }
    scope_spans = [{"scope": {"name": "codelab"}, "spans": [_span(span) for span in spans]}]
    return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": scope_spans}]}


def _span(span: Span) -> dict[str, Any]:
    attributes = {**span.attributes, "error.type": span.error} if span.error else span.attributes
    return {
        "traceId": span.trace_id,
        "spanId": span.id,
        **({"parentSpanId": span.parent_id} if span.parent_id else {}),
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(attributes),
        "status": {"code": _ERROR} if span.error else {},
    }


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items() if value != ""]


def _value(value: Any) -> dict[str, Any]:
    """OTLP's `AnyValue`."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(part) for part in value]}}
    return {"stringValue": str(value)}


def _left(ends_at: float) -> float:
    return max(0.001, ends_at - time.monotonic())


@cache
def _trusted() -> ssl.SSLContext:
    """Whose certificates are accepted: the system's, or those of SSL_CERT_FILE and SSL_CERT_DIR."""
    context = ssl.create_default_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # companies' proxies do not pass it
    return context
