"""A durable record of executed calls: no crash makes the client execute a call twice, or lose a result.

Before a call is executed, the journal says that it has started; before its result is sent, the journal has the result.
Several processes share a journal. Each holds a lock on a file of its own while it lives, so that the others can tell a
call that is being executed from one whose process died.
"""

import contextlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, Any

from codelab_client import private_folder
from codelab_client.private_file import PrivateFileError, append_to
from codelab_client.session.errors import JournalError
from codelab_client.session.locking import try_to_lock

#: Settled calls are forgotten after a day, all others after a week: the server waits a day at most for an approval.
_SETTLED_KEPT_S = 86_400
_KEPT_S = 7 * 86_400
_SCHEMA = """
create table if not exists calls (
    session text not null, call_id text not null, tool text not null, seq integer not null, owner text not null,
    outcome text, settled integer not null default 0, at real not null, primary key (session, call_id)
) without rowid;
create table if not exists positions (session text primary key, last_seq integer not null, at real not null)
    without rowid;
create table if not exists decisions (
    session text not null, workspace text not null, call_id text not null, digest text not null, at real not null,
    primary key (session, workspace, call_id)
) without rowid;
create table if not exists consents (
    session text not null, workspace text not null, consent text not null, at real not null,
    primary key (session, workspace, consent)
) without rowid;
pragma user_version = 1;
"""
_VERSION = 1


class Claim(Enum):
    """What the journal knows about a call that is about to be executed."""

    NEW = auto()  # not executed before, and now this process's
    FINISHED = auto()  # executed before; the journal has its outcome
    RUNNING = auto()  # another process executes it
    INTERRUPTED = auto()  # its process died before it had an outcome


@dataclass(frozen=True)
class Entry:
    """A call in the journal. outcome: the fields of its `tool_result`, or None while it has none."""

    call_id: str
    tool: str
    seq: int
    outcome: dict[str, Any] | None


def state_folder() -> Path:
    """The folder of the client's state: `$XDG_STATE_HOME/codelab`, or `~/.local/state/codelab`."""
    root = os.environ.get("XDG_STATE_HOME", "")
    return (Path(root) if Path(root).is_absolute() else Path.home() / ".local" / "state") / "codelab"


class Journal:
    """The calls of one session, in the journal of `folder`.

    session: identifies the session among those of all servers. workspace: the folder in which calls are executed: what
    was decided for one folder does not count in another. Every method raises JournalError if the journal cannot be read
    or written.
    """

    def __init__(self, folder: Path, session: str, workspace: str = "") -> None:
        self._folder, self._session, self._workspace = folder, session, workspace
        self._owner = uuid.uuid4().hex
        with _told(folder):
            owners = private_folder.ensure(folder) / "owners"
            owners.mkdir(exist_ok=True, mode=0o700)
            self._lock = _hold(owners / self._owner)
            self._database = sqlite3.connect(_private(folder / "journal.sqlite3"), timeout=10, isolation_level=None)
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = full")
            if self._database.execute("pragma user_version").fetchone()[0] > _VERSION:
                raise JournalError(f"{folder} was written by a newer version of codelab")
            self._database.executescript(_SCHEMA)
            self._forget()

    def close(self) -> None:
        """Close the journal. Calls of this process that have no outcome count as interrupted from now on."""
        self._database.close()
        (self._folder / "owners" / self._owner).unlink(missing_ok=True)
        self._lock.close()

    def begin(self, call_id: str, tool: str, seq: int) -> Claim:
        """Record that a call starts, unless it has started before. Execute it only if the answer is `NEW`."""
        with self._transaction() as database:
            row = database.execute(
                "select owner, outcome from calls where session = ? and call_id = ?", (self._session, call_id)
            ).fetchone()
            if row is None:
                database.execute(
                    "insert into calls (session, call_id, tool, seq, owner, at) values (?, ?, ?, ?, ?, ?)",
                    (self._session, call_id, tool, seq, self._owner, time.time()),
                )
                return Claim.NEW
        owner, outcome = row
        if outcome is not None:
            return Claim.FINISHED
        return Claim.RUNNING if self._is_alive(owner) else Claim.INTERRUPTED

    def finish(self, call_id: str, outcome: Mapping[str, Any]) -> dict[str, Any]:
        """Record a call's outcome, unless it has one. Returns the outcome that counts."""
        with self._transaction() as database:
            database.execute(
                "update calls set outcome = ? where session = ? and call_id = ? and outcome is null",
                (json.dumps(outcome), self._session, call_id),
            )
        entry = self.entry(call_id)
        return dict(outcome) if entry is None or entry.outcome is None else entry.outcome

    def entry(self, call_id: str) -> Entry | None:
        """What is known about a call."""
        return next(iter(self._entries("call_id = ?", call_id)), None)

    def unsettled(self) -> list[Entry]:
        """The session's calls that the server is not known to have settled, oldest first."""
        return self._entries("settled = 0")

    def is_interrupted(self, call_id: str) -> bool:
        """Whether the call has started in a process that died, and has no outcome."""
        with _told(self._folder):
            row = self._database.execute(
                "select owner from calls where session = ? and call_id = ? and outcome is null",
                (self._session, call_id),
            ).fetchone()
        return row is not None and not self._is_alive(row[0])

    def settle(self, call_id: str) -> None:
        """Record that the server has settled a call, so that its result need not be sent again."""
        with self._transaction() as database:
            database.execute("update calls set settled = 1 where session = ? and call_id = ?", (self._session, call_id))

    def forget(self) -> None:
        """Forget the session: the server has a different session with this id."""
        with self._transaction() as database:
            database.execute("delete from calls where session = ?", (self._session,))
            for table in ("positions", "decisions", "consents"):
                database.execute(f"delete from {table} where session = ?", (self._session,))

    # -- what this client has decided (see decisions.py) ---------------------------------------------------------

    def decide(self, call_id: str, digest: str) -> None:
        """Record what was decided about a call, in place of an earlier decision."""
        with self._transaction() as database:
            database.execute(
                "insert or replace into decisions values (?, ?, ?, ?, ?)",
                (self._session, self._workspace, call_id, digest, time.time()),
            )

    def undecide(self, call_id: str) -> None:
        """Forget what was decided about a call."""
        with self._transaction() as database:
            database.execute(
                "delete from decisions where session = ? and workspace = ? and call_id = ?",
                (self._session, self._workspace, call_id),
            )

    def decided(self, call_id: str) -> str | None:
        """The digest of what was decided about a call; None if nothing was."""
        with _told(self._folder):
            row = self._database.execute(
                "select digest from decisions where session = ? and workspace = ? and call_id = ?",
                (self._session, self._workspace, call_id),
            ).fetchone()
        return None if row is None else str(row[0])

    def consent(self, consent: str, *, all_sessions: bool = False) -> None:
        """Record what the user has allowed for the rest of the session, or for all sessions with its server here."""
        place = self._all_sessions if all_sessions else self._session
        with self._transaction() as database:
            database.execute(
                "insert or replace into consents values (?, ?, ?, ?)", (place, self._workspace, consent, time.time())
            )

    def withdraw_consent(self, consent: str) -> None:
        """The user does not allow that any more."""
        with self._transaction() as database:
            database.execute(
                "delete from consents where session in (?, ?) and workspace = ? and consent = ?",
                (self._session, self._all_sessions, self._workspace, consent),
            )

    def consents(self) -> list[str]:
        """What the user has allowed for the session, or for all."""
        with _told(self._folder):
            rows = self._database.execute(
                "select distinct consent from consents where session in (?, ?) and workspace = ?",
                (self._session, self._all_sessions, self._workspace),
            ).fetchall()
        return [str(row[0]) for row in rows]

    @property
    def _all_sessions(self) -> str:
        """Stands for all sessions of the same user with the same server."""
        return f"{self._session.rpartition('#')[0]}#"

    @property
    def position(self) -> int:
        """The `seq` from which the session can be resumed without missing an open call; 0 if there is none."""
        with _told(self._folder):
            row = self._database.execute(
                "select last_seq from positions where session = ?", (self._session,)
            ).fetchone()
        return int(row[0]) if row else 0

    @position.setter
    def position(self, last_seq: int) -> None:
        with self._transaction() as database:
            database.execute(
                "insert into positions values (?1, ?2, ?3) on conflict (session) do update set last_seq = ?2, at = ?3",
                (self._session, last_seq, time.time()),
            )

    def _entries(self, condition: str, *values: str) -> list[Entry]:
        with _told(self._folder):
            rows = self._database.execute(
                f"select call_id, tool, seq, outcome from calls where session = ? and {condition} order by seq",
                (self._session, *values),
            ).fetchall()
        return [Entry(call_id, tool, seq, json.loads(out) if out else None) for call_id, tool, seq, out in rows]

    def _is_alive(self, owner: str) -> bool:
        if owner == self._owner:
            return True
        try:
            file = (self._folder / "owners" / owner).open("rb+")
        except OSError:
            return False
        with file:
            return not _lock(file)

    def _forget(self) -> None:
        now = time.time()
        with self._transaction() as database:
            database.execute(
                "delete from calls where (settled = 1 and at < ?) or at < ?", (now - _SETTLED_KEPT_S, now - _KEPT_S)
            )
            for table in ("positions", "decisions", "consents"):
                of_sessions = "session not like '%#'"  # what holds for all sessions holds until it is revoked
                database.execute(f"delete from {table} where at < ? and {of_sessions}", (now - _KEPT_S,))
        for path in (self._folder / "owners").iterdir():
            if path.name != self._owner and not self._is_alive(path.name):
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that excludes the writes of other processes."""
        with _told(self._folder):
            self._database.execute("begin immediate")
            try:
                yield self._database
            except BaseException:
                self._database.execute("rollback")
                raise
            self._database.execute("commit")


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turn errors of the system into a JournalError that says what to do."""
    try:
        yield
    except (OSError, sqlite3.Error, PrivateFileError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise JournalError(
            f"The journal of executed calls in {folder} cannot be used: {reason}. "
            "Set XDG_STATE_HOME to a folder that can be written to."
        ) from None


def _hold(path: Path) -> IO[bytes]:
    """Create a file and keep it locked until it is closed, at the latest when the process ends."""
    while True:
        file = append_to(path)
        # Another process may just be looking whether the file's owner is alive, and remove it.
        if _lock(file) and path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
        file.close()
        time.sleep(0.01)


def _private(database: Path) -> Path:
    """Make the database's file, whose mode SQLite gives to those that it makes beside it, and look at their owner."""
    append_to(database).close()
    for beside in ("-wal", "-shm", "-journal"):
        private_folder.check(database.with_name(database.name + beside))
    return database


def _lock(file: IO[bytes]) -> bool:
    """Lock a file; False if another holder has locked it."""
    try:
        try_to_lock(file)
    except OSError:
        return False
    return True
