"""Lines on stdin and stdout. Threads read and write, so that files, pipes and sockets all work on every platform."""

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable

#: Bytes of the longest line that is read; a longer one is dropped up to its end.
MOST_LINE_BYTES = 32_000_000
#: Lines that were read and not taken yet, and bytes that wait to be written before events are held back.
_LINES_AHEAD = 100
_ROOM_BYTES = 4_000_000
#: Seconds that the last lines may take to be written.
_FLUSH_S = 2.0


class Stdio:
    """Reads lines from stdin until its end, and writes to what was stdout.

    From then on, file descriptor 1 is stderr: nothing else in this process or its children writes to the editor.
    """

    def __init__(self) -> None:
        self._input, self._output = os.dup(0), os.dup(1)
        null_device = os.open(os.devnull, os.O_RDWR)
        os.dup2(null_device, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # stderr is closed
            os.dup2(null_device, 1)
            os.dup2(null_device, 2)
        os.close(null_device)
        sys.stdout = sys.stderr
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ahead = threading.Semaphore(_LINES_AHEAD)
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._writer = threading.Thread(target=self._write_all, name="stdout", daemon=True)
        #: Set at the end of stdin, or if stdout is closed.
        self.end = asyncio.Event()

    def start(self, take: Callable[[bytes], None], too_long: Callable[[], None]) -> None:
        """Begin to read. Both functions are called in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._writer.start()
        threading.Thread(target=self._read_all, args=(take, too_long), name="stdin", daemon=True).start()

    def write(self, line: bytes) -> None:
        """Write a line, after those before it."""
        with self._lock:
            self._waiting_bytes += len(line)
        self._lines.put(line)

    async def room(self) -> None:
        """Return when the editor has read most of what was written."""
        while self._waiting_bytes > _ROOM_BYTES and not self.end.is_set():
            await asyncio.sleep(0.01)

    def flush(self) -> None:
        """Write what waits, for a moment at most."""
        self._lines.put(None)
        self._writer.join(_FLUSH_S)

    # -- threads -------------------------------------------------------------------------------------------------

    def _read_all(self, take: Callable[[bytes], None], too_long: Callable[[], None]) -> None:
        buffer, dropping = bytearray(), False
        while chunk := self._read():
            *lines, tail = chunk.split(b"\n")
            for line in lines:
                if dropping or len(buffer) + len(line) > MOST_LINE_BYTES:
                    self._call(lambda _: too_long(), b"")
                else:
                    self._call(take, bytes(buffer) + line)
                buffer.clear()
                dropping = False
            dropping = dropping or len(buffer) + len(tail) > MOST_LINE_BYTES
            if dropping:
                buffer.clear()
            else:
                buffer += tail
        if buffer:
            self._call(take, bytes(buffer))
        self._end()

    def _read(self) -> bytes:
        try:
            return os.read(self._input, 65_536)
        except OSError:
            return b""

    def _call(self, take: Callable[[bytes], None], line: bytes) -> None:
        def taken() -> None:
            self._ahead.release()
            take(line)

        self._ahead.acquire()
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(taken)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            view = memoryview(line)
            try:
                while view:
                    view = view[os.write(self._output, view) :]
            except OSError:
                self._end()
                return
            with self._lock:
                self._waiting_bytes -= len(line)

    def _end(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.end.set)
