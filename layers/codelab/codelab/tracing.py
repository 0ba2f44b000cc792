"""Spans of the model's calls, for AWS X-Ray, in the words of OpenTelemetry ("Semantic conventions for generative AI").

With the parameter `Tracing` Lambda traces invocations, and takes further spans over UDP, each one a "segment document"
(X-Ray Developer Guide). A span names what was asked and what it took, never what was said: no message, no answer, no
words of an error. Without `Tracing` nothing is sent. X-Ray's own SDK would be a quarter of a second of a cold start.
"""

import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from codelab import trace_id, turn_log
from codelab.llm.errors import Cancelled, InvalidRequest, ModelError, RequestError, TransportError
from codelab.llm.outcome import Usage

if TYPE_CHECKING:
    from codelab.sessions.register import Register

#: Profiles that have another name in the conventions.
_PROVIDERS = {
    "anthropic-messages": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "bedrock-converse": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "ollama-chat": "ollama",
    "openai-responses": "openai",
}
#: What a name of X-Ray may have besides letters and digits, and its most characters.
_IN_NAMES, _NAME_CHARS = frozenset(" _.:/%&#=+\\-@"), 200
_HEADER = b'{"format": "json", "version": 1}\n'


class Span:
    """A call of the model. `attributes` are the conventions'; `flags` say how it ended, as X-Ray puts it."""

    def __init__(self, model: str, provider: str, session: str) -> None:
        self.attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model,
            "gen_ai.output.type": "json",
        }
        if session:
            self.attributes["gen_ai.conversation.id"] = session
        self.flags: dict[str, Any] = {}

    def answered(self, usage: Usage, finish_reason: str | None) -> None:
        """The model has answered."""
        self._used(usage)
        if finish_reason:
            self.attributes["gen_ai.response.finish_reasons"] = [finish_reason]

    def failed(self, error: BaseException) -> None:
        """The call has ended without an answer. A call that somebody has cancelled is no fault."""
        self.attributes["error.type"] = error.code if isinstance(error, RequestError) else type(error).__name__
        if isinstance(error, ModelError):
            self._used(error.usage)
        status = error.status if isinstance(error, TransportError) else None
        if status is not None:
            self.flags["http"] = {"response": {"status": status}}
        if status is not None and HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self.flags |= {"error": True, "throttle": status == HTTPStatus.TOO_MANY_REQUESTS}
        elif not isinstance(error, Cancelled):
            self.flags["fault"] = True

    def _used(self, usage: Usage) -> None:
        attributes = {"gen_ai.usage.input_tokens": usage.prompt, "gen_ai.usage.output_tokens": usage.completion}
        self.attributes |= {name: value for name, value in attributes.items() if value is not None}


@contextmanager
def model_call(model: str, provider: str, *, session: str = "", register: "Register | None" = None) -> Iterator[Span]:
    """Make a span of what is done meanwhile; also of its failure, unless nothing was asked (InvalidRequest).

    `register`: whose step asks, if one does.
    """
    span, start_time = Span(model, provider, session), time.time()
    try:
        yield span
    except InvalidRequest:
        raise
    except BaseException as error:
        span.failed(error)
        _end(span, start_time, register)
        raise
    _end(span, start_time, register)


def _end(span: Span, start_time: float, register: "Register | None") -> None:
    """Send the span to X-Ray, and add it to those of the turn: each if it is on."""
    _send(span, start_time, "" if register is None else register.turn_id)
    if (spans := turn_log.spans()) is not None:
        error = span.attributes.get("error.type", "") if {"error", "fault"} & span.flags.keys() else ""
        spans.add_model_call(register, int(start_time * 1e9), span.attributes, error)


def _send(span: Span, start_time: float, turn: str) -> None:
    """Send the span if this invocation is traced. It may be lost, because no answer is awaited."""
    trace = dict(part.partition("=")[::2] for part in trace_id.current().split(";"))
    host, _, port = os.environ.get("AWS_XRAY_DAEMON_ADDRESS", "").rpartition(":")
    if trace.get("Sampled") != "1" or not {"Root", "Parent"} <= trace.keys() or not port.isdecimal():
        return
    model = span.attributes["gen_ai.request.model"]
    annotations = {"model": model, "session": span.attributes.get("gen_ai.conversation.id"), "turn": turn}
    document = {
        "name": "".join(char if char.isalnum() or char in _IN_NAMES else "_" for char in f"chat {model}"[:_NAME_CHARS]),
        "id": secrets.token_hex(8),
        "trace_id": trace["Root"],
        "parent_id": trace["Parent"],
        "type": "subsegment",
        "namespace": "remote",
        "start_time": start_time,
        "end_time": time.time(),
        **span.flags,
        "annotations": {name: value for name, value in annotations.items() if value},
        "metadata": {"default": span.attributes},
    }
    with suppress(OSError, OverflowError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.setblocking(False)
        daemon.sendto(_HEADER + json.dumps(document).encode(), (host, int(port)))
