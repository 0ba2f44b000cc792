"""Runs a JavaScript snippet of a document in Node, with the smallest changes that let it parse and connect."""

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.waiting import PATIENCE

#: The code around a snippet. Each output of the snippet becomes one line of JSON: [what, value].
PRELUDE = """
import WebSocket from 'ws';
const report = (what, value) => process.stdout.write(JSON.stringify([what, value]) + '\\n');
console.log = (...said) => report('log', said);
console.error = (...said) => report('error', said);
"""

#: Sees the same frames as the snippet without changing its handlers, and ends the process after the turn.
OBSERVER = """
ws.on('open', () => report('open', ws.url));
ws.on('message', (data) => {
  const frame = JSON.parse(data);
  report('frame', frame);
  if (frame.type === 'agent_status' && frame.status === 'idle') ws.close();
});
"""


class Change(NamedTuple):
    """A change to a snippet: `old`, which occurs exactly once, becomes `new`."""

    why: str
    old: str
    new: str


def changed(snippet: str, *changes: Change) -> str:
    for change in changes:
        assert snippet.count(change.old) == 1, f"not once in the snippet: {change.old}"
        snippet = snippet.replace(change.old, change.new)
    return snippet


class Snippet:
    """A running snippet. `seen` are the lines that it printed, in order."""

    def __init__(self, node: str, folder: Path, source: str) -> None:
        self.seen: list[tuple[str, Any]] = []
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # Node finds `ws` from `folder`.
        command = [node, "--input-type=module", "-"]
        self._process: subprocess.Popen[str] = subprocess.Popen(command, cwd=folder, text=True, **pipes)
        self._timer = threading.Timer(PATIENCE, self._process.kill)
        self._timer.start()
        assert self._process.stdin is not None
        self._process.stdin.write(source)
        self._process.stdin.close()

    def wait_for(self, what: str) -> Any:
        """Read until it prints `what`, and return the value. Fails with Node's errors if it ends before."""
        while (line := self._next()) is not None:
            if line[0] == what:
                return line[1]
        raise AssertionError(f"the snippet ended without {what}: {self._errors()}")

    def finish(self) -> Self:
        """Read to its end. It must exit with status 0."""
        while self._next() is not None:
            pass
        assert self._process.wait() == 0, self._errors()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        with self._process:  # Closes the pipes and waits.
            pass

    def said(self, what: str) -> list[Any]:
        return [value for name, value in self.seen if name == what]

    def frames(self, frame_type: str) -> list[dict[str, Any]]:
        return [frame for frame in self.said("frame") if frame["type"] == frame_type]

    def text(self) -> str:
        return "".join(frame["token"] for frame in self.frames("assistant_message"))

    def _next(self) -> tuple[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return None
        what, value = json.loads(line)
        self.seen.append((what, value))
        return what, value

    def _errors(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read()


#: The address in the source is a document's; `localhost:8000` becomes the running system's.
Start = Callable[[str], Snippet]
