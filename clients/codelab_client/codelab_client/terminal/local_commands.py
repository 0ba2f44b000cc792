"""Commands that the user runs with `!`. They are the user's own, so they run as in a shell, without the sandbox.

Both streams are one, as on a terminal: the order is right, and the user sees what the agent reads.
"""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from codelab_client.execution import Stream, ToolOutcome
from codelab_client.tools.last_state import last_state

#: Characters of an output that go with the next message: so many of its beginning and of its end.
_HEAD, _TAIL = 4_000, 8_000
#: Shells that take a command line as `-c` gives it.
_SHELLS = ("bash", "zsh", "fish", "ksh", "dash", "sh")
_NO_KEYS = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}

OnOutput = Callable[[str], None]


class LocalCommands:
    """Runs one command at a time, and keeps what the agent is to read with the next message."""

    def __init__(self, workspace: Path, environment: Mapping[str, str] | None = None) -> None:
        self._workspace = workspace
        self._environment = {**(os.environ if environment is None else environment), **_NO_KEYS}
        self._task: asyncio.Task[object] | None = None
        self._reports: list[str] = []

    @property
    def is_running(self) -> bool:
        """Whether a command runs."""
        return self._task is not None

    async def run(self, command: str, on_output: OnOutput) -> ToolOutcome:
        """Run a command line to its end, in the user's shell. on_output: gets what it writes.

        Its outcome is that of `run_command`, with all of its output in `stdout`.
        """
        from codelab_client.sandbox import Launch  # late, because the prompt should be there soon
        from codelab_client.tools.processes import Process

        if self._task is not None:
            return ToolOutcome.failed("EXECUTION_FAILED", "Another command runs: Esc stops it")
        self._task = asyncio.current_task()
        process: Process | None = None

        async def take(_: Stream, text: str) -> None:
            on_output(text)

        try:
            process = await Process.start(Launch(self._shell(command), cwd=self._workspace), self._environment)
            end = await process.wait(take)
        except (OSError, ValueError) as error:
            return ToolOutcome.failed("EXECUTION_FAILED", f"The command does not start: {error}")
        except asyncio.CancelledError:
            output = last_state(process.stdout.text()) if process is not None else ""
            self._report(command, "stopped by the user", output)
            return ToolOutcome.failed("CANCELLED", f"You have stopped it\n{output}")
        finally:
            self._task = None
        if process.wanted_terminal:
            programs = ", ".join(process.wanted_terminal)
            reason = f"{programs} waits for keys, which do not reach it here: Ctrl-Z suspends codelab, fg goes on"
            return ToolOutcome.failed("EXECUTION_FAILED", reason)
        state = f"ended by {end.signal}" if end.signal else f"exit code {end.exit_code}"
        left_behind = f"ended with it: {', '.join(process.left_behind)}" if process.left_behind else ""
        output = last_state(process.stdout.text())
        self._report(command, f"{state}; {left_behind}" if left_behind else state, output)
        notes = "; ".join(filter(None, (state if end.signal else "", left_behind)))
        return ToolOutcome({"exit_code": end.exit_code, "stdout": output, "note": notes})

    def _shell(self, command: str) -> tuple[str, ...]:
        """The program that runs a command line as the user's shell does, with both streams in one."""
        own = self._environment.get("SHELL", "")
        program = own if Path(own).name in _SHELLS and os.access(own, os.X_OK) else "/bin/sh"
        return ("/bin/sh", "-c", 'exec "$0" -c "$1" 2>&1', program, command)

    def stop(self) -> None:
        """Stop the command that runs."""
        if self._task is not None:
            self._task.cancel()

    def take_reports(self) -> str:
        """What the commands since the last message have written, for the agent; empty if there were none."""
        reports, self._reports = self._reports, []
        return "\n\n".join(reports)

    def note(self, report: str) -> None:
        """Have the agent read this with the next message, too."""
        if report:
            self._reports.append(report)

    def give_back(self, reports: str) -> None:
        """What did not reach the agent goes with the next message."""
        if reports:
            self._reports.insert(0, reports)

    def _report(self, command: str, state: str, output: str) -> None:
        text = output.rstrip("\n")
        if len(text) > _HEAD + _TAIL:
            text = f"{text[:_HEAD]}\n[… {len(text) - _HEAD - _TAIL} characters left out …]\n{text[-_TAIL:]}"
        content = f"$ {command}\n{text}".rstrip("\n")
        longest = max((len(run) for run in re.findall("`+", content)), default=0)
        fence = "`" * max(3, longest + 1)
        self._reports.append(f"I ran this command myself ({state}):\n\n{fence}\n{content}\n{fence}")
