"""Runs the command that builds the project's web page, beside the running system."""

import asyncio
import contextlib
import os
import re
import shlex
import signal
from collections import deque
from enum import Enum

from codelab_local.host.notices import notice
from codelab_local.host.processes import before_exec

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_KEPT_LINES = 12


class State(Enum):
    OFF = "off"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class PageBuild:
    """One run of `command`, written like in a shell. Its output is its progress."""

    def __init__(self, command: str) -> None:
        self._command = shlex.split(command)
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.state = State.OFF

    @property
    def output(self) -> list[str]:
        """The newest lines of the command's output."""
        return list(self._lines)

    def start(self) -> None:
        """Begin, if there is a command. Call this from the main thread, which the command does not outlive."""
        if self._command:
            self.state = State.RUNNING
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Kill the command and all that it started."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def _run(self) -> None:
        try:
            # SIGTERM, because `make` passes it on to its commands, which the kernel does not end with it.
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=before_exec(os.getpid(), signal.SIGTERM),
            )
            assert self._process.stdout is not None
            while data := await self._process.stdout.read(1 << 16):
                text = _ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r", "\n")
                self._lines += [line.strip()[:300] for line in text.split("\n") if line.strip()]
            code = await self._process.wait()
        except OSError as error:
            self._lines.append(str(error))
            code = 1
        self.state = State.FAILED if code else State.DONE
        if code:
            notice("the web page cannot be built, and the system runs without it; / says why")
