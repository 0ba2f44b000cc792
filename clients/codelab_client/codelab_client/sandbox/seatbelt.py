"""Runs programs in macOS's seatbelt (`sandbox-exec`). Written from its documentation and not tested on a Mac."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from codelab_client.sandbox.access import Access, Guarantees, Launch

_PROGRAM = "/usr/bin/sandbox-exec"
_SYSTEM = ("/usr", "/bin", "/sbin", "/System", "/Library", "/opt", "/nix", "/private/etc", "/private/var/db", "/dev")
_ALWAYS = """(version 1)
(deny default)
(allow process-fork process-exec signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read ipc-posix-shm*)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.system.logger"))
(allow file-read-metadata)
(allow file-read* (literal "/"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
"""


class Seatbelt:
    """Runs programs in `sandbox-exec`. Raises FileNotFoundError where there is none: everywhere but on macOS."""

    name = "seatbelt"
    guarantees = Guarantees(writes_only_there=True, home_hidden=True, protects_git=True, no_network=True)

    def __init__(self) -> None:
        if not os.access(_PROGRAM, os.X_OK):
            raise FileNotFoundError("sandbox-exec is not installed")

    def launch(self, argv: Sequence[str], access: Access, cwd: Path) -> Launch:
        """How to start `argv`. Temporary files go below the first writable directory's own `TMPDIR`, if it has one."""
        return Launch((_PROGRAM, "-p", "".join(_rules(access)), *argv), cwd=cwd)


def _rules(access: Access) -> Iterator[str]:
    """The profile; a later rule overrides an earlier one."""
    yield _ALWAYS
    yield _rule("allow file-read*", [*map(Path, _SYSTEM), *access.readable, *access.writable])
    yield _rule("allow file-write*", access.writable)
    yield _rule("deny file-write*", access.read_only)
    if access.network:
        yield "(allow network*)\n"


def _rule(operation: str, paths: Sequence[Path]) -> str:
    if not paths:
        return ""
    return f"({operation} {' '.join(f'(subpath {_quoted(path)})' for path in paths)})\n"


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
