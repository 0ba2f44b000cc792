"""Finds the sockets with a name in the file system by which services of this machine are reached.

To connect to one, a program need only see its name: a read-only folder does not prevent it, nor does a namespace.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

#: All such sockets of the network namespace, with the names that their services gave them (proc_net(5)).
_SOCKETS = Path("/proc/net/unix")
#: Its columns before the name, and those of flags, type and number. A connection's socket has the same name.
_COLUMNS, _FLAGS, _TYPE, _NUMBER = 7, 3, 4, 6
_LISTENS, _DATAGRAMS = 0x10000, 2


class _Service(NamedTuple):
    """A socket that listens. number: the kernel's, which no other one has."""

    name: str
    number: bytes


def sockets_below(folders: Sequence[Path], system: Sequence[Path] = ()) -> list[Path]:
    """The sockets of services in these folders at this moment. Paths are absolute and without links.

    Those of a sandbox's own services are not among them, because they are in another network namespace. A name says
    where its socket is, unless it is relative to where its service was; then the folders are searched, once for each
    such service, but not those of the system.
    """
    services = _services()
    paths = {_real(service.name) for service in services if service.name.startswith("/")}
    bound = (*folders, *system)
    sockets = {path for path in paths if any(map(path.is_relative_to, bound))}
    for service in services:
        if not service.name.startswith("/"):
            sockets.update(path for folder in folders for path in _searched(folder, service))
    return sorted(filter(_is_socket, sockets))


def _services() -> set[_Service]:
    """The services with a name; `@` begins an abstract one, which is in no file system."""
    with suppress(OSError):
        lines = [line.split(maxsplit=_COLUMNS) for line in _SOCKETS.read_bytes().split(b"\n")[1:]]
        return {
            _Service(os.fsdecode(line[_COLUMNS]), line[_NUMBER])
            for line in lines
            if len(line) > _COLUMNS
            and line[_COLUMNS][:1] != b"@"
            and (int(line[_FLAGS], 16) & _LISTENS or int(line[_TYPE], 16) == _DATAGRAMS)
        }
    return set()


@lru_cache(maxsize=4096)
def _searched(folder: Path, service: _Service) -> Sequence[Path]:
    last = service.name.rpartition("/")[2]
    return [Path(above, last) for above, _, names in os.walk(folder) if last in names]


def _real(name: str) -> Path:
    above, _, last = name.rpartition("/")
    return Path(os.path.realpath(above or "/"), last)


def _is_socket(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(path.lstat().st_mode)
    return False
