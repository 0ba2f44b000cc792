"""One connection to the server that is judged: what it has sent, and what of that is invalid."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from codelab_client.judge.frames import mistakes
from codelab_client.judge.rules import Report
from codelab_client.session.address import Address

Frame = dict[str, Any]


class Window:
    """frames: everything that has come, in order. patience: seconds to wait for a frame."""

    def __init__(self, socket: ClientConnection, report: Report, patience: float) -> None:
        self.frames: list[Frame] = []
        self._socket, self._report, self._patience = socket, report, patience
        self._arrival = asyncio.Event()

    async def send(self, frame_type: str, **fields: Any) -> None:
        """Send a frame."""
        await self.send_text(json.dumps({"type": frame_type, **fields}))

    async def send_text(self, text: str) -> None:
        """Send a message that need not be a frame. One that is lost with its connection gets no answer."""
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(text)

    async def frame(
        self, frame_type: str, begin: int = 0, *, patience: float | None = None, **fields: Any
    ) -> Frame | None:
        """The first frame like this from `begin` on; None if none comes in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience if patience is None else patience):
                while True:
                    for frame in self.frames[begin:]:
                        if frame.get("type") == frame_type and fields.items() <= frame.items():
                            return frame
                    self._arrival.clear()
                    await self._arrival.wait()
        return None

    async def answer(self, frame_type: str, **fields: Any) -> Frame | None:
        """Send a frame with a `request_id`, and wait for the frame that repeats it."""
        request_id = uuid.uuid4().hex
        await self.send(frame_type, request_id=request_id, **fields)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while True:
                    for frame in self.frames:
                        if frame.get("request_id") == request_id:
                            return frame
                    self._arrival.clear()
                    await self._arrival.wait()
        return None

    def logged(self) -> list[Frame]:
        """The frames of the conversation, which have a `seq` and a `type`."""
        return [frame for frame in self.frames if isinstance(frame.get("seq"), int) and "type" in frame]

    async def read(self) -> None:
        """Take frames until the connection ends."""
        with contextlib.suppress(ConnectionClosed):
            async for message in self._socket:
                frame, errors = mistakes(message, "ServerFrame")
                self._report.note("valid-frames", not errors, "; ".join(errors), frame or str(message))
                if frame is not None:
                    self.frames.append(frame)
                    self._arrival.set()


@contextlib.asynccontextmanager
async def opened(
    address: Address, token: str, report: Report, patience: float, session_id: str, **query: Any
) -> AsyncIterator[Window]:
    """A connection to a session. Raises OSError or InvalidStatus if the server refuses it."""
    url = address.of(session_id, **query)
    async with connect(url, additional_headers=address.headers(token, url), max_size=None) as socket:
        window = Window(socket, report, patience)
        reading = asyncio.ensure_future(window.read())
        try:
            yield window
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
