"""The two ways to a server: a program's stdin and stdout, and HTTP. Both bound what they read (`bounded`)."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelab_client import private_folder
from codelab_client.mcp.bounded import MOST_BYTES, Line, Lines
from codelab_client.mcp.config import McpConfigError, ServerConfig
from codelab_client.mcp.sign_in import SignIn
from codelab_client.private_file import append_to
from codelab_client.sandbox import Launch
from codelab_client.session.address import is_secure

if TYPE_CHECKING:
    import httpx2

_CHUNK = 65_536
#: Seconds that a program has to end after its stdin was closed, and after SIGTERM.
_END_S, _TERM_S = 2.0, 1.0
Streams = tuple[Any, Any]


@contextlib.asynccontextmanager
async def program(launch: Launch, env: Mapping[str, str], log: Path) -> AsyncIterator[Streams]:
    """Run a program. log: the file that gets its stderr. Raises OSError."""
    import anyio
    from mcp.client.stdio import get_default_environment

    private_folder.ensure(log.parent)
    with append_to(log, empty=True) as errors:
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=launch.cwd,
            env={**get_default_environment(), **env, **launch.env},
            start_new_session=True,
        )
    incoming_send, incoming_receive = anyio.create_memory_object_stream[Any](0)
    outgoing_send, outgoing_receive = anyio.create_memory_object_stream[Any](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, incoming_send)
            tasks.start_soon(_write, process, outgoing_receive)
            try:
                yield incoming_receive, outgoing_send
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        for stream in (incoming_send, incoming_receive, outgoing_send, outgoing_receive):
            stream.close()


async def _read(process: asyncio.subprocess.Process, incoming_send: Any) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    assert process.stdout is not None
    lines = Lines()
    async with incoming_send:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            while data := await process.stdout.read(_CHUNK):
                for text in filter(bytes.strip, (line.message() for line in lines.feed(data))):
                    try:
                        message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(text))
                    except ValueError as error:
                        message = error
                    await incoming_send.send(message)


async def _write(process: asyncio.subprocess.Process, outgoing_receive: Any) -> None:
    assert process.stdin is not None
    async with outgoing_receive:
        with contextlib.suppress(OSError):
            async for item in outgoing_receive:
                line = item.message.model_dump_json(by_alias=True, exclude_none=True)
                process.stdin.write(line.encode("utf-8", "replace") + b"\n")
                await process.stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program as the protocol wants it: by the end of its stdin, then by signals to all that it started."""
    assert process.stdin is not None
    process.stdin.close()
    for number, seconds in ((signal.SIGTERM, _END_S), (getattr(signal, "SIGKILL", signal.SIGTERM), _TERM_S)):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)
            break
        _signal(process, number)
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # what is left of its group
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        elif process.returncode is None:
            process.send_signal(number)


@contextlib.asynccontextmanager
async def address(server: ServerConfig, sign_in: SignIn) -> AsyncIterator[Streams]:
    """Connect to a server by streamable HTTP. Raises McpConfigError if the way is not encrypted or nobody signs in."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    if not is_secure(server.url):
        raise McpConfigError(f"{server.url} is not encrypted: use https://")
    # A compressed answer could become any number of bytes.
    headers = {**server.headers, "Accept-Encoding": "identity"}
    hooks: Any = {"request": [sign_in.check], "response": [_bounded]}
    has_token = any(name.lower() == "authorization" for name in server.headers)
    auth = None if has_token else await sign_in.auth()
    timeout = httpx2.Timeout(30.0, read=300.0)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


async def _bounded(response: "httpx2.Response") -> None:
    """Bound the body of a response that begins."""
    import httpx2

    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.DecodingError("The server compresses its answers unasked", request=response.request)
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    body = stream
    are_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in _events(body) if are_events else _whole(body):
                yield piece

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = Bounded()


async def _whole(body: AsyncIterator[bytes] | Any) -> AsyncIterator[bytes]:
    """A body that is one message."""
    lines = Lines()
    async for data in body:
        lines.add(data)
    yield lines.end().message()


async def _events(body: AsyncIterator[bytes] | Any) -> AsyncIterator[bytes]:
    """A stream of events with a message each. No more lines of an event are passed on than a message may have bytes."""
    lines, size = Lines(), 0
    async for data in body:
        for line in lines.feed(data):
            size = size + len(line.head) if line.head.strip() else 0
            if size <= 2 * MOST_BYTES:
                yield _field(line) + b"\n"


def _field(line: Line) -> bytes:
    name, colon, head = line.head.partition(b":")
    if name != b"data" or line.size <= len(line.head):
        return line.head
    return name + colon + line._replace(head=head, size=line.size - len(name + colon)).message()
