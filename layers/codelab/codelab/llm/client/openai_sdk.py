"""The openai SDK as a Transport, for an endpoint that needs it (`LLM_CLIENT=openai`) and as the measure of `direct`.

The SDK builds a pydantic object for each chunk, which takes 88 µs where parsing the JSON takes 10. Its public
`with_streaming_response` returns the HTTP response instead. Messages go into `extra_body`, because the SDK would
otherwise transform each of them (7.5 ms for 50 messages).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import openai

from codelab.llm.client.answers import NO_LIST, events, read_object, refusal_of, unreachable
from codelab.llm.client.keys import ApiKey, KeyHeader, key_headers, keyed
from codelab.llm.client.transport import Call
from codelab.llm.client.wire import Binding, InterruptibleTransport, serving
from codelab.llm.errors import ModelError, TransportError

_CONNECT_TIMEOUT_S = 5.0


class SdkTransport:
    """A client for one endpoint, as `DirectTransport`. It knows no proxies."""

    def __init__(
        self, *, base_url: str, api_key: ApiKey, key_header: KeyHeader = "Authorization", timeout: float = 600.0
    ) -> None:
        self._key, self._key_header = api_key, key_header
        timeouts = httpx2.Timeout(timeout, connect=_CONNECT_TIMEOUT_S)
        self._client = openai.OpenAI(
            base_url=base_url,
            api_key="provided-per-call",
            max_retries=0,
            timeout=timeouts,
            http_client=openai.DefaultHttpxClient(transport=InterruptibleTransport(), timeout=timeouts),
        )
        self.base_url = base_url.rstrip("/")
        self._create = self._client.chat.completions.with_streaming_response.create

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        """See `Transport.send`."""
        call.check()
        call.begin()
        arguments = _arguments(body)
        binding: Binding | None = None
        try:
            with serving(call) as binding:
                manager, response = keyed(self._key, lambda key: self._opened(arguments, key), call.check)
            try:
                pieces = response.iter_bytes()
                if body.get("stream"):
                    yield from events(pieces)
                    # Read to the end, so that the connection can be reused.
                    for _ in pieces:
                        pass
                else:
                    yield [read_object(pieces)]
            finally:
                # Closes the connection when the answer was not read to its end.
                manager.__exit__(None, None, None)
        except (openai.APIConnectionError, httpx2.RequestError) as error:
            _forget_frames(error)
            if call.is_answered:
                return
            call.check()
            detail = error.__cause__ or error
            raise unreachable(self.base_url, f"{type(detail).__name__}: {detail}") from error
        finally:
            if binding is not None:
                binding.release()

    def is_available(self, timeout_s: float, model: str) -> bool:
        """See `DirectTransport.is_available`."""
        models = self._client.with_options(timeout=timeout_s).models.with_raw_response

        def listed(key: str) -> None:
            try:
                models.list(extra_headers=self._headers(key))
            except openai.APIStatusError as error:
                raise _refusal(error) from None

        try:
            keyed(self._key, listed)
        except TransportError as error:
            return error.status in NO_LIST
        except openai.APIConnectionError:
            return False
        return True

    def _opened(self, arguments: dict[str, Any], key: str) -> tuple[Any, Any]:
        """The context manager of the answer, and the answer, as soon as its headers have arrived."""
        manager = self._create(**arguments, extra_headers=self._headers(key))
        try:
            return manager, manager.__enter__()
        except openai.APIStatusError as error:
            _forget_frames(error)
            raise _refusal(error) from error

    def _headers(self, key: str) -> dict[str, Any]:
        """The key's header. The SDK's own `Authorization` goes if the key has another one."""
        return {"Authorization": openai.omit, **key_headers(key, self._key_header)}

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


def _refusal(error: openai.APIStatusError) -> ModelError:
    return refusal_of(error.status_code, error.response.headers, error.response.content)


def _forget_frames(error: BaseException | None) -> None:
    """Drop the tracebacks of an error and its causes.

    The context managers in which httpcore2 translates errors refer to them from their own tracebacks. So the frames,
    and the messages that they hold, would stay in memory until a garbage collection, often for hundreds of calls.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__
