"""Reads what a provider sends: JSON, server-sent events, and errors in all their places."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from codelab.llm.errors import TransportError

# Timeout, conflict, too early and rate limit. All errors from 500 are retryable too.
RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
# Groq's codes for a 400 that the model's answer caused, not the request.
_FAILED_GENERATIONS = frozenset({"tool_use_failed", "json_validate_failed", "output_parse_failed"})
# Besides a 401: a 403 (Bedrock, proxies) or 400 (Gemini) about the key, not about a permission or the request.
_KEY_ERROR = {
    403: re.compile(r"api.?key|authenticat|credential|signature|(security|bearer) token|expired", re.IGNORECASE),
    400: re.compile(r"api.?key", re.IGNORECASE),
}
#: The status codes of an endpoint without a list of models.
NO_LIST = frozenset({404, 405, 501})
#: The most bytes of one event, or of an answer that is not streamed.
LONGEST = 16 << 20
_QUOTED_CHARS = 4000

#: Takes two thirds of the time of `json.loads`, which looks for the encoding and for spaces.
_parse = json.JSONDecoder().raw_decode


def whole(pieces: Iterator[bytes]) -> dict[str, Any]:
    """The object of an answer that is not streamed. Raises TransportError."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > LONGEST:
            raise _too_large()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise TransportError("the provider's answer is not JSON", retryable=True, body=_cut(bytes(data))) from None
    return _checked(value)


def events(pieces: Iterator[bytes]) -> Iterator[list[dict[str, Any]]]:
    """The objects of server-sent events, up to `[DONE]`. Those of one piece come in one list. Raises TransportError."""
    rest = bytearray()
    for piece in pieces:
        if b"\n" not in piece:
            rest += piece
            if len(rest) > LONGEST:
                raise _too_large()
            continue
        if rest:
            piece = bytes(rest) + piece
            rest.clear()
        lines = piece.split(b"\n")
        rest += lines.pop()
        chunks: list[dict[str, Any]] = []
        for line in lines:
            if not line.startswith(b"data:"):
                continue  # an empty line, a comment or an event's name
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
            if type(chunk) is not dict or "error" in chunk:
                if chunks:
                    yield chunks
                    chunks = []
                chunk = _checked(chunk)
            chunks.append(chunk)
        if chunks:
            yield chunks
    if rest.startswith(b"data:") and not rest[5:].strip().startswith(b"[DONE]"):
        with contextlib.suppress(
            ValueError, RecursionError
        ):  # half a line: the missing finish reason becomes the error
            yield [_checked(json.loads(rest[5:]))]


def _checked(value: Any) -> dict[str, Any]:
    """Raise the provider's error, which may come with status 200 or in the middle of a stream."""
    if not isinstance(value, dict):
        raise TransportError("the provider's answer is not a JSON object", body=_cut(json.dumps(value).encode()))
    error = value.get("error")
    if not error:
        return value
    message, code = str(error), None
    if isinstance(error, dict):
        message, code = str(error.get("message") or error), error.get("code") or error.get("status")
    status = code if isinstance(code, int) else None
    raise TransportError(
        message,
        status=status,
        retryable=status is None or status in RETRYABLE_STATUS or status >= 500,
        body=json.dumps(error)[:_QUOTED_CHARS],
    )


def refusal(status: int, headers: Mapping[str, str], message: str, told: Any) -> TransportError:
    """The error of an answer with an error's status. told: its JSON or text; of an object `error`, that object."""
    verdict = headers.get("x-should-retry")
    code = told.get("code") if isinstance(told, dict) else None
    passes = status in RETRYABLE_STATUS or status >= 500 or code in _FAILED_GENERATIONS
    return TransportError(
        message,
        status=status,
        retryable=verdict == "true" or (verdict != "false" and passes),
        retry_after=_retry_after(headers),
        body=(told if isinstance(told, str) else json.dumps(told, default=str))[:_QUOTED_CHARS],
    )


def refusal_of(status: int, headers: Mapping[str, str], body: bytes) -> TransportError:
    """As `refusal`, from the bytes of the answer, with the openai SDK's message."""
    text = body.decode("utf-8", "replace").strip()
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = text
    if isinstance(told, dict):
        told = told.get("error", told)
    message = told.get("message") if isinstance(told, dict) else None
    reason = f" - {message}" if isinstance(message, str) and message else ""
    return refusal(status, headers, f"Error code: {status}{reason}", told)


def rejects_key(error: TransportError) -> bool:
    """Whether the provider refused the call because of its key."""
    pattern = _KEY_ERROR.get(error.status or 0)
    return error.status == 401 or (pattern is not None and pattern.search(f"{error.message} {error.body}") is not None)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from `retry-after-ms` or `Retry-After` (seconds or an HTTP date, RFC 9110)."""
    with contextlib.suppress(ValueError):
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    value = headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    if value:
        from email.utils import parsedate_to_datetime

        with contextlib.suppress(ValueError, TypeError):
            import datetime

            return max(0.0, (parsedate_to_datetime(value) - datetime.datetime.now(datetime.UTC)).total_seconds())
    return None


def _too_large() -> TransportError:
    return TransportError("the provider's answer is too large")


def _cut(data: bytes) -> str:
    return data[:_QUOTED_CHARS].decode("utf-8", "replace")
