"""A server that a test plays against the client, over a real WebSocket."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from codelab_client.session import Timing, connect
from websockets.asyncio.server import ServerConnection, serve

from tests.client.executing import CountingExecutor

#: A client that repeats and reconnects soon.
FAST = Timing(repeat_s=1, tick_s=0.02, pause_s=0.01, longest_pause_s=0.05)
#: The greeting of a new session.
INFO: dict[str, Any] = {
    "type": "session_info", "session_id": "s", "agent": "coder", "status": "idle", "title": "", "last_seq": 0,
    "pending_calls": [], "plan": [], "settings": {}, "limits": {},
}  # fmt: skip

Talk = Callable[[ServerConnection], Awaitable[None]]
Answer = Callable[[ServerConnection, dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def serving(talk: Talk, **options: Any) -> AsyncIterator[str]:
    """A server that leaves each connection to `talk`. Yields its address."""
    async with serve(talk, "127.0.0.1", 0, **options) as running:
        yield f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}"


def greeting(answer: Answer) -> Talk:
    """Greet as our server does, and give each other frame to `answer`."""

    async def talk(socket: ServerConnection) -> None:
        async for message in socket:
            frame = json.loads(message)
            if frame["type"] == "hello":
                await socket.send(json.dumps(INFO))
            elif frame["type"] == "resume":
                await socket.send(json.dumps({"type": "resumed", "last_seq": frame["last_seq"], "open_calls": []}))
            else:
                await answer(socket, frame)

    return talk


def opened(url: str, state: Path, executor: CountingExecutor | None = None, **options: Any) -> Any:
    """A session with the server at `url`."""
    given = {"session_id": "s", "state": state, "timing": FAST, "executor": executor or CountingExecutor(), **options}
    return connect(url, state, **given)
