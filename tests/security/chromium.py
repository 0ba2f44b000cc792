"""A real browser for tests: headless Chromium, controlled with the DevTools protocol."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

from websockets.sync.client import connect

from tests.waiting import until

#: Seconds to wait on a busy machine.
PATIENCE = 120.0

#: No background network traffic, no window, nothing stored.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--remote-debugging-port=0",
)


def find(*, notifies: bool = False) -> str | None:
    """The program, if it is installed. The one without windows does the same for two thirds of the processor time.

    notifies: not that one if there is another, because it shows no notifications.
    """
    whole = ("chromium", "chromium-browser", "google-chrome")
    small = ("chromium-headless-shell",)
    return next(filter(None, map(shutil.which, whole + small if notifies else small + whole)), None)


class Chromium:
    """`with Chromium(program, resolve) as browser`; `resolve` maps host names to addresses."""

    def __init__(self, program: str, resolve: dict[str, str]) -> None:
        self._program = program
        self._rules = ", ".join(f"MAP {name} {address}" for name, address in resolve.items())
        self._ids = itertools.count(1)

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="codelab-chromium-", ignore_cleanup_errors=True)
        log = Path(self._folder.name) / "log"
        command = [self._program, *_FLAGS, f"--user-data-dir={self._folder.name}/profile"]
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, f"--host-resolver-rules={self._rules}", "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,  # Debian's program is a script, which would leave the browser behind.
            )
        listening = re.compile(r"DevTools listening on (ws://\S+)")
        until(lambda: self._process.poll() is not None or listening.search(log.read_text("utf-8", "replace")), PATIENCE)
        found = listening.search(log.read_text("utf-8", "replace"))
        if found is None:
            self.__exit__()
            raise RuntimeError(f"Chromium does not start: {log.read_text('utf-8', 'replace')}")
        self._connecting = connect(found[1], max_size=None, proxy=None, open_timeout=PATIENCE)
        self._socket = self._connecting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # It may have ended by itself.
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._folder.cleanup()

    def open(self, url: str) -> "Page":
        """A new page at `url`, as if a user had typed it."""
        target = self.command("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.command("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session)
        page.command("Page.enable")
        page.go(url)
        return page

    def command(self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None) -> Any:
        """Send a command and return its result. Ignores events."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters or {}}
        self._socket.send(json.dumps({**message, "sessionId": session} if session else message))
        while True:
            answer = json.loads(self._socket.recv(PATIENCE))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]


class Page:
    """One tab."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def command(self, method: str, parameters: dict[str, Any] | None = None) -> Any:
        return self._browser.command(method, parameters, self._session)

    def go(self, url: str) -> None:
        """Navigate and wait for the page."""
        self.command("Page.navigate", {"url": url})
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript expression is true, in the current document."""

        def is_true() -> Any:
            with contextlib.suppress(RuntimeError):  # The document was just replaced.
                return self.run(f"return {condition}")

        until(is_true, PATIENCE)

    def run(self, body: str) -> Any:
        """Run the body of an asynchronous JavaScript function in the page, and return its result."""
        expression = f"(async () => {{ {body} }})()"
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self.command("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")
