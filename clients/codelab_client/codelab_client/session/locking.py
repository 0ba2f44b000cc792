"""A lock on an open file, which ends with its process."""

import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def try_to_lock(file: IO[bytes]) -> None:
        """Lock the file. Raises OSError if another process has."""
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def try_to_lock(file: IO[bytes]) -> None:
        """Lock the file. Raises OSError if another process has."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
