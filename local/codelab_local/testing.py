"""The local cloud inside a test: `with LocalCloud(template=…) as cloud: …`.

It runs in a child process, as a user would start it, on free ports. Every wait is bounded. If the start or the body of
the `with` fails, the functions' logs are printed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import quote

from codelab_local.host.processes import spawn

START_TIMEOUT = 120.0
STOP_TIMEOUT = 30.0


class LocalCloud:
    """A running local cloud.

    `environment` extends this process's environment; `env` is `--env`, `parameters` is `--parameter`, and so on.
    """

    #: Starts the process; takes what :func:`~codelab_local.host.processes.spawn` takes.
    spawn: ClassVar[Callable[..., Any]] = staticmethod(spawn)

    def __init__(
        self,
        template: str | Path = "template.yaml",
        *,
        environment: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
        env_file: Path | None = None,
        keep_sessions: bool = False,
        port: int = 0,
        show_logs: bool = True,
    ) -> None:
        self.template = Path(template).resolve()
        self._environment = {**os.environ, "HOST": "127.0.0.1", "PORT": str(port), **(environment or {})}
        self._arguments = [f"--env={name}={value}" for name, value in (env or {}).items()]
        self._arguments += [f"--parameter={name}={value}" for name, value in (parameters or {}).items()]
        self._arguments += [] if env_file is None else [f"--env-file={env_file}"]
        self._arguments += ["--keep-sessions"] if keep_sessions else []
        self._show_logs = show_logs
        self.process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is not None and self._show_logs:
            sys.stderr.write(self.logs())
        self._folder.cleanup()

    def start(self) -> Self:
        """Start it and wait until it is ready. Raises :class:`RuntimeError` with its output if it fails."""
        self._folder = tempfile.TemporaryDirectory(prefix="codelab-local-test-")
        folder = Path(self._folder.name)
        self._output, self._log, info = folder / "stdout", folder / "stderr", folder / "info.json"
        arguments = ["--template", str(self.template), "--info", str(info), *self._arguments]
        with self._output.open("wb") as stdout, self._log.open("wb") as stderr:
            self.process = self.spawn(
                "codelab_local",
                *arguments,
                environment=self._environment,
                death_signal=signal.SIGINT,  # A killed test run leaves nothing behind.
                stdout=stdout.fileno(),
                stderr=stderr.fileno(),
            )
        deadline = time.monotonic() + START_TIMEOUT
        while b"ready " not in self._output.read_bytes():
            has_ended = self.process.poll() is not None
            if has_ended or time.monotonic() > deadline:
                self.stop()
                reason = "" if has_ended else f"it was not ready after {START_TIMEOUT:.0f} s. "
                raise RuntimeError(f"the local cloud failed to start: {reason}{self.logs()}")
            time.sleep(0.02)
        self.info: dict[str, Any] = json.loads(info.read_text())
        return self

    def stop(self, sig: int = signal.SIGINT) -> int:
        """Stop it as Ctrl-C does. Returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def logs(self) -> str:
        """The stderr of the local cloud and its functions."""
        return self._log.read_text("utf-8", "replace")

    # Addresses.

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.info['port']}"

    def url(self, session: str | None = None, **query: Any) -> str:
        """A WebSocket address: with `session` the project's first path form, otherwise the stage's path."""
        path = str(self.info["path"]) if session is not None else f"/{self.info['stage']}"
        for variable in {part.split("}")[0] for part in path.split("{")[1:]}:
            path = path.replace(f"{{{variable}}}", quote(session or "", safe=""))
        text = "&".join(f"{quote(name)}={quote(str(value), safe='')}" for name, value in query.items())
        return f"ws://127.0.0.1:{self.info['port']}{path}{'?' + text if text else ''}"

    def client(self, service: str, **keywords: Any) -> Any:
        """A boto3 client for an emulated service (the local cloud serves Lambda's Invoke and `@connections`)."""
        import boto3

        make: Any = boto3.client
        endpoints = {
            "lambda": self.info["internal"],
            "apigatewaymanagementapi": f"{self.info['internal']}/{self.info['stage']}",
        }
        return make(
            service,
            endpoint_url=endpoints.get(service, self.info["emulator"]),
            region_name=self.info["region"],
            aws_access_key_id=self.info["access_key_id"],
            aws_secret_access_key=self.info["secret_access_key"],
            **keywords,
        )

    # Functions.

    def invoke(self, function: str, event: Any = None, *, asynchronous: bool = False) -> Any:
        """Invoke a function by its folder's name, and return its result.

        Raises :class:`FunctionError` if it failed or the call was refused (then with the HTTP status).
        """
        request = urllib.request.Request(
            f"{self.info['internal']}/2015-03-31/functions/{quote(function)}/invocations",
            json.dumps({} if event is None else event).encode(),
            {"X-Amz-Invocation-Type": "Event" if asynchronous else "RequestResponse"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                body = response.read()
                error_kind = response.headers.get("X-Amz-Function-Error")
        except urllib.error.HTTPError as error:
            raise FunctionError(json.loads(error.read()), error.code) from None
        answer = json.loads(body) if body else None
        if error_kind:
            raise FunctionError(answer)
        return answer

    def functions(self) -> dict[str, dict[str, Any]]:
        """Deployed names, worker pids, and how many requests each worker has served, by folder name."""
        with urllib.request.urlopen(f"{self.info['internal']}/_local/functions", timeout=10) as response:
            by_folder: dict[str, dict[str, Any]] = json.loads(response.read())
        return by_folder

    def workers(self, function: str) -> list[int]:
        """The pids of a function's worker processes."""
        pids: list[int] = self.functions()[function]["workers"]
        return pids

    def kill(self, function: str) -> list[int]:
        """Kill a function's workers, as when out of memory. Returns their pids once the local cloud noticed."""
        pids = self.workers(function)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while set(pids) & set(self.workers(function)) and time.monotonic() < deadline:
            time.sleep(0.005)
        return pids


class FunctionError(Exception):
    """A function failed; `answer` is its error object. `status` is set if Invoke itself was refused."""

    def __init__(self, answer: Any, status: int | None = None) -> None:
        super().__init__(json.dumps(answer))
        self.answer = answer
        self.status = status
