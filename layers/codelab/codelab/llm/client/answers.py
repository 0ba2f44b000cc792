"""Reads what a provider sends: JSON, server-sent events, and errors in all their places."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from codelab.llm.errors import ContentFilter, ModelError, TransportError
from codelab.llm.failures import FailureKind, kind_of, status_of
from codelab.llm.scanner import finite

# Timeout, conflict, a failed model (Bedrock's 424), too early and rate limit. All errors from 500 are retryable too.
RETRYABLE_STATUS = frozenset({408, 409, 424, 425, 429})
# Groq's codes for a 400 that the model's answer caused, not the request.
_FAILED_GENERATIONS = frozenset({"tool_use_failed", "json_validate_failed", "output_parse_failed"})
# Besides a 401: a 403 (Bedrock, proxies) or 400 (Gemini) about the key, not about a permission or the request.
_KEY_ERROR = {
    403: re.compile(r"api.?key|authenticat|credential|signature|(security|bearer) token|expired", re.IGNORECASE),
    400: re.compile(r"api.?key", re.IGNORECASE),
}
#: Failures of this request or this account: the same call fails again, whatever the status says.
_FINAL = frozenset(
    {FailureKind.KEY, FailureKind.ACCESS, FailureKind.MODEL, FailureKind.QUOTA, FailureKind.WINDOW,
     FailureKind.PROTOCOL}
)  # fmt: skip
#: What an answer begins with that is no event stream: an object, an array, or HTML.
DOCUMENT_STARTS = (b"{", b"[", b"<")
#: A line of an event stream: a field, or a comment.
_FIELD = re.compile(rb"(data|event|id|retry)?:|(data|event|id|retry)?\s*\Z")
#: The most characters of a Python error, which may quote the answer.
_REASON_CHARS = 200
#: What reading a part of an answer raises that has another form than its API's.
MISSHAPEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_SECONDS = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")
#: The header in which AWS names its error; its address may follow the name.
_AWS_ERROR = "x-amzn-errortype"
#: The status codes of an endpoint without a list of models.
NO_LIST = frozenset({404, 405, 501})
#: The most bytes of one event, or of an answer that is not streamed.
MAX_ANSWER_BYTES = 16 << 20
_QUOTED_CHARS = 4000
#: How many objects of an error may be around its words.
_ERROR_LEVELS = 8
#: The longest wait that is understood, in seconds.
_LONGEST_WAIT_S = 1e10
#: What may stand before an event stream (https://html.spec.whatwg.org/multipage/server-sent-events.html).
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: Numbers of an answer are finite, because parts of it are sent back (`past_reasoning`): NaN and Infinity are no JSON.
_NUMBERS: Mapping[str, Any] = {"parse_float": finite, "parse_constant": lambda _name: None}
#: Takes two thirds of the time of `json.loads`, which looks for the encoding and for spaces.
_parse = json.JSONDecoder(**_NUMBERS).raw_decode


def read_object(pieces: Iterator[bytes]) -> dict[str, Any]:
    """The object of an answer that is not streamed. Raises TransportError."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > MAX_ANSWER_BYTES:
            raise _too_large()
    try:
        value = json.loads(data, **_NUMBERS)
    except (ValueError, RecursionError):
        if not data.strip():
            raise TransportError("the provider's answer is empty", retryable=True) from None
        raise foreign_answer("no JSON", bytes(data)) from None
    return checked_object(value)


def events(pieces: Iterator[bytes]) -> Iterator[list[dict[str, Any]]]:
    """The objects of server-sent events, up to `[DONE]`. Those of one piece come in one list.

    An answer that is one JSON object in place of a stream is that object. Raises ModelError.
    """
    prefix = b""
    for piece in pieces:
        prefix += piece
        if prefix.strip() and not _BYTE_ORDER_MARK.startswith(prefix):
            break
    prefix = prefix.removeprefix(_BYTE_ORDER_MARK)
    if prefix.lstrip()[:1] in DOCUMENT_STARTS:
        yield [read_object(chain((prefix,), pieces))]
    else:
        yield from _events(chain((prefix,), pieces))


def _events(pieces: Iterator[bytes]) -> Iterator[list[dict[str, Any]]]:
    buffer, stray_line, has_begun = bytearray(), b"", False
    for piece in pieces:
        if b"\n" not in piece:
            buffer += piece
            if len(buffer) > MAX_ANSWER_BYTES:
                raise _too_large()
            continue
        if buffer:
            piece = bytes(buffer) + piece
            buffer.clear()
        lines = piece.split(b"\n")
        buffer += lines.pop()
        chunks: list[dict[str, Any]] = []
        for line in lines:
            if not line.startswith(b"data:"):
                if line and not (has_begun or stray_line or _FIELD.match(line)):
                    stray_line = line
                continue
            data = line[5:].strip()
            if data.startswith(b"[DONE]"):
                if chunks:
                    yield chunks
                return
            try:
                text = data.decode("utf-8", "surrogatepass")
                chunk, end = _parse(text)
                if end != len(text):
                    raise ValueError("there is more than one value")
            except (ValueError, RecursionError):
                if chunks:
                    yield chunks
                raise TransportError("the stream contains a chunk that is not JSON", body=_cut(data)) from None
            if type(chunk) is not dict or "error" in chunk or not chunk.get("choices"):
                if chunks:
                    yield chunks
                    chunks = []
                chunk = checked_object(chunk)
            chunks.append(chunk)
        if chunks:
            has_begun = True
            yield chunks
    if not (has_begun or _FIELD.match(stray_line or buffer)):
        raise foreign_answer("no event stream", bytes(stray_line or buffer))
    if buffer.startswith(b"data:") and not buffer[5:].strip().startswith(b"[DONE]"):
        with contextlib.suppress(
            ValueError, RecursionError
        ):  # half a line: the missing finish reason becomes the error
            yield [checked_object(json.loads(buffer[5:], **_NUMBERS))]


def json_lines(pieces: Iterator[bytes]) -> Iterator[list[dict[str, Any]]]:
    """The objects of newline-delimited JSON. Those of one piece come in one list. Raises ModelError.

    A last line without its end counts if it is whole.
    """
    buffer, has_begun = bytearray(), False
    for piece in pieces:
        buffer += piece
        if b"\n" not in piece:
            if len(buffer) > MAX_ANSWER_BYTES:
                raise _too_large()
            continue
        lines = bytes(buffer).split(b"\n")
        buffer = bytearray(lines.pop())
        values: list[dict[str, Any]] = []
        try:
            for line in filter(bytes.strip, lines):
                values.append(_line(line, has_begun=has_begun))
                has_begun = True
        except ModelError:
            if values:
                yield values
            raise
        if values:
            yield values
    if buffer.strip():
        try:
            yield [_line(bytes(buffer), has_begun=False)]
        except TransportError as error:
            if not has_begun or error.kind is not FailureKind.PROTOCOL:
                raise  # of half a line, the missing finish reason becomes the error


def _line(line: bytes, *, has_begun: bool) -> dict[str, Any]:
    try:
        value = json.loads(line, **_NUMBERS)
    except (ValueError, RecursionError):
        if not has_begun:
            raise foreign_answer("no JSON", line) from None
        raise TransportError("the stream contains a line that is not JSON", body=_cut(line)) from None
    return checked_object(value)


def checked_object(value: Any) -> dict[str, Any]:
    """The object of an answer. Raises the error that it may be, with status 200 or in the middle of a stream."""
    if isinstance(value, list) and len(value) == 1:  # Gemini wraps errors in arrays
        value = value[0]
    if not isinstance(value, dict):
        raise foreign_answer("no JSON object", json.dumps(value).encode())
    error = _error_of(value)
    if error is None:
        return value
    code = _code_of(error)
    status = status_of(code)
    raise _failure(status, {}, _message_of(error), error, is_transient=status is None)


def _error_of(value: dict[str, Any]) -> Any:
    """What an object says of an error; None if it is an answer."""
    if value.get("error"):
        return value["error"]
    if value.get("object") == "error":  # vLLM
        return value
    base_response = value.get("base_resp")  # MiniMax
    if isinstance(base_response, dict) and base_response.get("status_code"):
        return base_response
    if "choices" not in value and value.keys() & {"detail", "errors"}:  # FastAPI, Cloudflare
        return value
    return None


def _code_of(error: Any) -> Any:
    if not isinstance(error, dict):
        return None
    codes = [error.get(name) for name in ("code", "status", "type", "status_code")]
    return next((code for code in codes if status_of(code) is not None), next(filter(None, codes), None))


def _message_of(error: Any, levels: int = _ERROR_LEVELS) -> str:
    """The words of an error, wherever a provider writes them, at most `levels` objects deep."""
    if isinstance(error, dict) and levels:
        for name in ("message", "status_msg", "detail", "error", "errors"):
            if error.get(name):
                return _message_of(error[name], levels - 1)
    if isinstance(error, list) and levels:
        return "; ".join([_message_of(item, levels - 1) for item in error[:3]])
    if isinstance(error, dict) and isinstance(error.get("msg"), str):
        return str(error["msg"])
    return _text_of(error)


def _text_of(error: Any) -> str:
    """An error as text: what it is, or its JSON."""
    try:
        return error if isinstance(error, str) else json.dumps(error, default=str)
    except RecursionError:
        return "an error that is nested too deeply"


def _failure(
    status: int | None, headers: Mapping[str, str], message: str, error: Any, *, is_transient: bool = False
) -> ModelError:
    """The error that a provider reports. is_transient: the same call may work later, whatever the status says."""
    code, text, message = _code_of(error), _text_of(error), message[:_QUOTED_CHARS]
    words = f"{message} {text}"[:_QUOTED_CHARS]
    kind = kind_of(status, code, words)
    if kind is FailureKind.FILTER:
        return ContentFilter("the provider's content filter refused the request", words=message)
    verdict = headers.get("x-should-retry")
    is_transient = is_transient or status in RETRYABLE_STATUS or (status or 0) >= 500
    is_transient = is_transient or (isinstance(error, dict) and str(error.get("code")) in _FAILED_GENERATIONS)
    is_transient = is_transient and kind not in _FINAL
    return TransportError(
        message,
        status=status,
        retryable=verdict == "true" or (verdict != "false" and is_transient),
        retry_after=_retry_after(headers, error),
        body=text[:_QUOTED_CHARS],
        kind=kind,
    )


def foreign_answer(format_name: str, data: bytes, api: str = "its provider's API") -> TransportError:
    """The error of an answer that is not of the protocol: another call would get the same."""
    return TransportError(
        f"the provider's answer is {format_name}: is its address that of {api}?",
        body=_cut(data),
        kind=FailureKind.PROTOCOL,
    )


def misshapen(error: Exception) -> TransportError:
    """The error of an answer that has another form than its API's, by what reading it raised, see `MISSHAPEN`."""
    reason = f"{type(error).__name__}: {error}"[:_REASON_CHARS]
    return TransportError(f"the provider's answer has another form: {reason}", retryable=True)


def unreachable(base_url: str, reason: str) -> TransportError:
    """The error of an endpoint that cannot be reached, or of a connection that broke. `reason` may quote the server."""
    host = urlsplit(base_url).hostname or ""
    message = f"no answer from {base_url}: {reason}"
    return TransportError(message, retryable=True, kind=FailureKind.UNREACHABLE, host=host)


def refusal_of(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error of an answer with an error's status, with a message like the openai SDK's."""
    text = body.decode("utf-8", "replace").strip()
    reason = ""
    try:
        error = json.loads(text)
    except (ValueError, RecursionError):
        error = text
    if isinstance(error, list) and len(error) == 1:
        error = error[0]
    if isinstance(error, dict):
        error = error.get("error", error)
        reason = _message_of(error)
        if _AWS_ERROR in headers and "code" not in error:
            error = {**error, "code": headers[_AWS_ERROR].partition(":")[0]}
    elif isinstance(error, list):
        reason = _message_of(error)
    return _failure(status, headers, f"Error code: {status}" + (f" - {reason}" if reason else ""), error)


def rejects_key(error: TransportError) -> bool:
    """Whether the provider refused the call because of its key."""
    pattern = _KEY_ERROR.get(error.status or 0)
    return error.status == 401 or (pattern is not None and pattern.search(f"{error.message} {error.body}") is not None)


def _retry_after(headers: Mapping[str, str], error: Any) -> float | None:
    """Seconds, from `retry-after-ms`, `Retry-After` (seconds or an HTTP date, RFC 9110), or Google's `retryDelay`."""
    with contextlib.suppress(ValueError):
        return _wait(float(headers.get("retry-after-ms", "")) / 1000)
    value = headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return _wait(float(value))
    if value:
        from email.utils import parsedate_to_datetime

        with contextlib.suppress(ValueError, TypeError):
            import datetime

            return _wait((parsedate_to_datetime(value) - datetime.datetime.now(datetime.UTC)).total_seconds())
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _SECONDS.fullmatch(delay)):
            return _wait(float(seconds.group(1)))
    return None


def _wait(seconds: float) -> float:
    """A wait that a provider asks for, which may be infinite or in the past, in seconds."""
    return min(max(0.0, seconds), _LONGEST_WAIT_S)


def _too_large() -> TransportError:
    return TransportError("the provider's answer is too large")


def _cut(data: bytes) -> str:
    return data[:_QUOTED_CHARS].decode("utf-8", "replace")
