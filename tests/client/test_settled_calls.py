"""Calls that the server settles while the client executes them."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codelab_client.execution import OnOutput, ToolCall
from codelab_client.session.calls import Calls
from codelab_client.session.events import CallFinished, Event, event_of
from codelab_client.session.events import ToolCall as CallFrame
from codelab_client.session.journal import Journal

from tests.client.executing import CountingExecutor

CALL = event_of(
    {
        "type": "tool_call",
        "call_id": "c1",
        "tool_name": "read_file",
        "arguments": {"path": "a"},
        "requires_approval": False,
    }
)


async def test_the_result_of_a_cancelled_call_is_not_sent(tmp_path: Path) -> None:
    """The server would refuse it, and the user would read an error for what Ctrl-C did."""
    journal = Journal(tmp_path, "s")
    sent: list[Mapping[str, Any]] = []
    shown: list[Event] = []
    started, ended = asyncio.Event(), asyncio.Event()

    async def work(_: ToolCall, __: OnOutput) -> None:
        started.set()
        await asyncio.sleep(60)

    async def send(frame: Mapping[str, Any]) -> None:
        sent.append(frame)

    def show(event: Event) -> None:
        shown.append(event)
        if isinstance(event, CallFinished):
            ended.set()

    async def has_room() -> None:
        pass

    failures: list[BaseException] = []
    calls = Calls(CountingExecutor(work), journal, send, show, failures.append, has_room)
    assert isinstance(CALL, CallFrame)
    calls.take(CALL)
    await started.wait()
    await calls.settled("c1")
    await ended.wait()
    await calls.aclose()
    assert failures == []
    assert sent == []
    assert isinstance(shown[-1], CallFinished)
    assert journal.unsettled() == []
