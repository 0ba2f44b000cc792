"""Runs a program in bubblewrap, over folders that stand at the absolute paths that a task's Dockerfile made.

The machine's programs are there to read. Nothing else of it is: no home, no network unless asked for.
"""

import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

#: What programs need of the machine, and what a task's files may not stand in.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt")
#: Made anew in each sandbox.
_OWN = ("/proc", "/dev", "/tmp")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOST_OUTPUT = 200_000


class SandboxError(RuntimeError):
    """No sandbox can be made. The message says what to install."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit code (None: it was ended at its time limit), and the end of what it printed."""

    code: int | None
    output: str


@dataclass
class Mounts:
    """What stands where beside the machine's programs: paths in the sandbox → folders or files of this machine."""

    writable: dict[str, Path] = field(default_factory=dict)
    readable: dict[str, Path] = field(default_factory=dict)


def of_root(root: Path) -> dict[str, Path]:
    """The entries of a folder that stands for `/`, by their path in the sandbox."""
    return {f"/{entry.name}": entry for entry in sorted(root.iterdir())}


def reserved(path: PurePosixPath) -> bool:
    """Whether a task's file may not stand there, because the machine's own is used."""
    return path.parts[:2] in {PurePosixPath(other).parts for other in (*SYSTEM, *_OWN)} or len(path.parts) < 2


def command(
    argv: Sequence[str], mounts: Mounts, workdir: str, environment: Mapping[str, str], *, network: bool = False
) -> list[str]:
    """The command that runs `argv` in a sandbox. Raises SandboxError if bubblewrap is not installed."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError("bubblewrap is needed: apt-get install bubblewrap")
    options = [program, "--unshare-all", *(["--share-net"] if network else []), "--die-with-parent", "--new-session"]
    options += ["--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"]
    options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/root"]
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    for path_in, source in sorted(mounts.writable.items()):
        options += ["--bind", str(source), path_in]
    for path_in, source in sorted(mounts.readable.items()):
        options += ["--ro-bind", str(source), path_in]
    for name, value in ({"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8"} | dict(environment)).items():
        options += ["--setenv", name, value]
    return [*options, "--chdir", workdir, "--", *argv]


def run(
    argv: Sequence[str],
    mounts: Mounts,
    workdir: str,
    environment: Mapping[str, str],
    timeout_s: float,
    *,
    network: bool = False,
) -> Outcome:
    """Run a program to its end, at most `timeout_s` seconds; all it started ends with it."""
    line = command(argv, mounts, workdir, environment, network=network)
    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            output, _ = process.communicate()
            code = None
        except BaseException:
            process.kill()
            raise
    return Outcome(code, output.decode("utf-8", "replace")[-_MOST_OUTPUT:])
