"""The openai SDK as a Transport, without a model object per chunk.

The SDK builds a pydantic object for each chunk, which takes 88 µs where parsing the JSON takes 10. Its public
`with_streaming_response` returns the HTTP response instead. Messages go into `extra_body`, because the SDK would
otherwise transform each of them (7.5 ms for 50 messages).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import httpx2
import openai

from codelab.llm.client.bedrock import BedrockKey, bedrock_base_url
from codelab.llm.client.transport import Call
from codelab.llm.client.wire import Binding, InterruptibleTransport, serving
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

_CONNECT_TIMEOUT_S = 5.0
#: The status codes of an endpoint without a list of models.
_NO_LIST = frozenset({404, 405, 501})

_Answer = TypeVar("_Answer")


class OpenAITransport:
    """A client for one endpoint. Make it once; any number of Requests may use it concurrently.

    api_key: a string, or a function that returns the current key before each call. If the function has a method
    `renew(rejected)` that returns whether there is another key now, a call with a rejected key is repeated once.
    timeout: the longest silence between two reads, in seconds; the deadline bounds the whole answer.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | Callable[[], str],
        timeout: float = 600.0,
    ) -> None:
        self._key = api_key if callable(api_key) else None
        timeouts = httpx2.Timeout(timeout, connect=_CONNECT_TIMEOUT_S)
        self._client = openai.OpenAI(
            base_url=base_url,
            api_key="provided-per-call" if callable(api_key) else api_key or "none",
            max_retries=0,
            timeout=timeouts,
            http_client=openai.DefaultHttpxClient(transport=InterruptibleTransport(), timeout=timeouts),
        )
        self.base_url = base_url.rstrip("/")
        self._create = self._client.chat.completions.with_streaming_response.create

    def warm(self) -> None:
        """Make the SDK's first call, with its 30-40 ms of lazy imports, before a user waits for it. No network."""
        warming = openai.OpenAI(
            base_url=self.base_url,
            api_key="warm",
            max_retries=0,
            http_client=httpx2.Client(transport=httpx2.MockTransport(_warm_answer)),
        )
        with warming.chat.completions.with_streaming_response.create(**_arguments(_WARMING)) as response:
            for _ in response.iter_bytes():
                pass

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        """See `Transport.send`."""
        call.check()
        arguments = _arguments(body)
        binding: Binding | None = None
        try:
            with serving(call) as binding:
                manager, response = self._keyed(lambda headers: self._opened(arguments, headers), call.check)
            try:
                if body.get("stream"):
                    yield from _events(response.iter_bytes())
                else:
                    yield [_object(b"".join(response.iter_bytes()))]
            finally:
                # Closes the connection when the answer was not read to its end.
                manager.__exit__(None, None, None)
        except openai.APIStatusError as error:
            _forget_frames(error)
            raise _status_error(error) from error
        except (openai.APIConnectionError, httpx2.RequestError) as error:
            _forget_frames(error)
            call.check()
            detail = error.__cause__ or error
            raise TransportError(
                f"no answer from {self.base_url}: {type(detail).__name__}: {detail}", retryable=True
            ) from error
        finally:
            if binding is not None:
                binding.release()

    def is_available(self, timeout_s: float) -> bool:
        """Whether the endpoint accepts our key and answers within `timeout_s`.

        Asks for its list of models, which costs nothing. An endpoint without such a list is available too.
        """
        models = self._client.with_options(timeout=timeout_s).models.with_raw_response
        try:
            self._keyed(lambda headers: models.list(extra_headers=headers))
        except openai.APIStatusError as error:
            return error.status_code in _NO_LIST
        except openai.APIConnectionError:
            return False
        return True

    def _keyed(self, ask: Callable[[dict[str, str]], _Answer], check: Callable[[], None] = lambda: None) -> _Answer:
        """Call `ask` with the key's headers; renew a rejected key once. `check` may raise before the second call."""
        if self._key is None:
            return ask({})
        key = self._key()
        try:
            return ask({"Authorization": f"Bearer {key}"})
        except openai.APIStatusError as error:
            renew: Callable[[str], bool] | None = getattr(self._key, "renew", None)
            if renew is None or not _rejects_key(error) or not renew(key):
                raise
        check()
        return ask({"Authorization": f"Bearer {self._key()}"})

    def _opened(self, arguments: dict[str, Any], headers: dict[str, str]) -> tuple[Any, Any]:
        """The context manager of the answer, and the answer, as soon as its headers have arrived."""
        manager = self._create(**arguments, extra_headers=headers)
        return manager, manager.__enter__()

    def close(self) -> None:
        self._client.close()


def _arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the SDK's call. The SDK sends `extra_body` unchanged."""
    return {
        "model": body["model"],
        "messages": [],
        "stream": bool(body.get("stream")),
        "extra_body": {key: value for key, value in body.items() if key not in ("model", "stream")}
        | {"messages": body.get("messages", [])},
    }


#: Streamed, because the SDK evaluates the types of the parameters for streams separately.
_WARMING = {"model": "warm", "stream": True}


def _warm_answer(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, text="data: [DONE]\n\n", headers={"content-type": "text/event-stream"})


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        raise TransportError("the provider's answer is not JSON", retryable=True, body=_cut(data)) from None
    return _checked(value)


def _events(pieces: Iterator[bytes]) -> Iterator[list[dict[str, Any]]]:
    """Parse server-sent events. The JSON objects of one read come in one list."""
    loads = json.loads
    rest = b""
    for piece in pieces:
        lines = (rest + piece if rest else piece).split(b"\n")
        rest = lines.pop()
        chunks: list[dict[str, Any]] = []
        for line in lines:
            if not line.startswith(b"data:"):
                continue  # an empty line, a comment or an event's name
            data = line[5:].strip()
            if data.startswith(b"[DONE]"):
                if chunks:
                    yield chunks
                # Read to the end, so that the connection can be reused.
                for _ in pieces:
                    pass
                return
            try:
                chunk = loads(data)
            except ValueError:
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
        with contextlib.suppress(ValueError):  # half a line: the missing finish reason becomes the error
            yield [_checked(loads(rest[5:]))]


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
        body=json.dumps(error)[:4000],
    )


def _status_error(error: openai.APIStatusError) -> TransportError:
    body = error.body if isinstance(error.body, str) else json.dumps(error.body, default=str)
    status = error.status_code
    verdict = error.response.headers.get("x-should-retry")
    code = error.body.get("code") if isinstance(error.body, dict) else None
    passes = status in RETRYABLE_STATUS or status >= 500 or code in _FAILED_GENERATIONS
    retryable = verdict == "true" or (verdict != "false" and passes)
    return TransportError(
        error.message,
        status=status,
        retryable=retryable,
        retry_after=_retry_after(error.response.headers),
        body=(body or "")[:4000],
    )


def _forget_frames(error: BaseException | None) -> None:
    """Drop the tracebacks of an error and its causes.

    The context managers in which httpcore2 translates errors refer to them from their own tracebacks. So the frames,
    and the messages that they hold, would stay in memory until a garbage collection, often for hundreds of calls.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


def _rejects_key(error: openai.APIStatusError) -> bool:
    pattern = _KEY_ERROR.get(error.status_code)
    return error.status_code == 401 or (
        pattern is not None and pattern.search(f"{error.message} {error.body}") is not None
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from `retry-after-ms` or `Retry-After` (seconds or an HTTP date, RFC 9110)."""
    with contextlib.suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    value = headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    if value:
        from email.utils import parsedate_to_datetime

        with contextlib.suppress(ValueError, TypeError):
            import datetime

            return max(0.0, (parsedate_to_datetime(value) - datetime.datetime.now(datetime.UTC)).total_seconds())
    return None


def _cut(data: bytes) -> str:
    return data[:4000].decode("utf-8", "replace")


def openai_transport(
    *,
    base_url: str,
    api_key: str | Callable[[], str],
    timeout: float = 600.0,
    warm: bool = True,
) -> OpenAITransport:
    """A transport for an OpenAI-compatible endpoint. Make it once, at init.

    Takes what `OpenAITransport` takes. warm: make the SDK's first call now, without the network.
    """
    transport = OpenAITransport(base_url=base_url, api_key=api_key, timeout=timeout)
    if warm:
        transport.warm()
    return transport


def bedrock_transport(*, base_url: str = "") -> OpenAITransport:
    """A transport that calls Amazon Bedrock as the current role, in the environment's region. Make it once, at init.

    base_url: an endpoint other than the region's. Raises InvalidRequest without a region.
    """
    return openai_transport(base_url=base_url or bedrock_base_url(), api_key=BedrockKey())
