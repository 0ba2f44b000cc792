"""What is at a path at one time, and how a path is brought back to it."""

import hashlib
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from codelab_client.tools.failure import ToolFailure
from codelab_client.tools.tree import ANY, Change, Names, Tree

Kind = Literal["absent", "file", "link", "directory", "special"]
#: The modes of a state of which git only knows whether the file is executable.
EXECUTABLE, NOT_EXECUTABLE = "x", "-"


@dataclass(frozen=True)
class FileState:
    """What is at a path. digest: of a file's content or a link's target. mode: permission bits in octal, or git's."""

    kind: Kind
    digest: str = ""
    mode: str = ""

    def matches(self, state: "FileState") -> bool:
        """Whether both are the same as far as both are known."""
        if (self.kind, self.digest) != (state.kind, state.digest):
            return False
        return self.kind != "file" or _same_mode(self.mode, state.mode)


ABSENT = FileState("absent")
DIRECTORY = FileState("directory")


@dataclass(frozen=True)
class Captured:
    """A state with its content. data: None if it has none, or more bytes than are stored."""

    state: FileState
    data: bytes | None = field(default=None, repr=False)
    version: tuple[int, ...] = ANY

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing to bring the state back."""
        return self.state.kind in ("absent", "directory") or self.data is not None


def digest_of(data: bytes) -> str:
    """The digest of a content."""
    return hashlib.sha256(data).hexdigest()


def capture(tree: Tree, names: Names, limit: int) -> Captured:
    """What is at a path now, with at most so many bytes. No link is followed. Raises ToolFailure."""
    placeholder: Captured | None = None
    try:
        status = tree.status(names)
        mode = f"{stat.S_IMODE(status.st_mode) & 0o777:04o}"
        if stat.S_ISDIR(status.st_mode):
            return Captured(FileState("directory", mode=mode))
        if stat.S_ISLNK(status.st_mode):
            target = tree.target(names)
            return Captured(FileState("link", digest_of(target)), target)
        if not stat.S_ISREG(status.st_mode):
            return Captured(FileState("special"))
        # Enough to see that a file is still the same that is too large, or that the client may only write.
        placeholder = Captured(FileState("file", f"unread:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}", mode))
        content = tree.read(names, limit)
    except ToolFailure as failure:
        if failure.code in ("FILE_TOO_LARGE", "PERMISSION_DENIED") and placeholder is not None:
            return placeholder
        if failure.code == "FILE_NOT_FOUND":
            return Captured(ABSENT)
        raise
    return Captured(FileState("file", digest_of(content.data), f"{content.mode:04o}"), content.data, content.version)


@dataclass(frozen=True)
class Restoring:
    """One path to bring back. now: what is there. target: what shall be there, with its content."""

    names: Names
    now: Captured
    target: FileState
    data: bytes | None = field(default=None, repr=False)


def restore(tree: Tree, restorings: Sequence[Restoring]) -> list[Names]:
    """Bring paths back. Returns those that could not be; a directory that is no longer empty may stay.

    What goes comes first: a file may have taken a directory's place. A file that changes in this moment stays.
    """
    failures: list[Names] = []
    going = [restoring for restoring in restorings if _goes(restoring)]
    for restoring in sorted(
        going, key=lambda restoring: (restoring.now.state.kind == "directory", -len(restoring.names))
    ):
        _remove(tree, restoring, failures)
    coming = [
        restoring for restoring in restorings if restoring.target.kind != "absent" and restoring.names not in failures
    ]
    for restoring in sorted(coming, key=lambda restoring: (restoring.target.kind != "directory", len(restoring.names))):
        try:
            _put(tree, restoring)
        except ToolFailure:
            failures.append(restoring.names)
    return failures


def _goes(restoring: Restoring) -> bool:
    """Whether what is there must go before something else can come."""
    now, target = restoring.now.state.kind, restoring.target.kind
    return now != "absent" and (target == "absent" or "directory" in (now, target)) and now != target


def _remove(tree: Tree, restoring: Restoring, failures: list[Names]) -> None:
    if restoring.now.state.kind == "directory":
        if not tree.delete_empty(restoring.names) and restoring.target.kind != "absent":
            failures.append(restoring.names)
        return
    try:
        tree.apply([Change(restoring.names, None, expected=restoring.now.version, replaces_links=True)])
    except ToolFailure as failure:
        if failure.code != "FILE_NOT_FOUND":
            failures.append(restoring.names)


def _put(tree: Tree, restoring: Restoring) -> None:
    if restoring.target.kind == "directory":
        tree.make_directory(restoring.names)
        return
    expected = None if restoring.now.state.kind in ("absent", "directory") else restoring.now.version
    mode, is_link = _mode(tree, restoring), restoring.target.kind == "link"
    tree.apply([Change(restoring.names, restoring.data, mode, expected, link=is_link, replaces_links=True)])
    if restoring.now.state.kind != "file" and mode is not None and restoring.target.mode == f"{mode:04o}":
        tree.apply([Change(restoring.names, restoring.data, mode)])  # The umask counts for a new file only.


def _mode(tree: Tree, restoring: Restoring) -> int | None:
    """The permission bits to restore. Of those that git does not know, the present ones stay."""
    mode = restoring.target.mode
    if restoring.target.kind != "file" or mode == "":
        return None
    if mode not in (EXECUTABLE, NOT_EXECUTABLE):
        return int(mode, 8)
    if restoring.now.state.kind == "file":
        with suppress(OSError, ToolFailure):
            old = stat.S_IMODE(tree.status(restoring.names).st_mode) & 0o777
            return old | (old & 0o444) >> 2 if mode == EXECUTABLE else old & ~0o111
    return None if mode == NOT_EXECUTABLE else 0o777


def _same_mode(first: str, second: str) -> bool:
    if "" in (first, second):
        return True
    if {first, second} & {EXECUTABLE, NOT_EXECUTABLE}:
        return _executes(first) == _executes(second)
    return first == second


def _executes(mode: str) -> bool:
    return mode == EXECUTABLE or (mode != NOT_EXECUTABLE and bool(int(mode, 8) & 0o100))
