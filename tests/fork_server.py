"""Starts local clouds, and `codelab` in a terminal, by forking a process that has imported what they import.

The imports are most of what a start costs. There is one such server for clouds and one for `codelab`, which all
processes that run tests share, and which end with them. A cloud is still a process with the same children as after
`python -m codelab_local`: each of them is forked by the one that would have started it, has a session, environment,
folder, command line and streams of its own and no descriptors of others, and runs its module as `__main__`. Only clouds
of this repository's template are started in this way, and only on Linux. Those of `tests/local` start as a user starts
them.
"""

import asyncio
import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from codelab_local.host import processes
from codelab_local.host.processes import die_with_parent

TEMPLATE = Path(__file__).parents[1] / "template.yaml"

#: Space for the command lines of forked processes, which overwrite the server's own.
_PADDING = " " * 2000
#: What a Python reads of the environment as it begins. A process with other values than the server's is not forked.
_READ_AT_THE_START = ("PYTHON", "LD_", "LC_", "LANG")
#: What the processes of a cloud import late, and so is not found from their first imports.
_IMPORTED_LATE = (
    "anyio._backends._asyncio",
    "codelab_local.cloud_view.view",
    "cryptography.hazmat.primitives.serialization",
    "defusedxml.ElementTree",
    "docker",
    "jsonata",
    "ministack.app",
    "uvicorn.lifespan.on",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.httptools_impl",
)
#: Packages that read the environment when they are imported: their processes import them anew.
_READ_THE_ENVIRONMENT = ("ministack",)

_STREAMS = ("stdin", "stdout", "stderr")

_spawn = processes.spawn


class ForkedProcess:
    """Of `subprocess.Popen`, what is used of a process that this one has forked."""

    stdin: Any = None
    stdout: Any = None
    stderr: Any = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                self._look()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises `subprocess.TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(0.005)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self) -> None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.returncode = os.waitstatus_to_exitcode(status)


class _ProcessOfTheServer(ForkedProcess):
    """A process that the server has forked, and whose exit code it sends."""

    def __init__(self, pid: int, outcome: socket.socket) -> None:
        super().__init__(pid)
        self._outcome = outcome

    def _look(self) -> None:
        if select.select([self._outcome], [], [], 0)[0]:
            # If something killed the server, what it forked has ended, too.
            self.returncode = int(self._outcome.recv(16) or -signal.SIGKILL)
            self._outcome.close()


class ForkServer:
    """A server's process, which starts when it is first needed. `ahead` imports for it.

    It ends with this process and all that are forked from this one after its start: they use it, too.
    """

    def __init__(self, ahead: Callable[[], None]) -> None:
        self._ahead = ahead
        self._lock = threading.Lock()
        self._door: socket.socket | None = None
        self._environment: dict[str, str] = {}
        self._control: tuple[int, socket.socket] | None = None

    def start(self) -> None:
        """Start it ahead of its first use. Elsewhere than on Linux nothing is forked."""
        if sys.platform != "linux":
            return
        self._environment = dict(os.environ)
        self._door, of_server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor = of_server.fileno()
        words = (self._ahead.__name__, str(descriptor), _PADDING)
        _spawn("tests.fork_server", *words, environment=self._environment, pass_fds=(descriptor,))
        of_server.close()

    def spawn(self, module: str, *arguments: str, environment: Mapping[str, str], **options: Any) -> Any:
        """In place of `codelab_local.host.processes.spawn`, for the processes of local clouds."""
        if str(TEMPLATE) not in arguments or not self._can_fork(environment):
            return _spawn(module, *arguments, environment=environment, **options)
        with Path(os.devnull).open() as nothing:
            streams = nothing.fileno(), options["stdout"], options["stderr"]
            death_signal = options["death_signal"]
            return self._fork(streams, module, *arguments, environment=environment, death_signal=death_signal)

    def popen(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path | None, terminal: int | None = None
    ) -> Any:
        """`subprocess.Popen` with three pipes, or in this terminal, of words that may begin with `python -m module`."""
        can_fork = tuple(command[:2]) == (sys.executable, "-m") and self._can_fork(environment)
        if terminal is None and not can_fork:
            pipes: dict[str, Any] = dict.fromkeys(_STREAMS, subprocess.PIPE)
            return subprocess.Popen(command, **pipes, env=environment, cwd=cwd)
        if terminal is None:
            return self._piped(command, environment, cwd)
        if can_fork:
            return self._fork((terminal,) * 3, *command[2:], environment=environment, folder=cwd, has_terminal=True)
        streams: dict[str, Any] = dict.fromkeys(_STREAMS, terminal)
        return subprocess.Popen(
            command,
            **streams,
            env=environment,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def _piped(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path | None) -> ForkedProcess:
        (stdin, writes), (reads, stdout), (reads_errors, stderr) = (os.pipe() for _ in range(3))
        process = self._fork((stdin, stdout, stderr), *command[2:], environment=environment, folder=cwd)
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        process.stdin = os.fdopen(writes, "wb")
        process.stdout, process.stderr = os.fdopen(reads, "rb"), os.fdopen(reads_errors, "rb")
        return process

    def _can_fork(self, environment: Mapping[str, str]) -> bool:
        with self._lock:
            if self._door is None:
                self.start()
        return self._door is not None and not _differs(environment, self._environment)

    def _connected(self) -> socket.socket:
        """This process's own connection, whose end tells the server that this process has ended."""
        assert self._door is not None
        if self._control is None or self._control[0] != os.getpid():
            near, of_server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with of_server:
                socket.send_fds(self._door, [b"1"], [of_server.fileno()])
            self._control = os.getpid(), near
        return self._control[1]

    def _fork(
        self,
        streams: Sequence[int],
        module: str,
        *arguments: str,
        environment: Mapping[str, str],
        death_signal: int = signal.SIGKILL,
        folder: Path | None = None,
        has_terminal: bool = False,
    ) -> ForkedProcess:
        request = {
            "module": module,
            "arguments": arguments,
            "environment": dict(environment),
            "death_signal": int(death_signal),
            "folder": str(folder or Path.cwd()),
            "has_terminal": has_terminal,
        }
        outcome, of_server = socket.socketpair()
        with of_server, self._lock:
            control = self._connected()
            socket.send_fds(control, [json.dumps(request).encode()], [*streams, of_server.fileno()])
            return _ProcessOfTheServer(int(control.recv(16)), outcome)


def _differs(environment: Mapping[str, str], other: Mapping[str, str]) -> bool:
    names = {name for name in (*environment, *other) if name.startswith(_READ_AT_THE_START)}
    return any(environment.get(name) != other.get(name) for name in names)


# The server.


class _Server:
    """Forks what is asked for, until the last process that may ask has ended. What one asked for ends with it."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._controls: list[socket.socket] = []
        # By its process's descriptor: the pid, where to send the exit code, who asked for it, what ends it.
        self._running: dict[int, tuple[int, socket.socket, socket.socket, int]] = {}

    def serve(self) -> None:
        while True:
            sources: list[Any] = [self._door, *self._controls, *self._running]
            for source in select.select(sources, [], [])[0]:
                if isinstance(source, int):
                    self._has_ended(source)
                elif source is not self._door:
                    self._is_asked(source)
                elif descriptors := socket.recv_fds(source, 1, 1)[1]:
                    self._controls.append(socket.socket(fileno=descriptors[0]))
                else:
                    return

    def _has_ended(self, descriptor: int) -> None:
        pid, outcome, *_ = self._running.pop(descriptor)
        os.close(descriptor)
        with outcome, suppress(OSError):  # nobody may wait for it any more
            outcome.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())

    def _is_asked(self, control: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
        if not data:
            self._controls.remove(control)
            control.close()
            for pid, _, owner, death_signal in self._running.values():
                if owner is control:
                    os.kill(pid, death_signal)
            return
        request = json.loads(data)
        stdin, stdout, stderr, outcome = descriptors
        streams: dict[str, Any] = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        death_signal = request["death_signal"]
        pid = fork(request.pop("module"), *request.pop("arguments"), **streams, **request)
        for descriptor in streams.values():
            os.close(descriptor)
        self._running[os.pidfd_open(pid)] = pid, socket.socket(fileno=outcome), control, death_signal
        control.send(str(pid).encode())


def import_client() -> None:
    """What `codelab` imports when it starts, and later, and the servers that its tests start."""
    import codelab_client

    for module in pkgutil.walk_packages(codelab_client.__path__, "codelab_client."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    importlib.import_module("mcp.server.mcpserver")
    _freeze()


def import_cloud() -> None:
    """What the processes of a cloud import when they start, and later."""
    # First: modules take the function from here when they are imported.
    processes.spawn = spawn
    from codelab_local.functions.environment import shared_imports
    from codelab_local.settings.settings import Settings
    from codelab_local.template.sam_template import read_template

    importlib.import_module("codelab_local.command_line")
    sources = read_template(TEMPLATE).sources.values()
    layers = {layer for source in sources for layer in source.layers}
    settings = Settings.from_environment(TEMPLATE, {})
    modules = shared_imports({source.folder for source in sources}, layers, settings.preload)
    sys.path[:0] = map(str, layers)
    for name in (*_IMPORTED_LATE, *modules):
        importlib.import_module(name)
    del sys.path[: len(layers)]
    for name in list(sys.modules):
        if name.partition(".")[0] in _READ_THE_ENVIRONMENT:
            del sys.modules[name]
    _freeze()


def _freeze() -> None:
    from codelab_local.functions import shared_memory

    assert threading.active_count() == 1, "an import started a thread, which a forked process would lack"
    shared_memory.make_immortal()
    shared_memory.freeze()


def spawn(module: str, *arguments: str, environment: Mapping[str, str], **options: Any) -> Any:
    """In a forked cloud: `codelab_local.host.processes.spawn`, which forks this process while it has no threads."""
    if threading.active_count() > 1:
        return _spawn(module, *arguments, environment=environment, **options)
    return ForkedProcess(fork(module, *arguments, environment=environment, **options))


def fork(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    folder: str = "",
    pass_fds: Sequence[int] = (),
    death_signal: int = signal.SIGKILL,
    has_terminal: bool = False,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = subprocess.DEVNULL,
    stderr: int | None = None,
) -> int:
    """The pid of a new process that runs `python -m module` with these arguments in `folder`, or else in this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        die_with_parent(parent, death_signal)
        gc.freeze()  # What the parent has is never deleted here: its descriptors may be others by then.
        _reset_signals()
        _take_descriptors((stdin, stdout, stderr), pass_fds)
        if has_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(folder or ".")
        sys.path[0] = str(Path.cwd())
        _open_streams()
        _write_command_line([sys.executable, "-m", module, *arguments])
        atexit._clear()
        asyncio._set_running_loop(None)
        sys.argv = [module, *arguments]
        sys.modules.pop(module, None)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    return _run_and_exit(module)


def _run_and_exit(module: str) -> NoReturn:
    """Run the module, and end as an interpreter does."""
    status = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as request:
        status = request.code if isinstance(request.code, int) else int(request.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _take_descriptors(streams: Sequence[int | None], pass_fds: Sequence[int]) -> None:
    """These three, None of which stays what it is, and `pass_fds`. Every other descriptor is closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for place, source in enumerate(streams):
        if source is not None:
            os.dup2(nothing if source == subprocess.DEVNULL else source, place)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2 and int(name) not in pass_fds:
            with suppress(OSError):  # the one of this list
                os.close(int(name))
    for descriptor in pass_fds:
        os.set_inheritable(descriptor, True)


def _open_streams() -> None:
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        inherited = getattr(sys, name)
        form = {"encoding": inherited.encoding, "errors": inherited.errors}
        stream: Any = open(descriptor, mode, closefd=False, **form)  # noqa: SIM115
        if mode == "w":
            stream.reconfigure(line_buffering=name == "stderr" or stream.isatty(), write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _write_command_line(words: Sequence[str]) -> None:
    """Overwrite this process's command line, which has the space for it: the server's padding."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    line = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - start]
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


CLOUDS = ForkServer(import_cloud)
CLIENTS = ForkServer(import_client)

if __name__ == "__main__":
    globals()[sys.argv[1]]()
    _Server(socket.socket(fileno=int(sys.argv[2]))).serve()
