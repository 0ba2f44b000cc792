"""Asks an endpoint over kept connections, without an SDK: JSON out, JSON in."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from codelab.llm.client.answers import MISSHAPEN, NO_LIST, misshapen, refusal_of, unreachable
from codelab.llm.client.api import Api, ChatCompletionsApi
from codelab.llm.client.connections import ConnectionFailed, Connections, Response
from codelab.llm.client.keys import ApiKey, KeyHeader, Sign, key_headers, keyed
from codelab.llm.client.transport import Call
from codelab.llm.errors import ModelError, TransportError

#: How an endpoint refuses an empty question.
_INVALID = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
#: The most bytes that are read of an error.
_ERROR_BYTES = 64 << 10
#: The most characters of a broken connection's reason, which may quote the server.
_REASON_CHARS = 200


class DirectTransport:
    """A client for one endpoint. Make it once; any number of Requests may use it concurrently.

    api_key: a string, or a function that returns the current key before each call. If the function has a method
    `renew(rejected)` that returns whether there is another key now, a call with a rejected key is repeated once.
    key_header: where the endpoint takes the key. sign: signs each request in place of a key. api: what it speaks, by
    default the chat completions API. timeout: the longest silence between two reads, in seconds; the deadline bounds
    the whole answer. Raises InvalidRequest if the URL, or the proxy that HTTPS_PROXY names, cannot be used.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: ApiKey = "",
        key_header: KeyHeader = "Authorization",
        sign: Sign | None = None,
        api: Api | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._key, self._key_header, self._sign = api_key, key_header, sign
        self._api = api or ChatCompletionsApi()
        self._connections = Connections(self.base_url, silence_s=timeout)

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        """See `Transport.send`."""
        call.check()
        call.begin()
        data = self._api.encode(body)
        path = self._path_of(str(body.get("model", "")))
        response = keyed(self._key, lambda key: self._open("POST", path, key, data, call), call.check)
        disconnect_reason = ""
        problem: TransportError | None = None
        try:
            pieces = response.pieces()
            yield from self._api.chunks(pieces, streams=bool(body.get("stream")))
            response.end(pieces)
        except ConnectionFailed as error:
            disconnect_reason = _reason(error)
        except MISSHAPEN as error:
            problem = misshapen(error)
        finally:
            response.close()
        try:
            if problem is not None:
                raise problem
        finally:
            del problem  # it would keep this frame, and the frame the error
        if disconnect_reason and not call.is_answered:
            raise self._unreachable(disconnect_reason, call)

    def is_available(self, timeout_s: float, model: str) -> bool:
        """Whether the endpoint accepts our key and answers within `timeout_s`.

        Asks for its list of models, which costs nothing. An endpoint without such a list is available too. An API that
        has none is asked nothing of `model`, which is refused as invalid if all else is right.
        """
        call = Call(deadline=time.monotonic() + timeout_s)
        method, path, body = "GET", self._api.models_path, b""
        if not path:
            method, path, body = "POST", self._path_of(model), b"{}"
        try:
            keyed(self._key, lambda key: self._open(method, path, key, body, call), call.check).close()
        except TransportError as error:
            return error.status in (NO_LIST if method == "GET" else _INVALID)
        except ModelError:  # the deadline
            return False
        return True

    def _path_of(self, model: str) -> str:
        return self._api.path.format(model=quote(model, safe=""))

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def _open(self, method: str, path: str, key: str, body: bytes, call: Call) -> Response:
        """The answer, if its status is a success's. Raises TransportError, Cancelled or DeadlineExceeded."""
        if not (key.isascii() and key.isprintable()):
            raise TransportError("the API key has characters that a header must not have")
        headers: Mapping[str, str] = {**self._api.headers, **({"Content-Type": "application/json"} if body else {})}
        if self._sign is None:
            headers = {**headers, **key_headers(key, self._key_header)}
        else:
            headers = self._sign(method, path, headers, body)
        error_body, disconnect_reason = bytearray(), ""
        try:
            response = self._connections.open(method, path, headers, body, call)
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            try:
                for piece in response.pieces():
                    error_body += piece
                    if len(error_body) > _ERROR_BYTES:
                        break
            finally:
                response.close()
        except ConnectionFailed as error:
            disconnect_reason = _reason(error)
        if disconnect_reason:
            raise self._unreachable(disconnect_reason, call)
        raise refusal_of(response.status, response.headers, bytes(error_body))

    def _unreachable(self, reason: str, call: Call) -> TransportError:
        """The error of a broken connection. Raises Cancelled or DeadlineExceeded if that is what broke it."""
        call.check()
        return unreachable(self.base_url, reason)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_REASON_CHARS]
