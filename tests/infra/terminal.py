"""A command in a terminal of its own, as a person types it: what asks a question finds somebody, and waits."""

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

#: How long a command may take, in seconds. One that waits for an answer that nobody gives is ended then.
PATIENCE = 900.0


class Terminal:
    """`text` is all that the command has written when `run` is over, `status` its exit status."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._command = command
        self._folder = folder
        self._environment = {**environment, "TERM": "xterm", "COLUMNS": "100"}
        self.text = ""

    def run(self, answers: Mapping[str, str] | None = None, patience: float = PATIENCE) -> int:
        """Run it to its end. `answers` is what is typed, once, when the text before it has appeared."""
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
        deadline = time.monotonic() + patience
        try:
            while self._read(master):
                for question in [question for question in waiting if question in self.text]:
                    os.write(master, f"{waiting.pop(question)}\n".encode())
                if time.monotonic() > deadline:
                    raise AssertionError(f"{self._command} is not over after {patience:.0f} s:\n{self.text[-3000:]}")
            return process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            os.close(master)

    def _read(self, master: int) -> bool:
        """Read what there is within a second; False at the end, which Linux tells as an error."""
        if not select.select([master], [], [], 1.0)[0]:
            return True
        try:
            read = os.read(master, 65536)
        except OSError:
            return False
        self.text += read.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(read)
