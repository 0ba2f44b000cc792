"""The processes that run functions: `python -m codelab_local.functions.worker`. Imports only the standard library.

There are three generations, each forked from the one before, so that expensive work is done once:

- the *root* has imported the packages that the functions import (boto3 and pydantic cost more than all handlers
  together), those of the layers too where the project allows it, and read what the SDK knows of the services that they
  use;
- a *zygote*, one a function, has the function's environment and has run its handler's init; it never serves a request;
- a *worker* serves one request at a time under AWS's own runtime client until it is killed.

A process forks only without open sockets (except the control channel) and without a second thread, because neither
survives a fork. Before it forks, it prepares its memory (`shared_memory.py`). The native part of AWS's client
(`awslambdaric`) is imported after the last fork, because it reads AWS_LAMBDA_RUNTIME_API during the import. With
`--cold`, one process is both zygote and worker, and forks nothing.

The control channel is a SOCK_SEQPACKET socket with one JSON object per message.

To the root: `{"zygote": config}` with two file descriptors: the zygote's control channel and the pipe for the
function's log. To a zygote: `{"start": id, "niceness": n}`, `{"kill": id}`. From a zygote: `{"ready": true}` or
`{"failed": message, "trace": text}`; then `{"started": id, "pid": pid}` and `{"exited": id, "status": wait status}`.
"""

import ctypes
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from codelab_local.functions import shared_memory
from codelab_local.host.processes import die_with_parent

_TITLE_SPACE = 96  # Padding in the root's command line, which its forks overwrite with a folder's name.
#: The runtime client's imports except its native part, so that workers need to import only that.
_RUNTIME_MODULES = (
    "awslambdaric.lambda_context",
    "awslambdaric.lambda_runtime_log_utils",
    "awslambdaric.lambda_runtime_marshaller",
)
PADDING = "function" + " " * (_TITLE_SPACE - len("function"))


def main() -> None:
    mode, descriptor = sys.argv[1], int(sys.argv[2])
    control = socket.socket(fileno=descriptor)
    if mode == "--cold":
        config, descriptors = _receive(control)
        os.dup2(descriptors[0], 1)
        os.dup2(descriptors[0], 2)
        os.close(descriptors[0])
        _Zygote(control, config["zygote"]).serve_cold(config["start"], config["niceness"])
    else:
        _serve_root(control)


# The root.


def _serve_root(control: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The control channels show the end of zygotes.
    layers: list[str] = []
    while True:
        message, descriptors = _receive(control)
        if not message:
            return
        if "preload" in message:
            layers = message["layers"]
            _preload(message["preload"], layers, control)
            _share_descriptions(message["services"])
            _load_libraries()
            shared_memory.make_immortal()
            shared_memory.freeze()
            continue
        me = os.getpid()
        if os.fork() == 0:
            control.close()
            channel = socket.socket(fileno=descriptors[0])
            os.dup2(descriptors[1], 1)
            os.dup2(descriptors[1], 2)
            os.close(descriptors[1])
            die_with_parent(me)
            _run_and_exit(_Zygote(channel, message["zygote"], layers).serve)
        for descriptor in descriptors:
            os.close(descriptor)


def _preload(modules: list[str], layers: list[str], control: socket.socket) -> None:
    """Import what the functions will import. The function's init reports failures."""
    sys.path[:0] = layers
    for name in [*_RUNTIME_MODULES, *modules]:
        try:
            importlib.import_module(name)
        except BaseException:
            continue
        if threading.active_count() > 1:
            # An import started a thread: restart without imports.
            arguments = [
                sys.executable,
                "-m",
                "codelab_local.functions.worker",
                "--root",
                str(control.fileno()),
                PADDING,
            ]
            os.execv(sys.executable, arguments)
    del sys.path[: len(layers)]


def _share_descriptions(services: list[str]) -> None:
    """The SDK reads the descriptions of services anew for every session, and so for every process: 150 ms in each."""
    if "botocore.session" not in sys.modules:
        return
    import botocore.loaders
    import botocore.session

    create = botocore.loaders.create_loader
    loader = create()
    for service in services:
        for kind in ("service-2", "endpoint-rule-set-1"):
            with suppress(botocore.exceptions.BotoCoreError):  # the function's own client will say so
                loader.load_service_model(service, kind, api_version=None)
    for name in ("endpoints", "partitions", "sdk-default-configuration", "_retry"):
        loader.load_data_with_path(name)
    # A function may name a folder of its own for them (AWS_DATA_PATH).
    sessions: Any = botocore.session
    sessions.create_loader = lambda folders=None: loader if folders is None else create(folders)


def _load_libraries() -> None:
    """Load what would be loaded on first use, in every worker: the name resolver, and C++ for the runtime client."""
    socket.getaddrinfo("127.0.0.1", 80)
    with suppress(OSError):
        ctypes.CDLL("libstdc++.so.6")


# A zygote and its workers.


class _Zygote:
    def __init__(self, control: socket.socket, config: dict[str, Any], modules: Sequence[str] = ()) -> None:
        self._control = control
        self._config = config
        self._preloaded_modules = modules
        self._workers: dict[int, str] = {}

    def serve(self) -> None:
        """Run the handler's init, then fork workers on request."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _set_title(self._config["folder"])
        if not self._initialise():
            return
        if threading.active_count() > 1:
            self._send({"threads": sorted(thread.name for thread in threading.enumerate())})
            return
        _end_connections(self._control.fileno())
        _import_runtime()
        shared_memory.freeze()
        wakeup, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._send({"ready": True})
        channel = self._control.fileno()
        while True:
            readable, _, _ = select.select([channel, wakeup], [], [])
            if wakeup in readable:
                os.read(wakeup, 4096)
                self._reap()
            if channel in readable:
                message, _ = _receive(self._control)
                if not message:
                    return  # The local cloud ended or has new code; the workers end with their parent.
                if "start" in message:
                    self._fork(message["start"], message["niceness"], (wakeup, wake))
                elif "kill" in message:
                    self._kill(message["kill"])

    def serve_cold(self, worker: str, niceness: int) -> None:
        if self._initialise():
            self._send({"ready": True})
            self._send({"started": worker, "pid": os.getpid()})
            _run_worker(self._config, worker, niceness)

    def _initialise(self) -> bool:
        config = self._config
        os.environ.clear()
        os.environ.update(config["environment"])
        time.tzset()
        os.chdir(config["path"][0])
        sys.path[:0] = config["path"]
        sys.argv = [sys.argv[0]]
        if config["ignore_bytecode"]:
            sys.dont_write_bytecode = True
            sys.pycache_prefix = os.devnull
        _forget_layers(self._preloaded_modules, () if config["ignore_bytecode"] else config["path"])
        importlib.invalidate_caches()
        module, _, attribute = config["handler"].rpartition(".")
        try:
            if not module:
                raise ImportError(f"Handler {config['handler']!r} must be MODULE.FUNCTION")
            handler = getattr(importlib.import_module(module.replace("/", ".")), attribute, None)
            if not callable(handler):
                raise ImportError(f"module {module!r} has no function {attribute!r}")
            _run_snapshot_hooks("get_before_snapshot")
        except BaseException as error:
            self._send({"failed": _one_line(error, config["path"]), "trace": traceback.format_exc()})
            return False
        return True

    def _fork(self, worker: str, niceness: int, descriptors: tuple[int, int]) -> None:
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(me)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for descriptor in descriptors:
                os.close(descriptor)
            _run_and_exit(lambda: _run_worker(self._config, worker, niceness))
        self._workers[pid] = worker
        self._send({"started": worker, "pid": pid})

    def _kill(self, worker: str) -> None:
        # Only the parent can be sure that the pid was not reused.
        for pid, name in self._workers.items():
            if name == worker:
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while self._workers:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._workers:
                self._send({"exited": self._workers.pop(pid), "status": status})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError:
            os._exit(0)  # The local cloud ended.


def _forget_layers(layers: Sequence[str], kept_layers: Sequence[str]) -> None:
    """Forget the modules of `layers` that the root has imported, but for those of the folders `kept_layers`."""
    if set(layers) <= set(kept_layers):
        return  # Looking at every module would copy their pages into this process.
    prefixes = tuple(f"{layer}/" for layer in set(layers) - set(kept_layers))
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(prefixes):
            del sys.modules[name]


def _import_runtime() -> None:
    """Import AWS's runtime client, but not its native part, nor for good the module that makes use of that."""
    native, client = "runtime_client", "awslambdaric.lambda_runtime_client"
    sys.modules[native] = None  # type: ignore[assignment]
    with suppress(ImportError):  # The worker reports it.
        importlib.import_module("awslambdaric.bootstrap")
    for name in (native, client):
        sys.modules.pop(name, None)


def _run_worker(config: dict[str, Any], worker: str, niceness: int) -> None:
    """Serve requests forever. The address contains the worker's id, so that the Runtime API can identify it."""
    os.environ["AWS_LAMBDA_RUNTIME_API"] = f"{config['runtime_api']}/worker/{worker}"
    os.environ["AWS_LAMBDA_LOG_STREAM_NAME"] = f"{time.strftime('%Y/%m/%d')}/[$LATEST]{worker}"
    _run_snapshot_hooks("get_after_restore")
    _send_here(config["addresses"])
    from awslambdaric import bootstrap  # type: ignore[import-untyped]
    from awslambdaric.lambda_runtime_client import LambdaRuntimeClient  # type: ignore[import-untyped]

    os.nice(niceness)
    try:
        bootstrap.run(config["handler"], LambdaRuntimeClient(os.environ["AWS_LAMBDA_RUNTIME_API"]))
    except RuntimeError:
        os._exit(1)  # The Runtime API is gone; nobody would read a traceback.


def _end_connections(control: int) -> None:
    """Close the connections that an init opened, because all workers would write to the same ones.

    A connection pool notices and reconnects. Lambda does not promise more: connections opened during init may be closed
    before a request or after a snapshot.
    """
    listing = Path("/proc/self/fd")
    for entry in listing.iterdir() if listing.is_dir() else ():
        descriptor = int(entry.name)
        try:
            if descriptor == control or not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


def _send_here(addresses: dict[str, str]) -> None:
    """Redirect botocore's requests: `{beginning of a URL: its replacement}`.

    Most handlers build the callback address from the event's domainName, which does not exist on this machine. S3 has
    its public address, so that clients can use presigned URLs, but functions must use the internal port.
    """
    sessions = sys.modules.get("botocore.httpsession")
    if sessions is None:
        return
    send = sessions.URLLib3Session.send

    def send_here(self: Any, request: Any) -> Any:
        for prefix, address in addresses.items():
            if request.url.startswith(prefix):
                request.url = address + request.url[len(prefix) :]
                break
        return send(self, request)

    sessions.URLLib3Session.send = send_here


def _run_snapshot_hooks(getter: str) -> None:
    """A fork of an initialised process is like SnapStart, so the same hooks run before and after it."""
    hooks = sys.modules.get("snapshot_restore_py")
    if hooks is None:
        return
    for function, arguments, keywords in list(getattr(hooks, getter)()):
        function(*arguments, **keywords)


# The operating system.


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive one message with its file descriptors; an empty one at the end."""
    data, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
    return (json.loads(data) if data else {}), list(descriptors)


def _run_and_exit(body: Callable[[], None]) -> NoReturn:
    """End a forked process without its parent's cleanup."""
    status = 1
    try:
        body()
        status = 0
    except SystemExit as request:
        status = request.code if isinstance(request.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _one_line(error: BaseException, path: list[str]) -> str:
    """An exception in one line: its message, and its origin in the function's own code."""
    message = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {message}"
    if isinstance(error, SystemExit | ValueError | RuntimeError) or type(error).__module__ != "builtins":
        return message  # Its message is meant for users, as of a check of the environment.
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(tuple(path))]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{place}"


def _set_title(name: str) -> None:
    """Write the function's folder into the process's command line, over the root's padding (Linux only)."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return
    line = ctypes.string_at(start, end - start)
    position = line.rfind(PADDING.encode())
    if position >= 0:
        title = name.encode()[:_TITLE_SPACE]
        ctypes.memmove(start + position, title + b"\0" * (_TITLE_SPACE - len(title)), _TITLE_SPACE)


if __name__ == "__main__":
    main()
