"""Runs programs in bubblewrap: in namespaces of their own, with a file system that has only what they may reach.

Namespaces do not keep apart what a seccomp filter must: the kernel's keyrings, and sockets that no network namespace
has, such as those to the machine that a virtual machine runs on. Neither sees where a socket leads that has a name in
the file system, so those of services are hidden.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from codelab_client.sandbox.access import Access, Guarantees, Launch
from codelab_client.sandbox.landlock import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_UNIX,
    has_seccomp_filter,
    seccomp_filter,
)
from codelab_client.sandbox.sockets import sockets_below

#: What programs need of the system. Nothing else of it exists in the sandbox.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap")
#: State of a service in one of them, with its sockets, and the part of it that programs need: only links to programs.
_STATE, _LINKS = "/nix/var", "/nix/var/nix/profiles"
#: The keys of the user's session, by name.
_KEYS = "/proc/keys"
#: Where the names of hosts come from if `/etc/resolv.conf` is a link; only with the network.
_RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")


class Bubblewrap:
    """Runs programs in `bwrap`. Raises FileNotFoundError if it is not installed.

    home: the directory in whose place the program has an empty one.
    """

    name = "bubblewrap"
    guarantees = Guarantees(
        writes_only_there=True,
        home_hidden=True,
        protects_git=True,
        no_network=True,
    )

    def __init__(self, home: Path) -> None:
        program = shutil.which("bwrap", path=os.defpath)
        if program is None:
            raise FileNotFoundError("bwrap is not installed")
        self._program = program
        self._home = home

    def launch(self, argv: Sequence[str], access: Access, cwd: Path) -> Launch:
        """How to start `argv`: bwrap watches over it, and takes the whole sandbox along when it dies."""
        options = ["--unshare-all", *(["--share-net"] if access.network else [])]
        # Capabilities are dropped for root, who would keep them. Other names than the program's own are made up.
        options += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]
        options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
        options += [*_hidden(Path(_KEYS)), "--tmpfs", str(self._home)]
        for path in (*_SYSTEM, *(_RESOLVERS if access.network else ())):
            options += _system(path)
        if Path(_STATE).is_dir():
            options += ["--tmpfs", _STATE, "--ro-bind-try", _LINKS, _LINKS]
        options += [part for path in access.readable for part in ("--ro-bind", str(path), str(path))]
        options += [part for path in access.writable for part in ("--bind", str(path), str(path))]
        options += [part for path in access.read_only for part in ("--ro-bind", str(path), str(path))]
        services = sockets_below((*access.readable, *access.writable), [*map(Path, _SYSTEM)])
        options += [part for path in services for part in _hidden(path)]
        options += ["--remount-ro", "/", "--chdir", str(cwd), "--"]
        return Launch((*self._filtered(), *options, *argv), env={"TMPDIR": "/tmp"}, monitored=True)

    def _filtered(self) -> tuple[str, ...]:
        """bwrap with the filter. It takes it as an open file, which a shell opens for it and then becomes bwrap."""
        if not has_seccomp_filter():
            return (self._program,)
        file = f"/proc/{os.getpid()}/fd/{_filter()}"
        return ("/bin/sh", "-c", 'exec "$@" 9<"$0"', file, self._program, "--seccomp", "9")


@cache
def _filter() -> int:
    """A file in memory with the filter, which nobody can change, a command neither. It stays open."""
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, seccomp_filter((AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)))
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def _system(path: str) -> Iterator[str]:
    if Path(path).is_symlink():
        yield from ("--symlink", str(Path(path).readlink()), path)
    elif Path(path).is_dir():
        yield from ("--ro-bind", path, path)


def _hidden(path: Path) -> Iterator[str]:
    """Arguments that put an empty device in the place of a file, if the file exists."""
    if path.exists():
        yield from ("--ro-bind", os.devnull, str(path))
