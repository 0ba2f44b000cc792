"""Commands in the editor's terminals, where the user sees them run: as the user runs them, without a sandbox."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from codelab_client.acp.jsonrpc import Peer, RpcError
from codelab_client.acp.running_call import running_call
from codelab_client.execution import OnOutput
from codelab_client.tools import limits
from codelab_client.tools.failure import ToolFailure

#: Seconds between two looks at a command's output, which the protocol does not stream.
_LOOK_S = 1.0
#: Bytes of its output that the editor keeps, and seconds that it may take to stop a command.
_OUTPUT_BYTES = 400_000
_STOP_S = 5.0

#: Called with a call's id and the id of the terminal in which its command runs.
OnTerminal = Callable[[str, str], None]


class EditorTerminals:
    """Runs commands in the editor. See `tools.commands.CommandRunner`."""

    def __init__(self, peer: Peer, session_id: str, on_terminal: OnTerminal) -> None:
        self._peer, self._session_id, self._on_terminal = peer, session_id, on_terminal
        self._persistent: dict[str, str] = {}  # terminals by process id

    async def run(self, command: str, cwd: Path, on_output: OnOutput, beat: float | None) -> dict[str, Any]:
        """The result of run_command. If the waiting task is cancelled, the command is stopped."""
        terminal = await self._create(command, cwd)
        try:
            waiting = asyncio.ensure_future(self._ask("terminal/wait_for_exit", terminal))
            try:
                output = await self._follow(terminal, waiting, on_output, beat)
                exit_fields = _exit(waiting.result())
            finally:
                waiting.cancel()
        finally:
            await asyncio.shield(self._release(terminal))
        return {"stdout": output, "stderr": "", **exit_fields, **_SURROUNDINGS}

    async def start(self, command: str, process_id: str, cwd: Path) -> dict[str, Any]:
        """The result of run_persistent. Raises ToolFailure EXECUTION_FAILED if the name is in use."""
        if process_id in self._persistent:
            if (await self._output(self._persistent[process_id]))[1] is None:
                raise ToolFailure("EXECUTION_FAILED", f"A process {process_id} is running")
            await self._release(self._persistent.pop(process_id))
        if len(self._persistent) >= limits.PROCESSES:
            raise ToolFailure("EXECUTION_FAILED", f"{limits.PROCESSES} processes are running: stop one first")
        terminal = self._persistent[process_id] = await self._create(command, cwd)
        await asyncio.sleep(limits.START_SECONDS)
        output, exit_fields = await self._output(terminal)
        return {
            "success": exit_fields is None,
            "process_id": process_id,
            "status": _status_of(exit_fields),
            "stdout": output,
            "stderr": "",
            **_SURROUNDINGS,
        }

    async def read(self, process_id: str) -> dict[str, Any]:
        """The result of read_process. Raises ToolFailure EXECUTION_FAILED if there is no such process."""
        if process_id not in self._persistent:
            raise ToolFailure("EXECUTION_FAILED", f"There is no process {process_id}")
        output, exit_fields = await self._output(self._persistent[process_id])
        return {
            "process_id": process_id,
            "status": _status_of(exit_fields),
            "stdout": output,
            "stderr": "",
            "exit_code": None if exit_fields is None else exit_fields["exit_code"],
        }

    async def kill(self, process_id: str) -> dict[str, Any]:
        """The result of kill_process. Raises ToolFailure EXECUTION_FAILED if there is no such process."""
        terminal = self._persistent.pop(process_id, None)
        if terminal is None:
            raise ToolFailure("EXECUTION_FAILED", f"There is no process {process_id}")
        exit_fields: dict[str, Any] = {"exit_code": None}
        try:
            await self._ask("terminal/kill", terminal)
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    exit_fields = _exit(await self._ask("terminal/wait_for_exit", terminal))
        finally:
            await self._release(terminal)
        return {"success": True, **exit_fields}

    async def aclose(self) -> None:
        """Stop all processes."""
        terminals = list(self._persistent.values())
        self._persistent.clear()
        await asyncio.gather(*map(self._release, terminals))

    async def _follow(
        self, terminal: str, waiting: "asyncio.Future[Any]", on_output: OnOutput, beat: float | None
    ) -> str:
        """Pass on what a command writes, and signs of life, until it ends. Returns all that the editor has kept."""
        pause = min(_LOOK_S, beat or _LOOK_S)
        previous, has_ended = "", False
        while not has_ended:
            has_ended = bool((await asyncio.wait({waiting}, timeout=pause))[0])
            output, _ = await self._output(terminal)
            # Of a long output the editor forgets the beginning: what is new is then not known.
            await on_output("stdout", output[len(previous) :] if output.startswith(previous) else "")
            previous = output
        return previous

    async def _create(self, command: str, cwd: Path) -> str:
        if "\0" in command:
            raise ToolFailure("INVALID_ARGUMENTS", "The command must not contain NUL")
        environment = [{"name": name, "value": "cat"} for name in ("PAGER", "GIT_PAGER")]
        params = {
            "sessionId": self._session_id,
            "command": "/bin/sh",
            "args": ["-c", command],
            "cwd": str(cwd),
            "env": environment,
            "outputByteLimit": _OUTPUT_BYTES,
        }
        answer = await self._request("terminal/create", params)
        terminal = answer.get("terminalId") if isinstance(answer, dict) else None
        if not isinstance(terminal, str):
            raise ToolFailure("EXECUTION_FAILED", "The editor's terminal has no id")
        self._on_terminal(running_call.get(), terminal)
        return terminal

    async def _output(self, terminal: str) -> tuple[str, dict[str, Any] | None]:
        """A terminal's output so far, and how its command ended if it has."""
        answer = await self._ask("terminal/output", terminal)
        output = answer.get("output") if isinstance(answer, dict) else None
        if not isinstance(output, str):
            raise ToolFailure("EXECUTION_FAILED", "The editor's terminal has no output")
        status = answer.get("exitStatus")
        return output[-_OUTPUT_BYTES:], None if status is None else _exit(status)

    async def _release(self, terminal: str) -> None:
        """Stop a command that still runs, and give its terminal back."""
        with suppress(ToolFailure, TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._ask("terminal/release", terminal)

    async def _ask(self, method: str, terminal: str) -> Any:
        return await self._request(method, {"sessionId": self._session_id, "terminalId": terminal})

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        try:
            return await self._peer.request(method, params)
        except RpcError as error:
            raise ToolFailure("EXECUTION_FAILED", f"The editor's terminal failed: {error.message[:500]}") from None


#: What explains to the model why a command could reach something.
_SURROUNDINGS = {"sandbox": "none", "network": True}


def _status_of(exit_fields: dict[str, Any] | None) -> str:
    return "running" if exit_fields is None else f"ended with {exit_fields.get('signal') or exit_fields['exit_code']}"


def _exit(status: Any) -> dict[str, Any]:
    """How a command ended, as a result has it."""
    code = status.get("exitCode") if isinstance(status, dict) else None
    name = status.get("signal") if isinstance(status, dict) else None
    has_code = isinstance(code, int) and not isinstance(code, bool)
    signal_field = {"signal": str(name)[:40]} if name is not None else {} if has_code else {"signal": "unknown"}
    return {"exit_code": code if has_code else None, **signal_field}
