"""What `codelab acp` adds to the first token, and how soon it answers `initialize`.

A prompt through the bridge and a message on a plain WebSocket take turns, each in a session of its own on the same
system; the figure is the median of the differences. The aims are 2 ms, and 300 ms from the start of the process.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from codelab_local import LocalCloud
from websockets.sync.client import ClientConnection, connect

from benchmarks.rig import instant_model, summary, system

ROUNDS, STARTS = 200, 20
PROMPT = "pieces=1"
COMMAND = (sys.executable, "-m", "codelab_client.command_line", "acp")


class Bridge:
    """The process, as an editor uses it."""

    def __init__(self, environment: dict[str, str]) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
        )
        self._last_id = 0
        self._read = b""
        self.ask("initialize", protocolVersion=1)
        self.started_s = time.perf_counter() - began

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        self.send(method, **params)
        while True:
            message = self.receive()
            if message.get("id") == self._last_id:
                return message["result"]

    def send(self, method: str, **params: Any) -> None:
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout is not None
        while b"\n" not in self._read:
            piece = os.read(self.process.stdout.fileno(), 65_536)
            if not piece:
                raise EOFError
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def first_token_s(self, session: str) -> float:
        """Seconds from a prompt to the first piece of its answer; the whole turn is read."""
        began, first = time.perf_counter(), 0.0
        self.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": PROMPT}])
        while True:
            message = self.receive()
            if message.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk":
                first = first or time.perf_counter() - began
            if message.get("id") == self._last_id:
                return first

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def bridge(cloud: LocalCloud) -> Iterator[Bridge]:
    """A running one."""
    with tempfile.TemporaryDirectory() as state:
        started = Bridge({**os.environ, "CODELAB_URL": cloud.http, "CODELAB_TOKEN": "", "XDG_STATE_HOME": state})
        try:
            yield started
        finally:
            started.close()


def plain_first_token_s(socket: ClientConnection) -> float:
    """The same on a plain WebSocket."""
    began, first = time.perf_counter(), 0.0
    socket.send(json.dumps({"type": "user_message", "content": PROMPT}))
    while True:
        frame = json.loads(socket.recv(timeout=60))
        if frame["type"] == "assistant_message" and frame["token"]:
            first = first or time.perf_counter() - began
        if frame["type"] == "turn_end":
            return first


def main() -> None:
    with instant_model() as url, system(url) as cloud, tempfile.TemporaryDirectory() as folder:
        starts = []
        for _ in range(STARTS):
            with bridge(cloud) as started:
                starts.append(started.started_s)
        print(f"initialize is answered after: {summary(starts)}")
        with bridge(cloud) as editor, connect(cloud.url("plain", extensions=1)) as socket:
            session = editor.ask("session/new", cwd=folder, mcpServers=[])["sessionId"]
            pairs = []
            for n in range(-10, ROUNDS):  # the first ones warm up the processes
                if n % 2:
                    one, other = editor.first_token_s(session), plain_first_token_s(socket)
                else:
                    other, one = plain_first_token_s(socket), editor.first_token_s(session)
                if n >= 0:
                    pairs.append((one, other))
        through, plain = zip(*pairs, strict=True)
        added = statistics.median(one - other for one, other in pairs)
        print(f"first token through the bridge: {summary(through)}; plain: {summary(plain)}")
        print(f"the bridge adds (median of the pairs): {added * 1000:.2f} ms")


if __name__ == "__main__":
    main()
