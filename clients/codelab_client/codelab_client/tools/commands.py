"""The tools that run commands: run_command, run_persistent and kill_process."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from codelab_client.execution import OnOutput
from codelab_client.sandbox import Access, Sandbox, folders_above
from codelab_client.tools import limits
from codelab_client.tools.explanations import explanation
from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.last_state import last_state
from codelab_client.tools.processes import Ended, Process, end_tasks, shell
from codelab_client.tools.repository import find


class CommandRunner(Protocol):
    """What executes the tools that run commands."""

    async def run(self, command: str, cwd: Path, on_output: OnOutput, beat: float | None) -> dict[str, Any]:
        """The result of run_command. beat: seconds after which `on_output` gets an empty piece as a sign of life.

        If the waiting task is cancelled, the command is stopped. Raises ToolFailure, as the others do.
        """
        ...

    async def start(self, command: str, process_id: str, cwd: Path) -> dict[str, Any]:
        """The result of run_persistent."""
        ...

    async def read(self, process_id: str) -> dict[str, Any]:
        """The result of read_process."""
        ...

    async def kill(self, process_id: str) -> dict[str, Any]:
        """The result of kill_process."""
        ...

    async def aclose(self) -> None:
        """Stop all processes."""
        ...


@dataclass
class _Persistent:
    """A process that goes on after its call. watching: ends when it has ended with everything it started."""

    process: Process
    watching: "asyncio.Task[Ended]"


class Commands:
    """Commands in one workspace.

    readable: directories outside it that they may read. changes_git: whether they may change `.git`. protects: the
    files in it that they may not change, absolute and without links.
    """

    def __init__(
        self,
        root: Path,
        sandbox: Sandbox,
        environment: Mapping[str, str],
        *,
        network: bool = False,
        readable: tuple[Path, ...] = (),
        changes_git: bool = False,
        protects: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        self._root = root
        self._sandbox = sandbox
        self._environment = environment
        self._network = network
        self._readable = readable
        self._changes_git = changes_git
        self._protects = protects
        self._persistent: dict[str, _Persistent] = {}

    async def run(self, command: str, cwd: Path, on_output: OnOutput, beat: float | None) -> dict[str, Any]:
        """The result of run_command. If the waiting task is cancelled, the command is stopped."""
        process = await self._start(command, cwd)
        end = await process.wait(on_output, beat)
        signal_field = {"signal": end.signal} if end.signal else {}
        return {
            "stdout": last_state(process.stdout.text()),
            "stderr": last_state(process.stderr.text()),
            "exit_code": end.exit_code,
            **signal_field,
            **self._surroundings(process),
        }

    async def start(self, command: str, process_id: str, cwd: Path) -> dict[str, Any]:
        """The result of run_persistent. Raises ToolFailure EXECUTION_FAILED if the name is in use."""
        old = self._persistent.get(process_id)
        if old is not None and not old.watching.done():
            raise ToolFailure("EXECUTION_FAILED", f"A process {process_id} is running")
        if sum(not persistent.watching.done() for persistent in self._persistent.values()) >= limits.PROCESSES:
            raise ToolFailure("EXECUTION_FAILED", f"{limits.PROCESSES} processes are running: stop one first")
        process = await self._start(command, cwd)
        persistent = _Persistent(process, asyncio.create_task(process.wait()))
        self._persistent[process_id] = persistent
        await process.settle(limits.START_SECONDS)
        if process.has_ended:
            end = _status_of(await persistent.watching)
        return {
            "success": not process.has_ended,
            "process_id": process_id,
            "status": end if process.has_ended else "running",
            "stdout": last_state(process.stdout.text()),
            "stderr": last_state(process.stderr.text()),
            **self._surroundings(process),
        }

    async def read(self, process_id: str) -> dict[str, Any]:
        """The result of read_process. Raises ToolFailure EXECUTION_FAILED if there is no such process."""
        persistent = self._persistent.get(process_id)
        if persistent is None:
            raise ToolFailure("EXECUTION_FAILED", f"There is no process {process_id}")
        end = persistent.process.ended() if persistent.process.has_ended else None
        return {
            "process_id": process_id,
            "status": _status_of(end) if end is not None else "running",
            "stdout": last_state(persistent.process.stdout.text()),
            "stderr": last_state(persistent.process.stderr.text()),
            "exit_code": end.exit_code if end is not None else None,
            **explanation(persistent.process, protects_git=self._protects_git),
        }

    async def kill(self, process_id: str) -> dict[str, Any]:
        """The result of kill_process. Raises ToolFailure EXECUTION_FAILED if there is no such process."""
        persistent = self._persistent.pop(process_id, None)
        if persistent is None:
            raise ToolFailure("EXECUTION_FAILED", f"There is no process {process_id}")
        await _stop(persistent)
        return {"success": True, "exit_code": persistent.process.ended().exit_code}

    async def aclose(self) -> None:
        """Stop all processes."""
        processes = list(self._persistent.values())
        self._persistent.clear()
        await asyncio.gather(*map(_stop, processes))

    @property
    def has_processes(self) -> bool:
        """Whether something still runs that run_persistent has started."""
        return any(not persistent.watching.done() for persistent in self._persistent.values())

    async def _start(self, command: str, cwd: Path) -> Process:
        if "\0" in command:
            raise ToolFailure("INVALID_ARGUMENTS", "The command must not contain NUL")
        try:
            launch = self._sandbox.launch(shell(command), self._access(), cwd)
            return await Process.start(launch, self._environment)
        except (OSError, UnicodeEncodeError) as error:
            raise ToolFailure("EXECUTION_FAILED", f"The command does not start: {error}") from None

    def _access(self) -> Access:
        """The workspace, and what commands may read besides it.

        `.git` is protected as a whole, whatever is in it: with a file `commondir`, a command could give the user's next
        git other settings and hooks, although it cannot change the old ones.
        """
        try:
            repository = find(self._root).folders
        except ToolFailure:
            repository = ()
        dot_git = self._root / ".git"
        protects = not self._changes_git and not dot_git.is_symlink() and dot_git.exists()
        readable = (*self._readable, *(folder for folder in repository if not folder.is_relative_to(self._root)))
        files = self._protects()
        read_only = (*((dot_git,) if protects else ()), *files)
        return Access((self._root, *folders_above(files, self._root)), readable, read_only, self._network)

    @property
    def _protects_git(self) -> bool:
        return self._sandbox.guarantees.protects_git and not self._changes_git

    def _surroundings(self, process: Process) -> dict[str, Any]:
        """What explains to the model why a command could not reach something."""
        network = self._network or not self._sandbox.guarantees.no_network
        notes = explanation(process, protects_git=self._protects_git)
        return {"sandbox": self._sandbox.name, "network": network, **notes}


def _status_of(end: Ended) -> str:
    return f"ended by {end.signal}" if end.signal else f"ended with exit code {end.exit_code}"


async def _stop(persistent: _Persistent) -> None:
    await end_tasks(persistent.watching)
