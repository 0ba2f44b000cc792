"""Writes the functions' output to stderr, each line with the function's name."""

import asyncio
import os
import sys


class FunctionLog:
    """A pipe that all processes of one function write to."""

    def __init__(self, name: str) -> None:
        self._prefix = f"[{name}] "
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._partial = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._readable)

    def line(self, text: str) -> None:
        """Write a line of the local cloud itself about this function."""
        _write(f"{self._prefix}{text}\n")

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
            _write("".join(f"{self._prefix}{line}\n" for line in text.split("\n") if line.strip()))


def notice(text: str) -> None:
    """Write one line of the local cloud itself to stderr."""
    _write(" ".join(text.split()) + "\n")


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (BrokenPipeError, ValueError):
        pass
