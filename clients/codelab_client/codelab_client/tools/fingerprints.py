"""What a name in a directory stands for, as a text that differs when it does.

A file's is a digest of its content, so that saving it unchanged changes nothing. A directory's lists everything in it.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator

from codelab_client.tools import limits

#: Entries of a directory that are looked at.
_ENTRIES = 50_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIRECTORY = "directory"


def of_data(data: bytes) -> str:
    """The fingerprint of a file with this content."""
    return f"file {hashlib.sha256(data).hexdigest()}"


def of_files(files: Iterable[tuple[tuple[str, ...], bytes]]) -> str:
    """The fingerprint of a directory with these files, which are in order."""
    return "\n".join((_DIRECTORY, *(f"{_escaped('/'.join(names))}\t{of_data(data)}" for names, data in files)))


def of_entry(directory: int, name: str) -> str | None:
    """The fingerprint of a name in an open directory; None if nothing has that name. Raises OSError."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return "\n".join((_DIRECTORY, *_entries(directory, name)))
    if stat.S_ISLNK(status.st_mode):
        return f"link {os.readlink(name, dir_fd=directory)}"
    if stat.S_ISREG(status.st_mode) and status.st_size <= limits.READ_BYTES:
        try:
            with os.fdopen(os.open(name, _READ, dir_fd=directory), "rb") as file:
                return f"file {hashlib.file_digest(file, 'sha256').hexdigest()}"
        except PermissionError:
            pass
    return f"unread {_state(status)}"


def needs_reading(fingerprint: str | None) -> bool:
    """Whether something is lost with what has this fingerprint: a file's content."""
    return fingerprint is not None and fingerprint.startswith(("file ", "unread "))


def is_link(fingerprint: str | None) -> bool:
    """Whether it is that of a symbolic link."""
    return fingerprint is not None and fingerprint.startswith("link ")


def is_directory(fingerprint: str | None) -> bool:
    """Whether it is that of a directory."""
    return fingerprint is not None and fingerprint.split("\n", 1)[0] == _DIRECTORY


def differing(first: str, second: str) -> list[tuple[str, ...]]:
    """The names, relative to a directory, of which two fingerprints of it say something different."""
    lines = set(first.split("\n")[1:]) ^ set(second.split("\n")[1:])
    return sorted({tuple(_unescaped(line.rpartition("\t")[0]).split("/")) for line in lines})


def _entries(directory: int, top: str) -> Iterator[str]:
    """Each entry below a directory, as its quoted path and its state: at most ENTRIES."""
    count = 0
    for above, directories, files, descriptor in os.fwalk(top, dir_fd=directory, follow_symlinks=False):
        directories.sort()
        for name in sorted((*directories, *files)):
            count += 1
            if count > _ENTRIES:
                return
            path = f"{above}/{name}"[len(top) + 1 :]
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                continue
            state = "" if stat.S_ISDIR(status.st_mode) else _state(status)
            yield f"{_escaped(path)}\t{stat.S_IFMT(status.st_mode):o} {state}"


def _state(status: os.stat_result) -> str:
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def _escaped(path: str) -> str:
    return path.encode("unicode_escape").decode()


def _unescaped(path: str) -> str:
    return path.encode().decode("unicode_escape")
