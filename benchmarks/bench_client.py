"""What the terminal client costs: start, one prompt from cold, the first token compared with a plain WebSocket."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from codelab_local import LocalCloud
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from benchmarks.rig import cpu_seconds, instant_model, summary, system
from tests.client.terminals import Terminal

CODELAB = [sys.executable, "-m", "codelab_client.command_line"]
STARTS = 8
ROUNDS = 40
#: Seconds that the model is silent, so that the screen rests before the first token.
SILENCE_S = 0.3


class Arrivals:
    """When the first token of each turn arrives at a plain WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.times: list[float] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        is_open = False
        try:
            for message in self._socket:
                now, frame = time.monotonic(), json.loads(message)
                if frame["type"] == "assistant_message" and not is_open:
                    is_open = True
                    self.times.append(now)
                elif frame["type"] == "turn_end":
                    is_open = False
        except ConnectionClosed:
            pass


class Drawn(Terminal):
    """A terminal that knows when a text first came after a mark."""

    wanted, at = b"", 0.0

    def _take(self, piece: bytes) -> None:
        if not self.at and self.wanted and self.wanted in piece:
            self.at = time.monotonic()


def starts(environment: dict[str, str], folder: Path) -> None:
    """Print the start to the prompt, and of `exec` from cold."""
    walls, loads = [], []
    for _ in range(STARTS):
        begun = time.monotonic()
        with Terminal(CODELAB, environment, folder) as terminal:
            while b"/help lists" not in terminal.raw:
                time.sleep(0.002)
            walls.append(time.monotonic() - begun)
            loads.append(cpu_seconds([terminal.process.pid]))
    print(f"start to prompt: {summary(walls)}; CPU {summary(loads)}")
    walls = []
    for _ in range(STARTS):
        begun = time.monotonic()
        subprocess.run([*CODELAB, "exec", "hello"], env=environment, cwd=folder, check=True, capture_output=True)
        walls.append(time.monotonic() - begun)
    print(f"codelab exec with a model that answers at once: {summary(walls)}")


def first_tokens(cloud: LocalCloud, environment: dict[str, str], folder: Path) -> None:
    """Print when the first token is on the screen, compared with a plain WebSocket to the same session."""
    differences: list[float] = []
    for number, terminal_first in enumerate((True, False)):
        session = f"bench-{number}"
        late: Any = None
        early = None if terminal_first else Arrivals(connect(cloud.url(session, extensions=1, viewer=1)))
        with Drawn([*CODELAB, "--session", session], environment, folder) as terminal:
            terminal.expect("/help lists")
            late = early or Arrivals(connect(cloud.url(session, extensions=1, viewer=1)))
            time.sleep(1.5)
            for turn in range(ROUNDS // 2 + 2):
                terminal.wanted, terminal.at = b"abc", 0.0
                terminal.type(f"pieces=1 silence={SILENCE_S}\r")
                while not terminal.at or len(late.times) <= turn:
                    time.sleep(0.005)
                if turn > 1:
                    differences.append(terminal.at - late.times[turn])
                time.sleep(0.4)
    print(f"first token on the screen after a plain WebSocket has it: {summary(differences)}")
    print(
        f"  from {min(differences) * 1000:.1f} to {max(differences) * 1000:.1f} ms; both see the same frame; n={ROUNDS}"
    )


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as state,
        tempfile.TemporaryDirectory() as folder,
        instant_model() as url,
        system(url) as cloud,
    ):
        environment = {**os.environ, "CODELAB_URL": cloud.http, "XDG_STATE_HOME": state, "CODELAB_TOKEN": ""}
        starts(environment, Path(folder))
        first_tokens(cloud, environment, Path(folder))


if __name__ == "__main__":
    main()
