"""Runs a command in its own terminal, so that it can ask questions."""

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

#: How long a question may stand, in seconds: the command waits for an answer that never comes. It may work for longer.
PATIENCE = 300.0


class Terminal:
    """After `run`, `text` is the command's output and `status` its exit status."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._command = command
        self._folder = folder
        self._environment = {**environment, "TERM": "xterm", "COLUMNS": "100"}
        self.text = ""

    def run(self, answers: Mapping[str, str] | None = None, patience: float = PATIENCE) -> int:
        """Run it to its end. `answers` maps an expected text to what is typed, once, when it appears."""
        waiting = dict(answers or {})
        master, slave = pty.openpty()
        settings = termios.tcgetattr(slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            env=self._environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        written_at = time.monotonic()
        try:
            while (piece := self._read(master)) is not None:
                if piece:
                    written_at = time.monotonic()
                for question in [question for question in waiting if question in self.text]:
                    os.write(master, f"{waiting.pop(question)}\n".encode())
                is_question = not self.text.endswith("\n") and bool(self.text)
                if is_question and time.monotonic() - written_at > patience:
                    raise AssertionError(f"{self._command} asks, and gets no answer:\n{self.text[-3000:]}")
            return process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            os.close(master)

    def _read(self, master: int) -> str | None:
        """Read the output of the next second. None at the end, which Linux reports as an error."""
        if not select.select([master], [], [], 1.0)[0]:
            return ""
        try:
            read = os.read(master, 65536)
        except OSError:
            return None
        piece = read.decode("utf-8", "replace").replace("\r\n", "\n")
        self.text += piece
        return piece or None
