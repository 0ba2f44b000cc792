"""Files that only their owner may read, such as those with tokens and keys."""

import os
import stat
from pathlib import Path

_MOST_BYTES = 1_000_000


class PrivateFileError(Exception):
    """The file cannot be read or written, or others could have read it. The text names it."""


def read(path: Path) -> bytes | None:
    """The content of a file; None if there is none. Raises PrivateFileError."""
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PrivateFileError(f"{path}: {error.strerror}") from None
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode):
        os.close(opened)
        raise PrivateFileError(f"{path} is not a file")
    with os.fdopen(opened, "rb") as content:
        if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077):
            raise PrivateFileError(f"Others can read or own {path}, so it is not used")
        return content.read(_MOST_BYTES)


def write(path: Path, text: str) -> None:
    """Write a file in one step, readable by nobody else at any time. Raises PrivateFileError."""
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
            written.write(text)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise PrivateFileError(f"{path}: {error.strerror}") from None
