"""The HTTP server: a bare ASGI application under uvicorn."""

import asyncio
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import uvicorn

from codelab_local.demo_model.completions import MODEL, BadRequest, answer, events, parsed, whole
from codelab_local.demo_model.player import scenarios

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_MODEL = {"id": MODEL, "object": "model", "created": 1_735_689_600, "owned_by": "codelab-demonstration"}
#: How many pieces are sent at once if they need not wait for each other.
_AT_ONCE = 64


@dataclass(frozen=True)
class Delays:
    """Seconds before the first piece and between pieces."""

    first: float = 0.0
    piece: float = 0.0


class DemoModel:
    """The ASGI application. `streams` is the number of answers being streamed now."""

    def __init__(self, delays: Delays) -> None:
        self.delays = delays
        self.streams = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        match scope["method"], scope["path"].rstrip("/"):
            case "POST", "/v1/chat/completions":
                await self._complete(receive, send)
            case "GET", "/v1/models":
                await _json(send, 200, {"object": "list", "data": [_MODEL]})
            case "GET", "/health":
                await _json(send, 200, {"status": "healthy", "service": "demonstration-model", "streams": self.streams})
            case method, path:
                await _error(send, BadRequest(f"Invalid URL ({method} {path})", status=404))

    async def _complete(self, receive: Receive, send: Send) -> None:
        try:
            request = parsed(await _body(receive))
            reply = answer(request)
        except BadRequest as problem:
            return await _error(send, problem)
        except Exception as problem:  # a client must see an error, not a closed connection
            traceback.print_exception(problem)
            return await _error(send, BadRequest(f"The demonstration model failed: {problem!r}", status=500))
        await asyncio.sleep(self.delays.first)
        if not request.stream:
            return await _json(send, 200, whole(request, reply))
        disconnect = asyncio.ensure_future(receive())  # the only sign that the client left
        self.streams += 1
        try:
            await _start(send, 200, "text/event-stream; charset=utf-8")
            async for part in _in_time(events(request, reply), self.delays.piece):
                if disconnect.done():
                    return None
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.streams -= 1
            disconnect.cancel()


async def _in_time(parts: Iterable[bytes], delay: float) -> AsyncIterator[bytes]:
    """The parts with `delay` seconds between them; late ones (with many streams) come together."""
    due, ready = time.monotonic(), list[bytes]()
    for part in parts:
        wait = due - time.monotonic()
        if ready and (wait > 0 or len(ready) == _AT_ONCE):
            yield b"".join(ready)
            ready = []
            await asyncio.sleep(max(wait, 0))
        ready.append(part)
        due += delay
    yield b"".join(ready)


async def _body(receive: Receive) -> bytes:
    parts, more_body = [], True
    while more_body:
        message = await receive()
        parts.append(message.get("body", b""))
        more_body = message.get("more_body", False)
    return b"".join(parts)


async def _start(send: Send, status: int, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode()), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _json(send: Send, status: int, value: Any) -> None:
    await _start(send, status, "application/json")
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    await send({"type": "http.response.body", "body": body})


async def _error(send: Send, problem: BadRequest) -> None:
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    error = {"message": str(problem), "type": kind, "param": problem.param, "code": None}
    await _json(send, problem.status, {"error": error})


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound to the address. Raises OSError if it is taken."""
    # asyncio sets TCP_NODELAY only if the protocol is named; without it, a piece waits 40 ms for the last ACK.
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, port))
    return bound


async def serve(bound: socket.socket, delays: Delays) -> None:
    """Serve until a signal comes or the parent process ends. Prints a line once it serves."""
    scenarios()  # read and compile them before the first request
    config = uvicorn.Config(
        DemoModel(delays), interface="asgi3", lifespan="off", ws="none", backlog=2048, timeout_graceful_shutdown=0,
        timeout_keep_alive=75, access_log=False, log_level="critical", server_header=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([bound]))
    parent = os.getppid()
    while not (server.started or serving.done()):
        await asyncio.sleep(0.002)
    host, port = bound.getsockname()[:2]
    sys.stdout.write(f"demonstration model on http://{host}:{port}/v1\n")
    sys.stdout.flush()
    # An orphan gets another parent. (Linux' parent-death signal comes when the parent's thread ends.)
    while not serving.done() and os.getppid() == parent:
        await asyncio.wait([serving], timeout=0.5)
    server.should_exit = True
    await serving
