"""The folder of a workspace's record: private, locked for each change, and with a register of who works there."""

import hashlib
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from codelab_client.session.locking import try_to_lock

#: Seconds that a change waits for the other sessions in the same folder: the first look at a large one takes longest.
_PATIENCE_S = 120.0
_PAUSE_S = 0.005


class CheckpointFailed(Exception):
    """What a call changes could not be recorded, read or taken back; the message says why."""


class RecordFolder:
    """Where the record of the workspace `root` is kept, below `state`. Raises CheckpointFailed.

    owner: this client, as long as it lives. So the others can tell a command that runs from one whose client died.
    """

    def __init__(self, state: Path, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self.git_dir = state / "checkpoints" / name
        self.path = state / "changes" / name
        self.owner = uuid.uuid4().hex
        self._lock_file: IO[bytes] | None = None

    def prepare(self) -> None:
        """Make the folder, and enter this client in the register."""
        if self._lock_file is None:
            try:
                for folder in (self.path.parent, self.path, self.path / "owners", self.git_dir.parent, self.git_dir):
                    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
                    folder.chmod(0o700)
                self._lock_file = _opened(self.path / "owners" / self.owner)
                try_to_lock(self._lock_file)
            except OSError as error:
                raise CheckpointFailed(f"{self.path}: {error.strerror}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other session out, those of this process too. Waits for them."""
        self.prepare()
        with _opened(self.path / "lock") as file:
            late = time.monotonic() + _PATIENCE_S
            while True:
                try:
                    try_to_lock(file)
                    break
                except OSError:
                    if time.monotonic() > late:
                        raise CheckpointFailed("another session is busy in this folder") from None
                    time.sleep(_PAUSE_S)
            yield

    def lives(self, owner: str) -> bool:
        """Whether a client still runs."""
        path = self.path / "owners" / owner
        if owner == self.owner:
            return True
        with suppress(FileNotFoundError), path.open("ab") as file:
            try:
                try_to_lock(file)
            except OSError:
                return True
            path.unlink(missing_ok=True)
        return False

    def private(self, name: str) -> Path:
        """The path of a file in the folder that only the user can read, created if it is new."""
        _opened(self.path / name).close()
        return self.path / name

    def close(self) -> None:
        """Leave the register."""
        if self._lock_file is not None:
            (self.path / "owners" / self.owner).unlink(missing_ok=True)
            self._lock_file.close()
            self._lock_file = None


def _opened(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "r+b", buffering=0)
