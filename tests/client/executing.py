"""An executor for tests, which counts how often each call is executed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from codelab_client.execution import OnOutput, ToolCall, ToolOutcome

Work = Callable[[ToolCall, OnOutput], Awaitable[Any]]


class CountingExecutor:
    """Executes calls with `work`, which gives a result or raises OSError; without it, a call's result is its path."""

    tools_supported = ("read_file", "write_file", "run_command", "list_files", "delete_file")

    def __init__(self, work: Work | None = None) -> None:
        self.executed: Counter[str] = Counter()
        self.calls: list[ToolCall] = []
        self.cancelled: list[str] = []
        self._work = work
        self._running: dict[str, asyncio.Task[Any]] = {}

    async def execute(self, call: ToolCall, on_output: OnOutput) -> ToolOutcome:
        self.executed[call.call_id] += 1
        self.calls.append(call)
        if self._work is None:
            return ToolOutcome({"content": f"content of {call.arguments.get('path')}"})
        task = self._running[call.call_id] = asyncio.ensure_future(self._work(call, on_output))
        try:
            return ToolOutcome(await task)
        except OSError as error:
            return ToolOutcome.failed("FILE_NOT_FOUND", str(error))
        except asyncio.CancelledError:
            return ToolOutcome.failed("CANCELLED", "The call was cancelled")
        finally:
            del self._running[call.call_id]

    async def cancel(self, call_id: str) -> None:
        self.cancelled.append(call_id)
        if task := self._running.get(call_id):
            task.cancel()

    async def aclose(self) -> None:
        pass
