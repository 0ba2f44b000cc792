"""The change of one file: staged beside it, put in its place at once, and taken back if another change fails.

What is replaced is looked at again after it has been taken out of its place. If it is not what the change expects,
because somebody saved the file meanwhile, it is put back, and nothing is lost.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from codelab_client.tools.exchange import exchange
from codelab_client.tools.failure import Changed, ToolFailure
from codelab_client.tools.paths import joined

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_UPDATE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777
_TEMPORARY = ".codelab-write-"
#: Errors of a file system without hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)

Names = tuple[str, ...]

#: The `expected` of a change that may replace anything.
ANY: tuple[int, ...] = ()


@dataclass(frozen=True)
class Change:
    """What becomes of one file: `data` replaces its content, or None deletes it.

    mode: the new permission bits; None keeps them, and gives a new file the default ones.
    link: whether `data` is the target of a symbolic link that takes the file's place.
    replaces_links: whether a link may be in the file's place; it is replaced or deleted, never followed.
    expected: the version that is replaced, None if there must be no file; ANY skips the comparison.
    old: the content that is replaced, which is compared as well if it is given.
    """

    names: Names
    data: bytes | None
    mode: int | None = None
    expected: tuple[int, ...] | None = ANY
    link: bool = False
    replaces_links: bool = False
    old: bytes | None = None


class Step:
    """A change that is being made. directory: the open directory of the file.

    A file with other hard links, or of another owner, is written in place, with a copy beside it until it is complete.
    """

    def __init__(self, change: Change, directory: int) -> None:
        self.change, self.directory, self.name = change, directory, change.names[-1]
        self.new = self.old = ""  # temporary names: of the new content, and of the old one
        self.is_in_place = self.existed = self.performed = False

    def stage(self, names_of: Callable[[os.stat_result], int]) -> None:
        """Check the file, and write its new content under another name.

        names_of: how many names in the workspace a file has.
        """
        change, name = self.change, joined(self.change.names)
        status = lookup(self.directory, self.name)
        self.existed = status is not None
        if status is not None and not (change.replaces_links and stat.S_ISLNK(status.st_mode)):
            if stat.S_ISDIR(status.st_mode):
                raise ToolFailure("EXECUTION_FAILED", f"{name} is a directory")
            if not stat.S_ISREG(status.st_mode):
                raise ToolFailure("PERMISSION_DENIED", f"{name} is not a regular file")
            if not os.access(self.name, os.W_OK, dir_fd=self.directory):
                raise ToolFailure("PERMISSION_DENIED", f"{name} is read-only")
        if change.expected != ANY and (version_of(status) if status else None) != change.expected:
            raise self._changed()
        if status is None and change.data is None:
            raise ToolFailure("FILE_NOT_FOUND", f"{name}: No such file or directory")
        if change.data is not None:
            self.is_in_place = status is not None and self._must_stay(status, names_of)
            self.new = temporary_name()
            _write_new(self.directory, self.new, change, status)

    def perform(self) -> None:
        """Put the new content in place. The old one stays beside it until `discard`."""
        if not self.new:
            self.old = move_aside(self.directory, self.name)
            self.performed = True
            self._check_old()
        elif not self.existed:
            self._create()
        elif self.is_in_place:
            self._overwrite()
        else:
            self._replace()

    def take_back(self) -> None:
        """Put the old content in place again, if it was replaced."""
        if not self.performed:
            return
        self.performed = False
        if self.is_in_place:
            self._copy_into(self.old)
        elif not self.old:
            os.unlink(self.name, dir_fd=self.directory)
        elif self.change.data is not None:
            os.rename(self.old, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
            self.old = ""
        else:
            old, self.old = self.old, ""  # It stays where it is if its name is taken.
            move_to_free_name(self.directory, old, self.directory, self.name)

    def discard(self) -> None:
        """Remove what is left beside the file."""
        for name in filter(None, (self.new, self.old)):
            with suppress(OSError):
                os.unlink(name, dir_fd=self.directory)

    def _create(self) -> None:
        try:
            move_to_free_name(self.directory, self.new, self.directory, self.name)
        except FileExistsError:
            raise self._changed() from None
        self.new, self.performed = "", True

    def _replace(self) -> None:
        if exchange(self.directory, self.new, self.name):
            self.old, self.new, self.performed = self.new, "", True
            self._check_old()
            return
        if not self._is_expected(self.name):
            raise self._changed()
        old = temporary_name()
        try:
            os.link(self.name, old, src_dir_fd=self.directory, dst_dir_fd=self.directory, follow_symlinks=False)
            self.old = old
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._copy_beside()
        os.rename(self.new, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        self.new, self.performed = "", True

    def _overwrite(self) -> None:
        """Write the content into the file itself: a copy of the old one is beside it if the process dies meanwhile."""
        self._copy_beside()
        if not self._is_expected(self.name):
            raise self._changed()
        self.performed = True
        self._copy_into(self.new)

    def _copy_beside(self) -> None:
        """Keep a copy of the file, on the disk if the machine stops."""
        with os.fdopen(os.open(self.name, _READ, dir_fd=self.directory), "rb") as file:
            content, mode = file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _PERMISSIONS
        self.old = temporary_name()
        with os.fdopen(os.open(self.old, _CREATE, 0o600, dir_fd=self.directory), "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())

    def _copy_into(self, source: str) -> None:
        with os.fdopen(os.open(source, _READ, dir_fd=self.directory), "rb") as file:
            content = file.read()
        with os.fdopen(os.open(self.name, _UPDATE, dir_fd=self.directory), "r+b") as file:
            file.write(content)
            file.truncate()
            if self.change.mode is not None:
                os.fchmod(file.fileno(), self.change.mode)

    def _check_old(self) -> None:
        if not self._is_expected(self.old):
            raise self._changed()

    def _is_expected(self, name: str) -> bool:
        """Whether the file of this name is what the change expects."""
        status = lookup(self.directory, name)
        if self.change.expected not in (ANY, None) and (status is None or version_of(status) != self.change.expected):
            return False
        if self.change.old is None or status is None:
            return True
        with os.fdopen(os.open(name, _READ, dir_fd=self.directory), "rb") as file:
            return file.read(len(self.change.old) + 1) == self.change.old

    def _must_stay(self, status: os.stat_result, names_of: Callable[[os.stat_result], int]) -> bool:
        """Whether a new file would not be what the old one is: the same under its other names, or its owner's.

        Raises ToolFailure for a file that also has a name outside the workspace, where nothing may change.
        """
        if self.change.link or not stat.S_ISREG(status.st_mode):
            return False
        if status.st_nlink > 1 and names_of(status) >= status.st_nlink:
            return True
        if status.st_nlink > 1 and not self.change.replaces_links:
            name = joined(self.change.names)
            reason = f"{name} is a hard link to a file outside the workspace: delete it first to have a file of its own"
            raise ToolFailure("PERMISSION_DENIED", reason)
        user = os.geteuid()
        is_own = status.st_uid == user and status.st_gid in (os.getegid(), *os.getgroups())
        return status.st_nlink == 1 and user != 0 and not is_own

    def _changed(self) -> Changed:
        return Changed(f"{joined(self.change.names)} was changed meanwhile")


def move_aside(directory: int, name: str) -> str:
    """Give a file or directory a temporary name in its directory, and return that. Raises OSError."""
    aside = temporary_name()
    os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
    return aside


def move_to_free_name(source_directory: int, source: str, directory: int, name: str) -> None:
    """Move a file, a link or a directory to a name that is free. Raises FileExistsError, or another OSError."""
    status = os.stat(source, dir_fd=source_directory, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        try:
            os.link(source, name, src_dir_fd=source_directory, dst_dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            os.unlink(source, dir_fd=source_directory)
            return
    if lookup(directory, name) is not None:  # A rename would replace a file, or an empty directory.
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    os.rename(source, name, src_dir_fd=source_directory, dst_dir_fd=directory)


def lookup(directory: int, name: str) -> os.stat_result | None:
    """The status of a name in an open directory; None if nothing has it."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def version_of(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file does."""
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def temporary_name() -> str:
    """A name that no file has."""
    return f"{_TEMPORARY}{secrets.token_hex(8)}"


def _write_new(directory: int, name: str, change: Change, old: os.stat_result | None) -> None:
    """Write a change's content to a new name, with the old file's permissions, owner and attributes."""
    data = change.data or b""
    if change.link:
        os.symlink(data, os.fsencode(name), dir_fd=directory)
        return
    keeps = old is not None and stat.S_ISREG(old.st_mode)
    new_mode = change.mode if change.mode is not None else 0o666
    with os.fdopen(os.open(name, _CREATE, new_mode if not keeps else 0o600, dir_fd=directory), "wb") as file:
        if old is not None and keeps:
            with suppress(OSError):
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
            _copy_attributes(directory, change.names[-1], file.fileno())
            mode = change.mode if change.mode is not None else stat.S_IMODE(old.st_mode) & _PERMISSIONS
            os.fchmod(file.fileno(), mode)
        file.write(data)


def _copy_attributes(directory: int, name: str, target: int) -> None:
    """Copy a file's extended attributes, as far as the system lets us."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        source = os.open(name, _READ, dir_fd=directory)
        try:
            for attribute in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(target, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)
