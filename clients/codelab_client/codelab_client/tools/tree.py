"""A directory that no path leads out of, whatever its links are and whoever swaps them meanwhile.

Every name on the way is opened by itself, relative to the directory before it and without following links
(`openat` with O_NOFOLLOW). A link is read and its target walked in the same way, so the kernel never resolves a path
of more than one name. Reading follows links that stay inside. Changing does not: a link such as `docs -> .git/hooks`
would turn a harmless name into one that needs the user's approval.
"""

import os
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codelab_client.tools import fingerprints, limits
from codelab_client.tools.failure import Changed, ToolFailure, of_os_error
from codelab_client.tools.paths import joined
from codelab_client.tools.replacement import (
    ANY,
    Change,
    Names,
    Step,
    lookup,
    move_aside,
    move_to_free_name,
    version_of,
)

__all__ = ["ANY", "Change", "Content", "Names", "Node", "Tree"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_NONBLOCK: a FIFO that takes a file's place must not make us wait.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PERMISSIONS = 0o777


@dataclass(frozen=True)
class Content:
    """A regular file. mode: its permission bits. version: changes when the file does."""

    data: bytes
    mode: int
    modified: float
    version: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """An entry of a directory. kind: file, directory, symlink or special (FIFO, device, socket)."""

    name: str
    kind: str
    size: int


class Tree:
    """All operations on files below `root`. Names are those that `paths.components` gives.

    Every method raises ToolFailure: FILE_NOT_FOUND, PERMISSION_DENIED, PATH_OUTSIDE_WORKSPACE, INVALID_PATH or
    EXECUTION_FAILED. POSIX only.

    private: folders into which nothing leads, also if they are below the root. reserved_names: those at the top that
    stand for other folders (see `folders`), so that nothing is found or made under them here.
    """

    def __init__(self, root: Path, private: Sequence[Path] = (), reserved_names: Collection[str] = ()) -> None:
        self.root = root.resolve(strict=True)
        self._private = [path for path in private if path.resolve().is_relative_to(self.root)]
        self._reserved_names = frozenset(reserved_names)
        self._private_ids: set[tuple[int, int]] = set()  # also of those that were moved since
        self._fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the directory; the tree must not be used any more."""
        os.close(self._fd)

    @property
    def has_private(self) -> bool:
        """Whether a private folder is below the root."""
        return bool(self._private)

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, names: Names, limit: int) -> Content:
        """Read a regular file of at most so many bytes. Also raises ToolFailure FILE_TOO_LARGE."""
        with self._located(names, follow=True) as (directory, name), _reported(names):
            return _content(directory, name, names, limit)

    def scan(self, names: Names) -> list[Node]:
        """The entries of a directory, sorted by name. Names that are not UTF-8 have U+FFFD in place of the bytes."""
        with self._opened(names) as directory, _reported(names), os.scandir(directory) as entries:
            visible = [entry for entry in entries if not (self._private and self._is_private(entry))]
            return sorted((_node(entry) for entry in visible), key=lambda node: node.name)

    @contextmanager
    def directory(self, names: Names) -> Iterator[tuple[int, Path]]:
        """Open a directory: its descriptor, and its path without links at this moment."""
        with ExitStack() as closing:
            directory, real_names = self._walk(closing, names, follow=True)
            yield directory, self.root.joinpath(*real_names)

    def real(self, names: Names) -> Names:
        """The same without links."""
        with ExitStack() as closing:
            return self._walk(closing, names, follow=True, but_last=True)[1]

    def kind(self, names: Names) -> str | None:
        """What is there, as `Node.kind`, without following a link in its last name; None if nothing is."""
        try:
            with self._located(names, follow=False) as (directory, name), _reported(names):
                return _kind(_status(directory, name).st_mode)
        except ToolFailure as failure:
            if failure.code == "FILE_NOT_FOUND":
                return None
            raise

    def fingerprint(self, names: Names) -> str | None:
        """The fingerprint of what is there, a link itself included (see `fingerprints`); None if nothing is."""
        try:
            with self._located(names, follow=False) as (directory, name), _reported(names):
                return fingerprints.of_entry(directory, name)
        except ToolFailure as failure:
            if failure.code == "FILE_NOT_FOUND":
                return None
            raise

    def status(self, names: Names) -> os.stat_result:
        """The status of a file or a link itself."""
        with self._located(names, follow=False) as (directory, name), _reported(names):
            return _status(directory, name)

    def target(self, names: Names) -> bytes:
        """Where a link leads, as the link has it."""
        with self._located(names, follow=False) as (directory, name), _reported(names):
            return os.fsencode(os.readlink(name, dir_fd=directory))

    def below(self, names: Names) -> Iterator[Names]:
        """Everything in a directory and those in it, a directory before its entries. No link is followed."""
        with self._located(names, follow=False) as (directory, name):
            for folder, folders, files, _ in os.fwalk(name, dir_fd=directory, follow_symlinks=False):
                parts = (*names, *folder.split("/")[1:])
                yield from ((*parts, entry) for entry in (*folders, *files))

    # -- changing ----------------------------------------------------------------------------------------------------

    def write(self, names: Names, data: bytes) -> None:
        """Replace a file's content at once, or create it and its directories."""
        self.apply([Change(names, data)])

    def make_directory(self, names: Names) -> None:
        """Create a directory and its parents; it may exist."""
        with ExitStack() as closing:
            self._walk(closing, names, follow=False, new_directories=[])

    def delete(self, names: Names, expected: str | None = None) -> None:
        """Delete a file, a link, or a directory with everything in it.

        expected: its fingerprint; raises Changed, and deletes nothing, if it has another.
        """
        with self._located(names, follow=False) as (directory, name), _reported(names):
            is_directory = stat.S_ISDIR(_status(directory, name).st_mode)
            aside = move_aside(directory, name)
            try:
                if expected is not None and fingerprints.of_entry(directory, aside) != expected:
                    raise Changed(f"{joined(names)} was changed meanwhile")
                if is_directory:
                    _remove_directory(aside, directory)
                else:
                    os.unlink(aside, dir_fd=directory)
            except BaseException:
                with suppress(OSError):
                    move_to_free_name(directory, aside, directory, name)
                raise

    def delete_empty(self, names: Names) -> bool:
        """Delete a directory if it is empty. Returns whether it is gone."""
        try:
            with self._located(names, follow=False) as (directory, name):
                os.rmdir(name, dir_fd=directory)
        except (OSError, ToolFailure):
            return False
        return True

    def move(self, source: Names, target: Names) -> None:
        """Move a file, a link or a directory to a name that is free. Creates the directories above it."""
        if target[: len(source)] == source:
            raise ToolFailure("EXECUTION_FAILED", f"{joined(source)} cannot be moved to itself or below itself")
        new_directories: list[Names] = []
        with self._located(source, follow=False) as (from_directory, from_name), self._undoing(new_directories):
            with _reported(source):
                _status(from_directory, from_name)
            with (
                self._located(target, follow=False, new_directories=new_directories) as (to_directory, to_name),
                _reported(target),
            ):
                try:
                    move_to_free_name(from_directory, from_name, to_directory, to_name)
                except FileExistsError:
                    raise ToolFailure("EXECUTION_FAILED", f"{joined(target)} exists already") from None

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all changes or none.

        All new contents are written beside their files first; then each takes its file's place at once. If one fails,
        those before it are taken back. Also raises Changed for a file that is not what the change expects.
        """
        new_directories: list[Names] = []
        with self._undoing(new_directories), ExitStack() as closing:
            directories: dict[Names, tuple[int, str]] = {}
            steps = [self._stage(closing, change, directories, new_directories) for change in changes]
            finished_steps: list[Step] = []
            try:
                for step in steps:
                    finished_steps.append(step)
                    with _reported(step.change.names):
                        step.perform()
            except BaseException:
                for step in reversed(finished_steps):
                    step.take_back()
                raise

    def _stage(
        self,
        closing: ExitStack,
        change: Change,
        directories: dict[Names, tuple[int, str]],
        new_directories: list[Names],
    ) -> Step:
        """Check a change and write its new content beside the file."""
        *above, _ = change.names or ("",)
        create = new_directories if change.data is not None else None
        if not change.names or tuple(above) not in directories:
            location = closing.enter_context(self._located(change.names, follow=False, new_directories=create))
            directories[tuple(above)] = location
        step = Step(change, directories[tuple(above)][0])
        closing.callback(step.discard)
        with _reported(change.names):
            if not change.replaces_links and _link_target(step.directory, step.name) is not None:
                raise self._refused_link(change.names, change.names, is_loop=False)
            step.stage(self._names_of)
        return step

    def _names_of(self, file: os.stat_result) -> int:
        """How many names below the root are hard links of a file."""
        count = 0
        for _, _, _, directory in os.fwalk(".", dir_fd=self._fd, follow_symlinks=False):
            with os.scandir(directory) as entries:
                count += sum(entry.inode() == file.st_ino for entry in entries)
            if count >= file.st_nlink:
                break
        return count

    @contextmanager
    def _undoing(self, new_directories: list[Names]) -> Iterator[None]:
        """Delete the directories that were made, unless all went well."""
        try:
            yield
        except BaseException:
            for names in reversed(new_directories):
                with suppress(OSError, ToolFailure), self._located(names, follow=False) as (directory, name):
                    os.rmdir(name, dir_fd=directory)
            raise

    # -- the way to a name -------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, names: Names) -> Iterator[int]:
        with ExitStack() as closing:
            yield self._walk(closing, names, follow=True)[0]

    @contextmanager
    def _located(
        self, names: Names, *, follow: bool, new_directories: list[Names] | None = None
    ) -> Iterator[tuple[int, str]]:
        """The directory of `names` and its last name in it, which is not a link if `follow` is set."""
        if not names:
            raise ToolFailure("EXECUTION_FAILED", "The workspace itself cannot be read, changed or moved as a file")
        with ExitStack() as closing:
            directory, real_names = self._walk(
                closing, names, follow=follow, new_directories=new_directories, but_last=True
            )
            yield directory, real_names[-1]

    def _walk(
        self,
        closing: ExitStack,
        names: Names,
        *,
        follow: bool,
        new_directories: list[Names] | None = None,
        but_last: bool = False,
    ) -> tuple[int, Names]:
        """Open every directory on the way. Returns the last one, and the names without links.

        follow: whether links are followed. new_directories: if given, missing directories are made and added to it.
        but_last: do not open the last name.
        """
        if not self._reserved_names.isdisjoint(names[:1]):
            raise ToolFailure("PERMISSION_DENIED", f"{names[0]} is another folder, which calls can only read")
        self._check_private(self._fd, names)
        stack, real_names, links = [self._fd], list[str](), 0
        todo = list(reversed(names))
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":  # only from a link's target
                if len(stack) == 1:
                    raise _outside(names)
                stack.pop()
                real_names.pop()
                continue
            is_last = but_last and not any(part not in ("", ".") for part in todo)
            with _reported(names):
                target = _link_target(stack[-1], name)
            if target is None or (is_last and not follow):
                real_names.append(name)
                if is_last:
                    return stack[-1], tuple(real_names)
                with _reported(names):
                    stack.append(_open_directory(closing, stack[-1], name, tuple(real_names), new_directories))
                self._check_private(stack[-1], names)
                continue
            links += 1
            if not follow or links > limits.LINKS:
                raise self._refused_link(names, (*real_names, name), links > limits.LINKS)
            if target.startswith("/"):
                target = self._below_root(target, names)
                del stack[1:], real_names[:]
            todo += reversed(target.split("/"))
        if but_last:  # Its last name is a link to a directory above: `a -> ..`.
            raise ToolFailure("EXECUTION_FAILED", f"{joined(names)} is a directory")
        return stack[-1], tuple(real_names)

    def _check_private(self, directory: int, names: Names) -> None:
        """Raise ToolFailure for a private folder, by whatever name it is reached."""
        if not self._private:
            return
        for path in self._private:
            with suppress(OSError):
                status = path.stat()
                self._private_ids.add((status.st_dev, status.st_ino))
        status = os.fstat(directory)
        if (status.st_dev, status.st_ino) in self._private_ids:
            raise ToolFailure("PERMISSION_DENIED", f"{joined(names)}: the client keeps its own files there")

    def _is_private(self, entry: "os.DirEntry[str]") -> bool:
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            return (status.st_dev, status.st_ino) in self._private_ids
        return False

    def _below_root(self, target: str, names: Names) -> str:
        root = f"{self.root}/"
        if f"{target}/".startswith(root):
            return target[len(root) :]
        raise _outside(names)

    def _refused_link(self, names: Names, link: Names, is_loop: bool) -> ToolFailure:
        """Why a link is not followed: it leads outside, nowhere, or to a name that must be given itself."""
        link_name = joined(link)
        if is_loop:
            return ToolFailure("PERMISSION_DENIED", f"{joined(names)}: too many symbolic links")
        with ExitStack() as closing:
            try:
                real = joined(self._walk(closing, link, follow=True, but_last=True)[1])
            except ToolFailure as failure:
                if failure.code == "PATH_OUTSIDE_WORKSPACE":
                    return failure
                return ToolFailure(
                    "PERMISSION_DENIED", f"{link_name} is a symbolic link, and changes do not follow links"
                )
        reason = f"{link_name} is a symbolic link to {real}, and changes do not follow links: name that path instead"
        return ToolFailure("PERMISSION_DENIED", reason)


# -- single names, relative to a directory's descriptor ----------------------------------------------------------------


def _link_target(directory: int, name: str) -> str | None:
    """The target of a link; None if the name is not a link or does not exist."""
    status = lookup(directory, name)
    if status is None or not stat.S_ISLNK(status.st_mode):
        return None
    return os.readlink(name, dir_fd=directory)


def _open_directory(
    closing: ExitStack, directory: int, name: str, names: Names, new_directories: list[Names] | None
) -> int:
    if new_directories is not None and lookup(directory, name) is None:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=directory)
            new_directories.append(names)
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
    except NotADirectoryError:
        raise ToolFailure("FILE_NOT_FOUND", f"{joined(names)} is not a directory") from None
    closing.callback(os.close, descriptor)
    return descriptor


def _content(directory: int, name: str, names: Names, limit: int) -> Content:
    """Read a regular file. It is looked at before it is opened, because opening a device may have effects."""
    _check_regular(_status(directory, name), names, limit)
    with os.fdopen(os.open(name, _READ, dir_fd=directory), "rb") as file:
        status = os.fstat(file.fileno())
        _check_regular(status, names, limit)
        data = file.read(limit + 1)
        if len(data) > limit:  # It grows.
            raise _too_large(names, len(data), limit)
        return Content(data, stat.S_IMODE(status.st_mode) & _PERMISSIONS, status.st_mtime, version_of(status))


def _check_regular(status: os.stat_result, names: Names, limit: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure("EXECUTION_FAILED", f"{joined(names)} is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure("PERMISSION_DENIED", f"{joined(names)} is not a regular file")
    if status.st_size > limit:
        raise _too_large(names, status.st_size, limit)


def _remove_directory(name: str, directory: int) -> None:
    try:
        shutil.rmtree(name, dir_fd=directory)  # It follows no links, swapped ones neither.
    except RecursionError:
        raise ToolFailure("EXECUTION_FAILED", "The directory is nested too deeply to be deleted") from None


def _status(directory: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=directory, follow_symlinks=False)


def _node(entry: "os.DirEntry[str]") -> Node:
    name = os.fsencode(entry.name).decode(errors="replace")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return Node(name, "special", 0)
    return Node(name, _kind(status.st_mode), status.st_size)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISLNK(mode):
        return "symlink"
    return "file" if stat.S_ISREG(mode) else "special"


def _outside(names: Names) -> ToolFailure:
    return ToolFailure("PATH_OUTSIDE_WORKSPACE", f"{joined(names)} leads out of the workspace")


def _too_large(names: Names, size: int, limit: int) -> ToolFailure:
    return ToolFailure("FILE_TOO_LARGE", f"{joined(names)} has {size} bytes; at most {limit} are allowed")


@contextmanager
def _reported(names: Names) -> Iterator[None]:
    """Turn errors of the operating system into failures of the call."""
    try:
        yield
    except OSError as error:
        raise of_os_error(error, joined(names)) from None
