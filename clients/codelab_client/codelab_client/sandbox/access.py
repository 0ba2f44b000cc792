"""What a program may reach, and what a sandbox guarantees about it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Access:
    """What a program may reach. Paths are absolute, exist and have no links in them.

    writable: the directories that it may change; one inside another cannot be renamed or removed.
    readable: what else it may read, besides the system's programs, libraries and settings.
    read_only: what it may only read although it is in a writable directory.
    network: whether it has the machine's network; else it has none, not even this machine's own services.
    """

    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    network: bool = False


@dataclass(frozen=True)
class Guarantees:
    """What holds for a command that runs in a sandbox, whatever it does."""

    writes_only_there: bool = False
    home_hidden: bool = False
    protects_git: bool = False
    no_network: bool = False


@dataclass(frozen=True)
class Launch:
    """How to start a program. argv: the program with its sandbox. env: variables to set.

    monitored: the started process only watches over the program, and its death kills the program at once.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    monitored: bool = False


class Sandbox(Protocol):
    """A way to run programs. name: shown to the user."""

    @property
    def name(self) -> str:
        """How the user calls it."""
        ...

    @property
    def guarantees(self) -> Guarantees:
        """What it guarantees on this machine."""
        ...

    def launch(self, argv: Sequence[str], access: Access, cwd: Path) -> Launch:
        """How to start `argv` in the directory `cwd` so that it reaches only what `access` says."""
        ...


class Unsandboxed:
    """Runs programs as they are. They can do whatever the user can."""

    name = "none"
    guarantees = Guarantees()

    def launch(self, argv: Sequence[str], access: Access, cwd: Path) -> Launch:
        """The program itself."""
        return Launch(tuple(argv), cwd=cwd)


def folders_above(files: Sequence[Path], root: Path) -> list[Path]:
    """The folders below `root` that contain these files, outer ones first.

    As writable directories of their own they cannot be renamed, so no other file takes the place of a protected one.
    """
    folders = {folder for file in files for folder in file.parents if folder.is_relative_to(root) and folder != root}
    return sorted(folders, key=lambda folder: len(folder.parts))
