"""Files that only their owner may read, such as those with tokens and keys."""

import errno
import os
import stat
import threading
from pathlib import Path
from typing import BinaryIO

_MOST_BYTES = 1_000_000


class PrivateFileError(Exception):
    """The file cannot be read or written, or others could have read it. The text names it."""


def read(path: Path, *, secret: bool = True) -> bytes | None:
    """The content of a file; None if there is none. Raises PrivateFileError.

    A file of another user is refused, and one that others can change; `secret`: also one that others can read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PrivateFileError(f"{path}: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise PrivateFileError(f"{path} is not a file")
    with os.fdopen(descriptor, "rb") as content:
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (0o077 if secret else 0o022)):
            raise PrivateFileError(f"Others can {'read' if secret else 'change'} or own {path}, so it is not used")
        return content.read(_MOST_BYTES)


def write(path: Path, text: str) -> None:
    """Write a file in one step, readable by nobody else at any time. Raises PrivateFileError."""
    draft = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise PrivateFileError(f"{path}: {error.strerror}") from None


def append_to(path: Path, *, empty: bool = False) -> BinaryIO:
    """Open a file to write to its end, or `empty` it first; nobody else can read it. Raises OSError.

    A file that another user, or a link, has put there is refused.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        status = os.fstat(descriptor)
        if hasattr(os, "getuid"):
            if status.st_uid != os.getuid():
                raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
            os.fchmod(descriptor, 0o600)
        if empty:
            os.ftruncate(descriptor, 0)
        return os.fdopen(descriptor, "ab+")
    except BaseException:
        os.close(descriptor)
        raise
