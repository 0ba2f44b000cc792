"""Writes the functions' output to stderr, each line with the function's name."""

import asyncio
import os
from collections.abc import Callable

from codelab_local.host.notices import write


class FunctionLog:
    """A pipe that all processes of one function write to. `listener` also gets each line, without the name."""

    def __init__(self, name: str, listener: Callable[[str], None] | None = None) -> None:
        self._prefix = f"[{name}] "
        self._listener = listener
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._partial = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._readable)

    def line(self, text: str) -> None:
        """Write a line of the local cloud itself about this function."""
        self._put([text])

    def close(self) -> None:
        self._readable()
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        os.close(self.writer)

    def _readable(self) -> None:
        try:
            data = self._partial + os.read(self._reader, 1 << 16)
        except BlockingIOError:
            return
        *lines, self._partial = data.split(b"\n")
        # awslambdaric separates the lines of a traceback with carriage returns, for CloudWatch.
        text = b"\n".join(line.replace(b"\r", b"\n") for line in lines).decode("utf-8", "replace")
        if text.strip():
            self._put([line for line in text.split("\n") if line.strip()])

    def _put(self, lines: list[str]) -> None:
        if self._listener is not None:
            for line in lines:
                self._listener(line)
        write("".join(f"{self._prefix}{line}\n" for line in lines))
