"""A client that executes calls until it is killed: `python -m tests.client.working_client URL SESSION STATE LOG`.

It writes a line to LOG before and after each execution.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from codelab_client.execution import OnOutput, ToolCall
from codelab_client.session import Timing, connect

from tests.client.executing import CountingExecutor

QUICK = Timing(open_s=5, repeat_s=2, tick_s=0.05, pause_s=0.02, longest_pause_s=0.3)


async def work(url: str, session_id: str, state: Path, log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def execute(call: ToolCall, _: OnOutput) -> dict[str, str]:
        os.write(file, f"begin {call.call_id}\n".encode())
        await asyncio.sleep(random.uniform(0, 0.05))
        os.write(file, f"end {call.call_id}\n".encode())
        return {"content": f"content of {call.arguments['path']}"}

    executor = CountingExecutor(execute)
    async with connect(url, state, session_id=session_id, state=state, executor=executor, timing=QUICK) as session:
        async for _ in session.events():
            pass


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))
