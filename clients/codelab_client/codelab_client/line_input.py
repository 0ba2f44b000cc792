"""A line of the user, asked for on stderr."""

import asyncio
import sys


async def ask(question: str) -> str:
    """The line that the user answers, without keeping the event loop, and Ctrl-C, from their work."""
    sys.stderr.write(question)
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not line.done():
            line.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        return await line
    finally:
        loop.remove_reader(sys.stdin.fileno())
