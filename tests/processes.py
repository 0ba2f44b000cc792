"""Other processes: programs that a test runs, and those of a local cloud."""

import contextlib
import shutil
import signal
import subprocess
from typing import Any

import psutil
from codelab_local import LocalCloud


def run(*command: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end."""
    return subprocess.run(command, capture_output=True, **{"text": True, "timeout": 300, **options})


def command_lines(cloud: LocalCloud) -> dict[psutil.Process, list[str]]:
    """The command lines of the local cloud's running processes."""
    root = psutil.Process(cloud.process.pid)
    found = {}
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            found[process] = process.cmdline()
    return found


def kill_everything(cloud: LocalCloud) -> None:
    """Without a chance to save or to say goodbye: every process is stopped before the first one is killed."""
    processes = command_lines(cloud)
    for sig in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sig)
    cloud.process.wait()
    psutil.wait_procs(processes, timeout=10)
    shutil.rmtree(cloud.info["folder"], ignore_errors=True)
