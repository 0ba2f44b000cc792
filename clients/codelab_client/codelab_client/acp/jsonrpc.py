"""JSON-RPC 2.0, one message a line: answers the other side's requests, and waits for the answers to ours.

Nothing here reads or writes: lines come in by `receive` and go out by the function `write`. Only the standard library
is imported, because the first request must be answered at once.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
#: Codes of the Agent Client Protocol.
REQUEST_CANCELLED, AUTH_REQUIRED, RESOURCE_NOT_FOUND = -32800, -32000, -32002

#: Requests of the other side that are worked on at once.
_MOST_REQUESTS = 100
_LARGEST_ID = 2**53


class RpcError(Exception):
    """The error that answers a request. code: one of those above. data: any JSON, or None."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


@dataclass(frozen=True)
class RpcResult:
    """The result of a request, and what to do as soon as it is written."""

    result: Any
    then: Callable[[], None]


#: Handles a request: gets its method and params, gives the result or an RpcResult, and may raise RpcError.
Handler = Callable[[str, Any], Awaitable[Any]]


class Peer:
    """One side of a connection. on_notification: takes a notification's method and params, and does not raise."""

    def __init__(
        self, write: Callable[[bytes], None], on_request: Handler, on_notification: Callable[[str, Any], None]
    ) -> None:
        self._write, self._on_request, self._on_notification = write, on_request, on_notification
        self._answering: dict[str | int, asyncio.Task[None]] = {}
        self._open_requests: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0

    # -- the other side's messages -------------------------------------------------------------------------------

    def receive(self, line: bytes) -> None:
        """Take one line. Must be called in an event loop."""
        if not line.strip():
            return
        try:
            message = json.loads(line.decode(), parse_constant=_refuse)
        except (ValueError, RecursionError):
            self.refuse(PARSE_ERROR, "The message is not JSON in UTF-8")
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self.refuse(INVALID_REQUEST, "The message is not a JSON-RPC 2.0 object")
        elif "method" not in message:
            self._take_answer(message)
        elif not isinstance(message["method"], str):
            self.refuse(INVALID_REQUEST, "The method is not a string")
        elif "id" not in message:
            self._take_notification(message["method"], message.get("params"))
        else:
            self._take_request(message["id"], message["method"], message.get("params"))

    def refuse(self, code: int, message: str) -> None:
        """Answer something that is not a request, and so has no id."""
        self._send({"id": None, "error": {"code": code, "message": message}})

    def _take_request(self, request_id: Any, method: str, params: Any) -> None:
        if not _is_id(request_id):
            self.refuse(INVALID_REQUEST, "The id is neither a string nor an integer")
        elif request_id in self._answering:
            self.refuse(INVALID_REQUEST, "A request with this id has not been answered yet")
        elif params is not None and not isinstance(params, dict):
            self._fail(request_id, RpcError(INVALID_PARAMS, "The params are not an object"))
        elif len(self._answering) >= _MOST_REQUESTS:
            self._fail(request_id, RpcError(INTERNAL_ERROR, f"{_MOST_REQUESTS} requests are being answered already"))
        else:
            task = asyncio.ensure_future(self._answer(request_id, method, params or {}))
            self._answering[request_id] = task

    async def _answer(self, request_id: str | int, method: str, params: dict[str, Any]) -> None:
        then = None
        try:
            result = await self._on_request(method, params)
            if isinstance(result, RpcResult):
                result, then = result.result, result.then
            self._send({"id": request_id, "result": result})
        except RpcError as error:
            self._fail(request_id, error)
        except asyncio.CancelledError:
            self._fail(request_id, RpcError(REQUEST_CANCELLED, "The request was cancelled"))
        except Exception as error:  # A mistake here must not end the connection.
            self._fail(request_id, RpcError(INTERNAL_ERROR, f"The agent failed: {type(error).__name__}: {error}"))
        finally:
            self._answering.pop(request_id, None)
        if then is not None:
            then()

    def _take_notification(self, method: str, params: Any) -> None:
        if method == "$/cancel_request":
            request_id = params.get("requestId") if isinstance(params, dict) else None
            task = self._answering.get(request_id) if isinstance(request_id, str | int) else None
            if task is not None:
                # Not before it has begun, as when both came at once: it would end without an answer.
                asyncio.get_running_loop().call_soon(task.cancel)
        elif isinstance(params, dict):
            self._on_notification(method, params)

    def _take_answer(self, message: Mapping[str, Any]) -> None:
        request_id = message.get("id")
        response = self._open_requests.get(request_id) if isinstance(request_id, int) else None
        if response is None or response.done():
            if request_id is None and "error" in message:
                return  # it could not read one of our messages: answering would go on for ever
            if not {"result", "error"} & message.keys():
                self.refuse(INVALID_REQUEST, "The message is neither a request nor an answer")
            return
        error = message.get("error")
        if error is None:
            response.set_result(message.get("result"))
            return
        code, text = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
        response.set_exception(RpcError(code if isinstance(code, int) else INTERNAL_ERROR, str(text)[:1_000]))

    # -- ours ----------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a request. Raises RpcError. If the waiting task is cancelled, so is the request."""
        self._last_id += 1
        request_id = self._last_id
        response = self._open_requests[request_id] = asyncio.get_running_loop().create_future()
        self._send({"id": request_id, "method": method, "params": params})
        try:
            return await response
        except asyncio.CancelledError:
            self.notify("$/cancel_request", {"requestId": request_id})
            raise
        finally:
            del self._open_requests[request_id]

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    async def aclose(self) -> None:
        """Stop answering."""
        tasks = list(self._answering.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fail(self, request_id: str | int, error: RpcError) -> None:
        data = {} if error.data is None else {"data": error.data}
        self._send({"id": request_id, "error": {"code": error.code, "message": error.message, **data}})

    def _send(self, fields: Mapping[str, Any]) -> None:
        # In ASCII: lone surrogates of a model's answer cannot be written in UTF-8.
        self._write(json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":")).encode() + b"\n")


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (type(value) is int and abs(value) <= _LARGEST_ID)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
