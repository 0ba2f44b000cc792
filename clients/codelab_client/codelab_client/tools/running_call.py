"""A call that is being executed: its output, its deadline, and the user who is asked about it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from codelab_client.execution import OnOutput, Stream, ToolCall
from codelab_client.tools import limits

#: Seconds before a deadline at which a call ends, so that its outcome arrives in time: this share, at most so many.
_MARGIN, _MOST_MARGIN = 0.1, 2.0
#: Seconds between two signs of life of a call that waits for the user, at least and at most.
_LEAST_PAUSE, _PAUSE = 0.2, 30.0


@dataclass
class RunningCall:
    """A running call. Times are of the event loop's clock, in seconds."""

    call: ToolCall
    on_output: OnOutput
    allowance: float | None
    start_time: float
    due: float | None
    task: "asyncio.Task[Any] | None" = None
    last_output: str = field(default="", repr=False)

    async def show(self, stream: Stream, text: str) -> None:
        """Send a piece of output, which moves the deadline as it does at the server."""
        await self.on_output(stream, text)
        self.last_output = (self.last_output + text)[-limits.LAST_CHARS :]
        if self.allowance is not None and self.due is not None:
            now = asyncio.get_running_loop().time()
            latest = self.start_time + limits.PROGRESS_SECONDS
            self.due = max(self.due, min(now + self.allowance, latest) - margin(self.allowance))

    @asynccontextmanager
    async def asks(self) -> AsyncGenerator[None]:
        """Keep the call open while the user is asked: a person may take longer than its deadline."""
        waiting = asyncio.ensure_future(self._wait())
        try:
            yield
        finally:
            waiting.cancel()

    async def _wait(self) -> None:
        pause = _PAUSE if self.allowance is None else min(max(self.allowance / 2, _LEAST_PAUSE), _PAUSE)
        while True:
            await asyncio.sleep(pause)
            await self.show("stdout", "")


def margin(allowance: float) -> float:
    """Seconds before its deadline at which a call with so many seconds ends."""
    return min(_MARGIN * allowance, _MOST_MARGIN)
