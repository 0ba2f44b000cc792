"""Functions that are web servers behind the Lambda Web Adapter, which starts their script and forwards requests to it.

In the cloud such a function has its own URL; here it gets the requests of a path prefix. Its responses are streamed.
One process serves all requests. The first request starts it; it ends when it is idle for a while or its source changes.

It listens on the Unix socket LOCAL_SOCKET in a private folder. Web pages and other users of the machine could reach a
port directly, and bypass the public port's checks.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from pathlib import Path

from codelab_local.functions.log import FunctionLog
from codelab_local.host.processes import before_exec, kill_group
from codelab_local.http.protocol import Request, Response, Stream
from codelab_local.template.deployment import Function

_WRAPPER = "/opt/bootstrap"
_START_S = 20.0
_CHUNK = 64 * 1024
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "expect"}


def is_web_function(function: Function) -> bool:
    """Does the Lambda Web Adapter run it?"""
    return function.environment.get("AWS_LAMBDA_EXEC_WRAPPER") == _WRAPPER


class WebFunction:
    """One web function. Use it in the event loop of the main thread."""

    def __init__(self, function: Function, environment: Mapping[str, str], log: FunctionLog, socket: Path) -> None:
        self.function = function
        self.environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = socket
        self._open = 0
        self._idle_since = 0.0
        self._starting: asyncio.Task[None] | None = None

    async def handle(self, request: Request) -> Response | Stream:
        """Forward a request. 502 if the server does not start or answer, as from the adapter."""
        try:
            return await self._ask(request) or await self._ask(request) or _bad_gateway()
        except OSError as error:
            self._log.line(f"does not answer: {error}")
            return _bad_gateway()

    def change(self) -> None:
        """The source or the environment changed: the next request gets the new one."""
        self.close()

    def reap(self, idle_s: float) -> None:
        """End the process if it was idle for `seconds`, and reap a dead one."""
        if self._process is None or self._starting is not None:
            return
        is_idle = not self._open and time.monotonic() - self._idle_since > idle_s
        if is_idle or self._process.poll() is not None:
            self.close()

    def close(self) -> None:
        if self._process is not None:
            kill_group(self._process)
            self._process = None

    async def _ask(self, request: Request) -> Stream | None:
        """The answer, or None from a dying process: it refuses connections, or accepts them and closes them."""
        await self._listen()
        process = self._process
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket, limit=_CHUNK)
        except ConnectionRefusedError:
            if await _has_ended(process):
                return None
            raise
        writer.write(_head(request) + request.body)
        with suppress(ConnectionError):
            if first := await reader.read(_CHUNK):
                return Stream(self._answer(first, reader, writer))
        writer.close()
        if await _has_ended(process):
            return None
        raise ConnectionResetError("it closed the connection without an answer")

    async def _listen(self) -> None:
        """Start the process unless it runs."""
        if self._process is None or self._process.poll() is not None:
            self._starting = self._starting or asyncio.get_running_loop().create_task(self._start())
        if self._starting is not None:
            await asyncio.shield(self._starting)

    async def _start(self) -> None:
        try:
            self.close()
            self._idle_since = time.monotonic()
            self._socket.unlink(missing_ok=True)
            path = os.pathsep.join((str(Path(sys.executable).parent), self.environment.get("PATH", os.defpath)))
            self._process = subprocess.Popen(
                [str(self.function.folder / self.function.handler)],
                cwd=self.function.folder,
                env={**self.environment, "PATH": path, "LOCAL_SOCKET": str(self._socket)},
                stdin=subprocess.DEVNULL,
                stdout=self._log.writer,
                stderr=self._log.writer,
                start_new_session=True,
                preexec_fn=before_exec(os.getpid(), 9),
            )
            await self._wait_until_it_listens(self._process)
        finally:
            self._starting = None

    async def _wait_until_it_listens(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(self._socket)
                writer.close()
                return
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)

    async def _answer(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> AsyncGenerator[bytes]:
        self._open += 1
        try:
            yield first
            while chunk := await reader.read(_CHUNK):
                yield chunk
        finally:
            self._open -= 1
            self._idle_since = time.monotonic()
            with suppress(OSError):
                writer.close()


async def _has_ended(process: "subprocess.Popen[bytes] | None") -> bool:
    """Has the process ended, or does it end at once?"""
    if process is None:
        return False
    try:
        await asyncio.to_thread(process.wait, timeout=1)
    except subprocess.TimeoutExpired:
        return False
    return True


def _bad_gateway() -> Response:
    return Response.json({"message": "Bad Gateway"}, 502)


def _head(request: Request) -> bytes:
    """The request to forward. The connection ends with the response."""
    target = request.path + (f"?{request.query}" if request.query else "")
    headers = {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
    headers |= {"x-forwarded-for": request.peer, "connection": "close", "content-length": str(len(request.body))}
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")
