"""Who drives the client: a person, who is told what to do, or a command, which gets lines on its stdin."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Driver(Protocol):
    """Starts the client and does what its user does. patience: seconds that the client and its user may take."""

    patience: float

    async def start(self, url: str) -> None:
        """Start the client, or start it again after it has ended."""

    async def say(self, text: str) -> None:
        """Send a message."""

    async def decide(self, decision: str) -> None:
        """Decide the call that waits: `approve`, `reject`, or `edit` for any other arguments."""

    def has_ended(self) -> bool:
        """Whether the client is known not to run."""

    def output(self) -> str | None:
        """What the client has shown so far; None if that is not known."""


class Person:
    """The client's author, who reads what to do, one line each."""

    patience = 120.0

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    async def start(self, url: str) -> None:
        _tell(f"start your client in {self._workspace} with {url}")

    async def say(self, text: str) -> None:
        _tell(f"send the message `{text}`")

    async def decide(self, decision: str) -> None:
        words = "change the arguments of the call, and approve it" if decision == "edit" else f"{decision} the call"
        _tell(words)

    def has_ended(self) -> bool:
        return False

    def output(self) -> None:
        return None


def _tell(sentence: str) -> None:
    sys.stdout.write(f"> {sentence}\n")
    sys.stdout.flush()


class Command:
    """A client that is a program.

    lines: what its stdin gets for each decision; for one that is missing, that of `approve`.
    """

    def __init__(self, command: str, workspace: Path, lines: Mapping[str, str], patience: float) -> None:
        self.patience = patience
        self._command, self._workspace, self._lines = command, workspace, lines
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._output = ""

    async def start(self, url: str) -> None:
        await self.stop()
        words = [word.replace("{url}", url) for word in shlex.split(self._command)]
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *words, cwd=self._workspace, stdin=pipe, stdout=pipe, start_new_session=True
        )
        self._reading = asyncio.ensure_future(self._read(self._process))

    async def say(self, text: str) -> None:
        await self._type(text)

    async def decide(self, decision: str) -> None:
        await self._type(self._lines.get(decision, self._lines["approve"]))

    def has_ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    def output(self) -> str:
        return self._output

    async def stop(self) -> None:
        """End the program, and whatever it has started."""
        if self._process is None or self._reading is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading
        self._process = None

    async def _type(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while data := await process.stdout.read(65_536):
            self._output += data.decode(errors="replace")
