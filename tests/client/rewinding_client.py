"""A client that goes back and is killed: `python -m tests.client.rewinding_client URL SESSION FOLDER STATE STEP`.

STEP: after which it dies: `settle`, `fork`, `look`, or `path`, the first path that is restored.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from codelab_client.local_executor import LocalExecutor
from codelab_client.rewind import Rewind
from codelab_client.session import Address, Session, connect
from codelab_client.session.rest import Rest
from codelab_client.tools.tree import Tree


def _dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying_after(owner: Any, name: str) -> None:
    """Die as soon as a method has done its work."""
    original = getattr(owner, name)

    async def method(*arguments: Any) -> None:
        await original(*arguments)
        _dies()

    def function(*arguments: Any) -> None:
        original(*arguments)
        _dies()

    setattr(owner, name, method if asyncio.iscoroutinefunction(original) else function)


STEPS: dict[str, tuple[Any, str]] = {
    "settle": (Session, "settle"),
    "fork": (Rest, "post"),
    "look": (Rewind, "_is_unused"),
    "path": (Tree, "apply"),
}


async def go_back(url: str, session_id: str, folder: Path, state: Path) -> None:
    """To before the newest message."""
    address, executor = Address.parse(url), LocalExecutor(folder, None, state, session=session_id)
    async with connect(address, folder, session_id=session_id, executor=executor, state=state) as session:
        rewind = Rewind(session, Rest(address, None), executor)
        newest, *_ = await rewind.points()
        await rewind.go_back(await rewind.preview(newest.message_id), "both")


if __name__ == "__main__":
    _dying_after(*STEPS[sys.argv[5]])
    asyncio.run(go_back(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))
