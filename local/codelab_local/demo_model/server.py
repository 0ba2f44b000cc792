"""The HTTP server: a bare ASGI application under uvicorn, in this process or in a thread of it."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import uvicorn

from codelab_local.demo_model.completions import MODEL, BadRequest, ChatRequest, answer
from codelab_local.demo_model.stream import Cut, Delays, events, whole

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_MAX_BODY = 64 * 1024 * 1024
_MODEL = {"id": MODEL, "object": "model", "created": 1_735_689_600, "owned_by": "codelab-demonstration"}


class DemoModel:
    """The ASGI application. `streams` is the number of answers being streamed now."""

    def __init__(self, delays: Delays) -> None:
        self.delays = delays
        self.streams = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        method, path = scope["method"], scope["path"].rstrip("/")
        try:
            if path == "/v1/chat/completions":
                _only(method, "POST", path)
                await self._complete(receive, send)
            elif path == "/v1/models":
                _only(method, "GET", path)
                await _json(send, 200, {"object": "list", "data": [_MODEL]})
            elif path.startswith("/v1/models/"):
                _only(method, "GET", path)
                await _json(send, 200, _MODEL | {"id": path.removeprefix("/v1/models/")})
            elif path == "/health":
                await _json(send, 200, {"status": "healthy", "service": "demonstration-model", "streams": self.streams})
            else:
                raise BadRequest(f"Invalid URL ({method} {scope['path']})", status=404)
        except BadRequest as problem:
            await _json(send, problem.status, problem.body())
        except Exception as problem:  # a client must see that the model is broken, not a closed connection
            traceback.print_exception(problem)
            error = {"message": f"The demonstration model failed: {problem!r}", "type": "server_error", "param": None}
            with contextlib.suppress(RuntimeError):  # the answer has begun
                await _json(send, 500, {"error": error | {"code": None}})

    async def _complete(self, receive: Receive, send: Send) -> None:
        request = ChatRequest.parse(await _body(receive))
        cut = Cut.of(answer(request), request.max_tokens)
        if not request.stream:
            if self.delays.first:
                await asyncio.sleep(self.delays.first)
            await _json(send, 200, whole(request, cut))
            return
        # The server forgets what is sent to a client that is gone; only this message tells.
        gone = asyncio.ensure_future(receive())
        self.streams += 1
        try:
            async with contextlib.aclosing(events(request, cut, self.delays, lambda: self.streams)) as stream:
                await _stream(send, stream, gone)
        finally:
            self.streams -= 1
            gone.cancel()


async def _stream(send: Send, stream: AsyncIterator[bytes], gone: "asyncio.Future[Message]") -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for part in stream:
        if gone.done():
            return
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _only(method: str, allowed: str, path: str) -> None:
    if method != allowed:
        raise BadRequest(f"Not allowed to {method} on {path}.", code="method_not_supported", status=405)


async def _body(receive: Receive) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > _MAX_BODY:
            raise BadRequest("The request is too large.", status=413)
        if not message.get("more_body"):
            return b"".join(parts)


async def _json(send: Send, status: int, value: Any) -> None:
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: they belong to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening address; raises OSError when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named: only then asyncio sets TCP_NODELAY, without which a piece waits 40 ms for the last ACK.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def make_server(delays: Delays) -> _Server:
    return _Server(
        uvicorn.Config(
            DemoModel(delays),
            access_log=False,
            backlog=2048,
            interface="asgi3",
            lifespan="off",
            log_level="critical",
            server_header=False,
            timeout_graceful_shutdown=0,
            timeout_keep_alive=75,
            ws="none",
        )
    )


@contextlib.contextmanager
def serve(
    host: str = "127.0.0.1", port: int = 0, *, token_delay_ms: float = 0, first_token_delay_ms: float = 0
) -> Iterator[str]:
    """Serve in a thread of this process; yields the base URL for clients (`http://127.0.0.1:PORT/v1`)."""
    bound = bind(host, port)
    server = make_server(Delays(first_token_delay_ms / 1000, token_delay_ms / 1000))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound])), name="demo-model", daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        yield f"http://{host}:{bound.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(10)
        bound.close()


async def run(bound: socket.socket, delays: Delays, stop: asyncio.Event, ready: str) -> None:
    """Serve until `stop` is set or the process that started this one has ended; says `ready` once it serves."""
    server = make_server(delays)
    serving = asyncio.create_task(server.serve([bound]))
    parent = os.getppid()
    while not (server.started or serving.done()):
        await asyncio.sleep(0.002)
    sys.stdout.write(ready + "\n")
    sys.stdout.flush()
    # An orphan is adopted by another process. (Linux' parent-death signal comes when the parent's thread ends.)
    while not (serving.done() or stop.is_set() or os.getppid() != parent):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.5)
    server.should_exit = True
    await serving
