"""A folder that only its owner can look into, with all that is in it: the client's state.

What is written there has a mode of its own from its first byte on, whatever the umask. What an older version left open,
or somebody else put there, is found when the client starts.
"""

import os
import stat
import threading
from pathlib import Path

from codelab_client.private_file import PrivateFileError

_OTHERS = 0o077
#: Files that `private_file.read` refuses if others could read or write them. So they keep the mode that shows it.
_REFUSED = {"logins.json": 0o077, "mcp_trust.json": 0o022}
#: Of a repository: once it is private, git writes only private files to it (see `checkpoints.shadow`).
_MANY = "objects"

_repaired_folders: set[Path] = set()
_repairing = threading.Lock()


def ensure(folder: Path) -> Path:
    """Make a folder, or close it to others before anything is written to it. Raises PrivateFileError.

    A process looks once at what is in the folder, and closes that, too.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        status = folder.stat()
        if not _is_own(status):
            raise PrivateFileError(f"{folder} belongs to another user, so it is not used")
        _close(folder, status)
        with _repairing:
            if folder not in _repaired_folders:
                close(folder)
                _repaired_folders.add(folder)
    except OSError as error:
        raise PrivateFileError(f"{folder}: {error.strerror}") from None
    return folder


def check(file: Path) -> None:
    """Raise PrivateFileError if a file or a link is another user's. It may be missing."""
    try:
        status = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISREG(status.st_mode) or not _is_own(status):
        raise PrivateFileError(f"{file} is not a file of this user's, so it is not used")


def close(folder: Path) -> None:
    """Close to others all that is in a folder of this user's. Raises OSError."""
    todo = [folder]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if not _is_own(status) or stat.S_ISLNK(status.st_mode):
                    continue  # Whoever reads it looks at its owner, and follows no link.
                was_open = bool(status.st_mode & _OTHERS)
                if status.st_mode & _REFUSED.get(entry.name, 0) == 0:
                    _close(Path(entry.path), status)
                if stat.S_ISDIR(status.st_mode) and (was_open or entry.name != _MANY):
                    todo.append(Path(entry.path))


def _close(path: Path, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    private_mode = 0o700 if stat.S_ISDIR(status.st_mode) else mode & ~_OTHERS
    if mode != private_mode:
        path.chmod(private_mode)


def _is_own(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or status.st_uid == os.getuid()
