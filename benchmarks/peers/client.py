"""The one client: a session of any of the servers, and the times of its turns."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

#: Seconds.
PATIENCE = 120


class Refused(Exception):
    """The server has answered with an error; the session goes on."""


#: What a turn raises if its connection ends, or if it takes too long.
BROKEN = (OSError, httpx.HTTPError, WebSocketException)  # TimeoutError is an OSError.


class Turn(NamedTuple):
    """When it began, when its first text came and when it had ended, in seconds of the monotonic clock; its text."""

    began: float
    first: float
    ended: float
    text: str


#: From the user's message to the stream of the answer's pieces. The stream ends when the turn has ended.
Say = Callable[[str], AsyncIterator[str]]
#: From a session's name to what speaks with it while it is connected.
Open = Callable[[str], AbstractAsyncContextManager[Say]]


async def turn(say: Say, content: str) -> Turn:
    """Play a turn. Raises :class:`Refused` or one of :data:`BROKEN`."""
    began = time.monotonic()
    first, pieces = 0.0, []
    async with asyncio.timeout(PATIENCE):
        async for piece in say(content):
            first = first or time.monotonic()
            pieces.append(piece)
    return Turn(began, first, time.monotonic(), "".join(pieces))


@asynccontextmanager
async def web_socket(url: str) -> AsyncIterator[Say]:
    """A connection to us or to a server by hand: they speak the same frames."""
    async with connect(url, compression=None, open_timeout=PATIENCE) as socket:

        async def say(content: str) -> AsyncIterator[str]:
            await socket.send(json.dumps({"type": "user_message", "content": content}))
            while True:
                frame = json.loads(await socket.recv())
                if frame["type"] == "assistant_message" and frame["token"]:
                    yield frame["token"]
                elif frame["type"] == "agent_status" and frame["status"] == "idle":
                    return
                elif frame["type"] == "error":
                    raise Refused(frame["message"])

        yield say


@asynccontextmanager
async def langgraph_thread(url: str) -> AsyncIterator[Say]:
    """A thread of a LangGraph server, which streams Server-Sent Events."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
        thread = (await http.post("/threads", json={})).raise_for_status().json()["thread_id"]

        async def say(content: str) -> AsyncIterator[str]:
            message = {"role": "user", "content": content}
            run: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": [message]}}
            run["stream_mode"] = ["messages-tuple"]
            async with http.stream("POST", f"/threads/{thread}/runs/stream", json=run) as answer:
                answer.raise_for_status()
                event = ""
                async for line in answer.aiter_lines():
                    name, _, value = line.partition(": ")
                    if name == "event":
                        event = value
                    elif name == "data" and event == "error":
                        raise Refused(value)
                    elif name == "data" and event == "messages" and (piece := json.loads(value)[0]["content"]):
                        yield piece

        yield say
