"""Finds programs that wait for a terminal which commands do not have.

A command has no controlling terminal, and nothing to read. Most programs that want a user's keys end then. Some, such
as vim, read them from their error output instead, as if it were the terminal. It is a pipe, which never has any: they
would wait for ever.
"""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

#: Seconds between two looks. A command that ends earlier is not looked at.
EVERY_S = 1.0
_PROCESSES = Path("/proc")


def terminal_readers(group: int, outputs: Collection[int]) -> list[tuple[int, str]]:
    """The processes of a group that read from where they write to, with their names. Linux only; none elsewhere.

    outputs: the numbers (inodes) of the pipes that the group writes to.
    """
    return [(process, _name(process)) for process in members(group) if _reads(process, outputs)]


def members(group: int) -> Iterator[int]:
    """The processes of a group."""
    for entry in _PROCESSES.iterdir() if _PROCESSES.is_dir() else ():
        with suppress(OSError, ValueError):
            if os.getpgid(int(entry.name)) == group:
                yield int(entry.name)


def names(group: int) -> list[str]:
    """The names of the programs of a group that run, each once."""
    try:
        os.killpg(group, 0)
    except OSError:  # mostly there are none, and all processes of the machine need not be looked at
        return []
    return list(dict.fromkeys(_name(process) for process in members(group) if _runs(process)))


def _runs(process: int) -> bool:
    """Whether a process has not ended: what waits for its parent to take note of its end has no arguments."""
    with suppress(OSError):
        return bool((_PROCESSES / str(process) / "cmdline").read_bytes())
    return False


def _reads(process: int, outputs: Collection[int]) -> bool:
    with suppress(OSError):
        status = (_PROCESSES / str(process) / "fd/0").stat()
        return stat.S_ISFIFO(status.st_mode) and status.st_ino in outputs
    return False


def _name(process: int) -> str:
    with suppress(OSError):
        return (_PROCESSES / str(process) / "comm").read_bytes().decode(errors="replace").strip()
    return "a program"
