"""A line of the user, asked for on stderr."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator


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


async def ask_hidden(question: str) -> str:
    """The same, without showing what the user types. (`getpass` would keep Ctrl-C from an event loop.)"""
    with _no_echo():
        try:
            return await ask(question)
        finally:
            sys.stderr.write("\n")


@contextlib.contextmanager
def _no_echo() -> Iterator[None]:
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    # Also forgets what was typed before the question.
    termios.tcsetattr(descriptor, termios.TCSAFLUSH, silent)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
