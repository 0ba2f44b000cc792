"""The local cloud's side of `worker.py`: starts worker processes and watches them.

A :class:`Processes` is one version of one function's code. :class:`Zygote` forks workers from a process that ran the
handler's init; :class:`ColdStarts` (`COLD=1`) starts a new process for every worker.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from codelab_local.functions.worker import PADDING
from codelab_local.host.processes import kill_group, spawn

_MODULE = "codelab_local.functions.worker"
# The runtime client's imports. It must not be imported before the last fork, but these can be.
_RUNTIME_CLIENT_NEEDS = ["decimal", "http.client", "importlib.metadata", "logging", "simplejson", "snapshot_restore_py"]


class InitFailed(Exception):
    """A handler's init failed. `str()` is one line for the user, `trace` the traceback."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


class ThreadsInInit(InitFailed):
    """A handler's init started threads, which do not survive a fork."""


class Listener(Protocol):
    """Gets the events of a version's workers."""

    def worker_started(self, worker: str, pid: int) -> None: ...

    def worker_exited(self, worker: str, status: int) -> None: ...

    def worker_failed(self, worker: str, error: InitFailed) -> None: ...

    def processes_lost(self, processes: "Processes") -> None: ...


class Processes(Protocol):
    """One version of a function's code, as a source of worker processes."""

    starts_at_once: int

    async def ready(self) -> None:
        """Wait until workers can be started. Raises :class:`InitFailed`."""

    def start(self, worker: str, niceness: int) -> None:
        """Start a worker. When it is ready, it adds `niceness` to its own."""

    def kill(self, worker: str) -> None: ...

    def close(self) -> None:
        """End it and all of its workers."""


@dataclass(frozen=True)
class WorkerConfig:
    """A worker's configuration, sent to it as JSON."""

    folder: str
    handler: str
    path: list[str]
    environment: dict[str, str]
    runtime_api: str
    #: Beginnings of URLs and their replacements in botocore's requests.
    addresses: dict[str, str]
    # Set after a change of the source: bytecode is matched by size and whole seconds, which is too coarse.
    ignore_bytecode: bool = False

    def message(self) -> dict[str, Any]:
        return {"zygote": self.__dict__}


class Root:
    """The process that all zygotes are forked from. It is restarted if it ends.

    It starts before it is known what it shall import: to find that out takes as long as its start.
    """

    def __init__(self) -> None:
        self._shared_config: bytes | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        parent_socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_socket:
            self._process = spawn(
                _MODULE,
                "--root",
                str(child_socket.fileno()),
                PADDING,
                environment=_base_environment(),
                pass_fds=(child_socket.fileno(),),
            )
        self._control = parent_socket
        if self._shared_config is not None:
            parent_socket.send(self._shared_config)

    def preload(self, modules: list[str], services: list[str], layers: list[str]) -> None:
        """Import the modules, and read what the SDK knows of the services; before the first fork."""
        config = {"preload": [*_RUNTIME_CLIENT_NEEDS, *modules], "services": services, "layers": layers}
        self._shared_config = json.dumps(config).encode()
        if self._control is not None:
            with contextlib.suppress(OSError):  # It has ended, and is restarted by the first fork.
                self._control.send(self._shared_config)

    def fork(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self.start()
        assert self._control is not None
        socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)

    def stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            kill_group(self._process)


class _Channel:
    """A control channel with a process, read by the event loop."""

    def __init__(self, receive: Callable[[dict[str, Any]], None], on_end: Callable[[], None]) -> None:
        self.own_socket, self.peer_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.own_socket.setblocking(False)
        self._receive = receive
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.own_socket.fileno(), self._readable)

    def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # The reader notices the end.
            self.own_socket.send(json.dumps(message).encode())

    def close(self) -> None:
        if self.own_socket.fileno() >= 0:
            self._loop.remove_reader(self.own_socket.fileno())
            self.own_socket.close()

    def _readable(self) -> None:
        while self.own_socket.fileno() >= 0:
            try:
                data = self.own_socket.recv(1 << 20)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                self._on_end()
                return
            self._receive(json.loads(data))


class Zygote:
    """A process that ran the handler's init and forks workers."""

    starts_at_once = 1

    def __init__(self, root: Root, config: WorkerConfig, log: int, listener: Listener) -> None:
        self._listener = listener
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._channel = _Channel(self._receive, self._ended)
        with self._channel.peer_socket:
            root.fork(config.message(), [self._channel.peer_socket.fileno(), log])

    async def ready(self) -> None:
        await asyncio.shield(self._ready)

    def start(self, worker: str, niceness: int) -> None:
        self._channel.send({"start": worker, "niceness": niceness})

    def kill(self, worker: str) -> None:
        self._channel.send({"kill": worker})

    def close(self) -> None:
        self._channel.close()  # The process ends when it notices, and its workers with it.

    def _receive(self, message: dict[str, Any]) -> None:
        if "started" in message:
            self._listener.worker_started(message["started"], message["pid"])
        elif "exited" in message:
            self._listener.worker_exited(message["exited"], message["status"])
        elif self._ready.done():
            pass
        elif "threads" in message:
            self._ready.set_exception(ThreadsInInit(", ".join(message["threads"])))
        elif "failed" in message:
            self._ready.set_exception(InitFailed(message["failed"], message.get("trace", "")))
        elif "ready" in message:
            self._ready.set_result(None)

    def _ended(self) -> None:
        if not self._ready.done():
            self._ready.set_exception(InitFailed("its process ended during the import"))
        else:
            self._listener.processes_lost(self)


class ColdStarts:
    """`COLD=1`: a new process for every worker, like a cold start in the cloud."""

    starts_at_once = 4

    def __init__(self, config: WorkerConfig, log: int, listener: Listener) -> None:
        self._config = config
        self._log = os.dup(log)
        self._listener = listener
        self._running: dict[str, tuple[subprocess.Popen[bytes], _Channel]] = {}

    async def ready(self) -> None:
        return

    def start(self, worker: str, niceness: int) -> None:
        channel = _Channel(lambda message: self._receive(worker, message), lambda: self._ended(worker))
        with channel.peer_socket as child_socket:
            process = spawn(
                _MODULE,
                "--cold",
                str(child_socket.fileno()),
                self._config.folder,
                environment=_base_environment(),
                pass_fds=(child_socket.fileno(),),
            )
        self._running[worker] = (process, channel)
        message = json.dumps({**self._config.message(), "start": worker, "niceness": niceness}).encode()
        with contextlib.suppress(OSError):
            socket.send_fds(channel.own_socket, [message], [self._log])

    def kill(self, worker: str) -> None:
        if worker in self._running:
            self._running[worker][0].kill()

    def close(self) -> None:
        for process, channel in self._running.values():
            channel.close()
            kill_group(process)
        self._running.clear()
        os.close(self._log)

    def _receive(self, worker: str, message: dict[str, Any]) -> None:
        if "started" in message:
            self._listener.worker_started(worker, message["pid"])
        elif "failed" in message:
            self._listener.worker_failed(worker, InitFailed(message["failed"], message.get("trace", "")))

    def _ended(self, worker: str) -> None:
        process, _ = self._running.pop(worker)
        code = process.wait()
        self._listener.worker_exited(worker, -code if code < 0 else code << 8)


def _base_environment() -> dict[str, str]:
    """The environment for the interpreter's start. The function's own replaces it before its code runs."""
    names = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: os.environ[name] for name in names if name in os.environ} | {"PYTHONUNBUFFERED": "1"}
