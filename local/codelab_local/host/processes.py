"""Starts child processes that never outlive the local cloud."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

_PR_SET_PDEATHSIG = 1
#: asyncio sets TCP_NODELAY only if the protocol is named; without it, a piece waits 40 ms for the last ACK.
_TCP = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int, sig: int = signal.SIGKILL) -> None:
    """In a child: have the kernel send it `sig` when `parent` ends, even by `kill -9` (Linux only)."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, sig, 0, 0, 0)
        if os.getppid() != parent:  # The parent ended in between.
            os.kill(os.getpid(), sig)


def spawn(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    death_signal: int = signal.SIGKILL,
    stdout: int | None = subprocess.DEVNULL,
    stderr: int | None = None,
) -> "subprocess.Popen[bytes]":
    """Start `python -m module` in its own session, because Ctrl-C in a terminal must reach only the local cloud.

    Call this from the main thread: the kernel watches the thread that forks, not the process.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=dict(environment),
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=before_exec(os.getpid(), death_signal),
    )


def before_exec(parent: int, sig: int) -> Callable[[], None] | None:
    """A `preexec_fn` that ends the new process with `parent`. Start the process from the main thread."""
    return (lambda: die_with_parent(parent, sig)) if _libc is not None else None


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process started by :func:`spawn` and everything it forked (its session is its process group)."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def bound_socket() -> socket.socket:
    """A socket with a port of the loopback interface, for a child process that inherits it and listens there.

    A port that is merely free now may be another process's before the child has started.
    """
    bound = socket.socket(*_TCP)
    bound.bind(("127.0.0.1", 0))
    return bound


def inherited_socket(fd: int) -> socket.socket:
    """In a child: the socket of :func:`bound_socket`."""
    return socket.socket(*_TCP, fd)
