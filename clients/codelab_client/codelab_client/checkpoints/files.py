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

    def same(self, other: "FileState") -> bool:
        """Whether both are the same as far as both are known."""
        if (self.kind, self.digest) != (other.kind, other.digest):
            return False
        return self.kind != "file" or _same_mode(self.mode, other.mode)


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


def capture(tree: Tree, names: Names, most: int) -> Captured:
    """What is at a path now, with at most so many bytes. No link is followed. Raises ToolFailure."""
    unread: Captured | None = None
    try:
        found = tree.status(names)
        mode = f"{stat.S_IMODE(found.st_mode) & 0o777:04o}"
        if stat.S_ISDIR(found.st_mode):
            return Captured(FileState("directory", mode=mode))
        if stat.S_ISLNK(found.st_mode):
            target = tree.target(names)
            return Captured(FileState("link", digest_of(target)), target)
        if not stat.S_ISREG(found.st_mode):
            return Captured(FileState("special"))
        # Enough to see that a file is still the same that is too large, or that the client may only write.
        unread = Captured(FileState("file", f"unread:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}", mode))
        content = tree.read(names, most)
    except ToolFailure as failure:
        if failure.code in ("FILE_TOO_LARGE", "PERMISSION_DENIED") and unread is not None:
            return unread
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


def restore(tree: Tree, wanted: Sequence[Restoring]) -> list[Names]:
    """Bring paths back. Returns those that could not be; a directory that is no longer empty may stay.

    What goes comes first: a file may have taken a directory's place. A file that changes in this moment stays.
    """
    failed: list[Names] = []
    going = [one for one in wanted if _goes(one)]
    for one in sorted(going, key=lambda one: (one.now.state.kind == "directory", -len(one.names))):
        _remove(tree, one, failed)
    coming = [one for one in wanted if one.target.kind != "absent" and one.names not in failed]
    for one in sorted(coming, key=lambda one: (one.target.kind != "directory", len(one.names))):
        try:
            _put(tree, one)
        except ToolFailure:
            failed.append(one.names)
    return failed


def _goes(one: Restoring) -> bool:
    """Whether what is there must go before something else can come."""
    now, target = one.now.state.kind, one.target.kind
    return now != "absent" and (target == "absent" or "directory" in (now, target)) and now != target


def _remove(tree: Tree, one: Restoring, failed: list[Names]) -> None:
    if one.now.state.kind == "directory":
        if not tree.delete_empty(one.names) and one.target.kind != "absent":
            failed.append(one.names)
        return
    try:
        tree.apply([Change(one.names, None, expected=one.now.version, replaces_links=True)])
    except ToolFailure as failure:
        if failure.code != "FILE_NOT_FOUND":
            failed.append(one.names)


def _put(tree: Tree, one: Restoring) -> None:
    if one.target.kind == "directory":
        tree.make_directory(one.names)
        return
    expected = None if one.now.state.kind in ("absent", "directory") else one.now.version
    mode, is_link = _mode(tree, one), one.target.kind == "link"
    tree.apply([Change(one.names, one.data, mode, expected, link=is_link, replaces_links=True)])
    if one.now.state.kind != "file" and mode is not None and one.target.mode == f"{mode:04o}":
        tree.apply([Change(one.names, one.data, mode)])  # The umask counts for a new file only.


def _mode(tree: Tree, one: Restoring) -> int | None:
    """The permission bits to restore. Of those that git does not know, the present ones stay."""
    mode = one.target.mode
    if one.target.kind != "file" or mode == "":
        return None
    if mode not in (EXECUTABLE, NOT_EXECUTABLE):
        return int(mode, 8)
    if one.now.state.kind == "file":
        with suppress(OSError, ToolFailure):
            old = stat.S_IMODE(tree.status(one.names).st_mode) & 0o777
            return old | (old & 0o444) >> 2 if mode == EXECUTABLE else old & ~0o111
    return None if mode == NOT_EXECUTABLE else 0o777


def _same_mode(one: str, other: str) -> bool:
    if "" in (one, other):
        return True
    if {one, other} & {EXECUTABLE, NOT_EXECUTABLE}:
        return _executes(one) == _executes(other)
    return one == other


def _executes(mode: str) -> bool:
    return mode == EXECUTABLE or (mode != NOT_EXECUTABLE and bool(int(mode, 8) & 0o100))
