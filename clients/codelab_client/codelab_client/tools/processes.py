"""Processes: each in a group of its own, with bounded output and a scrubbed environment."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from codelab_client.execution import OnOutput, Stream
from codelab_client.sandbox import Launch
from codelab_client.tools import limits
from codelab_client.tools.output import Output
from codelab_client.tools.terminal_readers import EVERY_S, members, names, terminal_readers

_CHUNK = 65_536
#: Seconds to wait for the pipes of an ended process, which a daemon may hold open.
_DRAIN_SECONDS = 0.5
#: The variables that a command gets. Everything else, tokens and keys above all, stays with the client.
_KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ"),
        # POSIX's and the GNU C library's; another name that begins with LC_ may be a key of somebody's.
        *("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
        *("LC_ADDRESS", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_NAME", "LC_PAPER", "LC_TELEPHONE"),
    }
)
#: npm asks its registry for a newer npm, for more than a minute where there is no network.
_SET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
}


def scrubbed(environment: Mapping[str, str], also: Sequence[str] = ()) -> dict[str, str]:
    """The variables that a command gets. also: names of others that the user lets through."""
    return {name: value for name, value in environment.items() if name in _KEPT or name in also} | _SET


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, or the signal that killed it (then the exit code is None)."""

    exit_code: int | None
    signal: str | None


class Process:
    """A running process. Its streams are read as long as it runs; `stdout` and `stderr` are what was read."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        pipes: Sequence["_Pipe"],
        *,
        monitored: bool,
        stdin: bytes | None,
        limit: int | None,
    ) -> None:
        self._process = process
        self._pipes = pipes
        self._monitored = monitored
        self._has_new_output = asyncio.Event()
        self.stdout = Output() if limit is None else Output(limit + 1, 0)
        self.stderr = Output()
        #: The programs that were ended because they waited for a terminal, in that order, each once.
        self.wanted_terminal: dict[str, None] = {}
        #: The programs that it left in the background, and that ended with it. Linux only; none elsewhere.
        self.left_behind: Sequence[str] = ()
        outputs = (self.stdout, self.stderr)
        self._readers = [asyncio.create_task(self._read(*pair)) for pair in zip(pipes, outputs, strict=True)]
        self._writer = asyncio.create_task(self._write(stdin)) if stdin is not None else None

    @classmethod
    async def start(
        cls, launch: Launch, environment: Mapping[str, str], stdin: bytes | None = None, limit: int | None = None
    ) -> Self:
        """Start a program in a session and group of its own. Raises OSError.

        stdin: what it reads; None: nothing. limit: the characters of its output that are kept, and one more; None: of
        its beginning and its end, as of a command's.
        """
        starting = asyncio.ensure_future(cls._started(launch, environment, stdin, limit))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # It may run already. asyncio would kill it, and only itself: it may clean up, and its group ends with it.
            with suppress(OSError):
                await asyncio.shield((await starting).stop())
            raise

    @classmethod
    async def _started(
        cls, launch: Launch, environment: Mapping[str, str], stdin: bytes | None, limit: int | None
    ) -> Self:
        pipes = [await _Pipe.open(), await _Pipe.open()]
        try:
            process = await asyncio.create_subprocess_exec(
                *launch.argv,
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=pipes[0].end,
                stderr=pipes[1].end,
                cwd=launch.cwd,
                env={**environment, **launch.env},
                start_new_session=True,
            )
        except BaseException:
            for pipe in pipes:
                pipe.close()
            raise
        finally:
            for pipe in pipes:
                os.close(pipe.end)
        return cls(process, pipes, monitored=launch.monitored, stdin=stdin, limit=limit)

    @property
    def has_ended(self) -> bool:
        """Whether the process itself has ended."""
        return self._process.returncode is not None

    async def wait(self, on_output: OnOutput | None = None, beat: float | None = None) -> Ended:
        """Wait for the end of the process; then nothing of its group is left.

        on_output: gets its output in pieces. beat: an empty piece is sent after so many seconds without output. If the
        waiting task is cancelled, or `on_output` raises, the process is stopped.
        """
        try:
            streaming = asyncio.create_task(self._stream(on_output, beat)) if on_output else None
            watching = asyncio.create_task(self._end_terminal_readers())
            try:
                waiting = asyncio.create_task(self._process.wait())
                await asyncio.wait({waiting, streaming} if streaming else {waiting}, return_when=_FIRST)
                if streaming and streaming.done():
                    streaming.result()
                await waiting
                self.left_behind = names(self._process.pid)
                await self._finish()
            finally:
                await end_tasks(watching, *([streaming] if streaming else []))
            if on_output:
                await self._flush(on_output)
        except BaseException:
            await asyncio.shield(self.stop())
            raise
        return self.ended()

    def ended(self) -> Ended:
        """How it ended."""
        code = self._process.returncode
        if code is None or code >= 0:
            return Ended(code, None)
        try:
            return Ended(None, signal.Signals(-code).name)
        except ValueError:
            return Ended(None, str(-code))

    async def stop(self) -> None:
        """End the process and its group: SIGTERM, and after a grace period SIGKILL."""
        if not self.has_ended:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), limits.GRACE_SECONDS)
        await self._finish()

    async def settle(self, seconds: float) -> None:
        """Wait until the process has written something or ended, at most so many seconds."""
        ending = asyncio.create_task(self._process.wait())
        writing = asyncio.create_task(self._has_new_output.wait())
        await asyncio.wait({ending, writing}, timeout=seconds, return_when=_FIRST)
        await end_tasks(ending, writing)

    # -- ending ------------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Kill what is left of the group, and read what it has written."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await asyncio.wait(self._readers, timeout=_DRAIN_SECONDS)
        await end_tasks(*self._readers, *([self._writer] if self._writer else []))
        for pipe in self._pipes:
            pipe.close()

    def _signal(self, number: int) -> None:
        """Signal the group, but not a monitor, whose death would kill the program at once."""
        if not self._monitored:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            return
        for member in members(self._process.pid):
            with suppress(ProcessLookupError, PermissionError):
                if member != self._process.pid:
                    os.kill(member, number)

    async def _end_terminal_readers(self) -> None:
        """Do to programs that wait for a terminal what its end does to them; kill those that do not mind."""
        hung_up = set[int]()
        pipes = [pipe.number for pipe in self._pipes]
        while True:
            await asyncio.sleep(EVERY_S)
            for process, name in await asyncio.to_thread(terminal_readers, self._process.pid, pipes):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL if process in hung_up else signal.SIGHUP)
                hung_up.add(process)
                self.wanted_terminal[name] = None

    # -- streams -----------------------------------------------------------------------------------------------------

    async def _read(self, pipe: "_Pipe", output: Output) -> None:
        while data := await pipe.reader.read(_CHUNK):
            output.feed(data)
            self._has_new_output.set()
        output.feed(b"", final=True)

    async def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        self._process.stdin.close()

    async def _stream(self, on_output: OnOutput, beat: float | None) -> None:
        while True:
            try:
                await asyncio.wait_for(self._has_new_output.wait(), beat)
            except TimeoutError:
                await on_output("stdout", "")
                continue
            self._has_new_output.clear()
            await self._flush(on_output)
            await asyncio.sleep(limits.PIECE_SECONDS)

    async def _flush(self, on_output: OnOutput) -> None:
        streams: tuple[tuple[Stream, Output], ...] = (("stdout", self.stdout), ("stderr", self.stderr))
        for stream, output in streams:
            text = output.fresh()
            for start in range(0, len(text), limits.PIECE_CHARS):
                await on_output(stream, text[start : start + limits.PIECE_CHARS])


_FIRST = asyncio.FIRST_COMPLETED


@dataclass(frozen=True)
class _Pipe:
    """A pipe of our own, so that waiting for a process does not mean to wait for daemons that hold its pipes open.

    end: the descriptor for the process. number: the pipe's, its inode.
    """

    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport
    end: int
    number: int

    @classmethod
    async def open(cls) -> Self:
        read_end, write_end = os.pipe()
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
        )
        return cls(reader, transport, write_end, os.fstat(write_end).st_ino)

    def close(self) -> None:
        self.transport.close()


async def end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks and wait for their ends. A cancellation of who waits is not lost, as it is with `await task`."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # nobody else looks at it


def shell(command: str) -> tuple[str, ...]:
    """The program that runs a command line. POSIX only."""
    if sys.platform == "win32":
        raise OSError("commands run on Linux and macOS only")
    return ("/bin/sh", "-c", command)


def own_path(environment: Mapping[str, str], root: Path) -> str:
    """The PATH for programs that the client itself runs: absolute directories outside the workspace."""
    folders = [Path(folder) for folder in environment.get("PATH", os.defpath).split(os.pathsep)]
    outside = (folder for folder in folders if folder.is_absolute() and not folder.resolve().is_relative_to(root))
    return os.pathsep.join(map(str, outside))
