"""Starts local clouds by forking a process that has imported what their processes import.

The imports are most of what a start costs. A process that runs tests has one such server, which starts before its first
cloud and ends with it. A cloud is still a process with the same children as after `python -m codelab_local`: each of
them is forked by the one that would have started it, has a session, environment, folder, command line and streams of
its own and no descriptors of others, and runs its module as `__main__`. Only clouds of this repository's template are
started in this way, and only on Linux. Those of `tests/local` start as a user starts them.
"""

import asyncio
import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
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

_spawn = processes.spawn


class ForkedProcess:
    """Of `subprocess.Popen`, what is used of a process that this one has forked."""

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
            # The server ends with this process; if something killed it, what it forked has ended, too.
            self.returncode = int(self._outcome.recv(16) or -signal.SIGKILL)
            self._outcome.close()


class ForkServer:
    """The server's process, which starts when it is first needed and ends at the latest with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._environment: dict[str, str] = {}

    def spawn(self, module: str, *arguments: str, environment: Mapping[str, str], **options: Any) -> Any:
        """In place of `codelab_local.host.processes.spawn`, for the processes of local clouds."""
        with self._lock:
            if self._control is None and _can_fork(arguments):
                self._start()
            if self._control is None or not _can_fork(arguments) or _differs(environment, self._environment):
                return _spawn(module, *arguments, environment=environment, **options)
            request = {
                "module": module,
                "arguments": arguments,
                "environment": dict(environment),
                "death_signal": int(options["death_signal"]),
                "folder": str(Path.cwd()),
            }
            outcome, of_server = socket.socketpair()
            with of_server:
                descriptors = [options["stdout"], options["stderr"], of_server.fileno()]
                socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            return _ProcessOfTheServer(int(self._control.recv(16)), outcome)

    def _start(self) -> None:
        self._environment = dict(os.environ)
        self._control, of_server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with of_server:
            _spawn(
                "tests.fork_server",
                str(of_server.fileno()),
                _PADDING,
                environment=self._environment,
                pass_fds=(of_server.fileno(),),
            )


def _can_fork(arguments: Sequence[str]) -> bool:
    return sys.platform == "linux" and str(TEMPLATE) in arguments


def _differs(environment: Mapping[str, str], other: Mapping[str, str]) -> bool:
    names = {name for name in (*environment, *other) if name.startswith(_READ_AT_THE_START)}
    return any(environment.get(name) != other.get(name) for name in names)


# The server.


def serve(control: socket.socket) -> None:
    """Fork what is asked for, until the test process ends."""
    _import_ahead()
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        sources: list[Any] = [control, *running]
        readable, _, _ = select.select(sources, [], [])
        for descriptor in set(readable) & running.keys():
            pid, outcome = running.pop(descriptor)
            os.close(descriptor)
            with outcome, suppress(OSError):  # nobody may wait for it any more
                outcome.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        if control in readable:
            data, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 3)
            if not data:
                return
            request = json.loads(data)
            stdout, stderr, outcome_descriptor = descriptors
            pid = fork(request.pop("module"), *request.pop("arguments"), stdout=stdout, stderr=stderr, **request)
            os.close(stdout)
            os.close(stderr)
            running[os.pidfd_open(pid)] = pid, socket.socket(fileno=outcome_descriptor)
            control.send(str(pid).encode())


def _import_ahead() -> None:
    # First: modules take the function from here when they are imported.
    processes.spawn = spawn
    from codelab_local.functions import shared_memory
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
        _take_descriptors(stdout, stderr, pass_fds)
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


def _take_descriptors(stdout: int | None, stderr: int | None, pass_fds: Sequence[int]) -> None:
    """Nothing to read, these two to write to, and `pass_fds`. Every other descriptor is closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for place, source in ((0, subprocess.DEVNULL), (1, stdout), (2, stderr)):
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
            stream.reconfigure(line_buffering=inherited.line_buffering, write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _write_command_line(words: Sequence[str]) -> None:
    """Overwrite this process's command line, which has the space for it: the server's padding."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    line = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - start]
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
