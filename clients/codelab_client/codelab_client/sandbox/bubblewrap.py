"""Runs programs in bubblewrap: in namespaces of their own, with a file system that has only what they may reach."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from codelab_client.sandbox.access import Access, Guarantees, Launch

#: What programs need of the system. Nothing else of it exists in the sandbox.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap")
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
        private_tmp=True,
        protects_git=True,
        no_network=True,
        ends_all=True,
        hides_processes=True,
    )

    def __init__(self, home: Path) -> None:
        program = shutil.which("bwrap", path=os.defpath)
        if program is None:
            raise FileNotFoundError("bwrap is not installed")
        self._program = program
        self._home = home

    def launch(self, argv: Sequence[str], access: Access, cwd: Path) -> Launch:
        """How to start `argv`: bwrap watches over it, and takes the whole sandbox along when it dies."""
        options = [self._program, "--unshare-all", *(["--share-net"] if access.network else [])]
        # Capabilities are dropped for root, who would keep them. Other names than the program's own are made up.
        options += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]
        options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
        options += ["--tmpfs", str(self._home)]
        for path in (*_SYSTEM, *(_RESOLVERS if access.network else ())):
            options += _system(path)
        options += [part for path in access.readable for part in ("--ro-bind", str(path), str(path))]
        options += [part for path in access.writable for part in ("--bind", str(path), str(path))]
        options += [part for path in access.protected for part in ("--ro-bind", str(path), str(path))]
        options += ["--remount-ro", "/", "--chdir", str(cwd), "--"]
        return Launch((*options, *argv), env={"TMPDIR": "/tmp"}, monitored=True)


def _system(path: str) -> Iterator[str]:
    if Path(path).is_symlink():
        yield from ("--symlink", str(Path(path).readlink()), path)
    elif Path(path).is_dir():
        yield from ("--ro-bind", path, path)
