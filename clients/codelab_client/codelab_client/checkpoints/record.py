"""The durable record of what calls changed: which call of which session, and each path before and after it.

A change is recorded with the content that it replaces before it is made, and marked as done after it. So a client that
dies in between loses nothing: what is at the path tells whether the change was made. Only who holds the folder's lock
uses the record.
"""

import json
import os
import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from codelab_client.checkpoints.files import FileState, digest_of
from codelab_client.checkpoints.folder import CheckpointFailed, RecordFolder
from codelab_client.tools.tree import Names

#: A call of a tool for files; the time in which a command runs, and its end; an undo; one that counts no more; a redo.
StepKind = Literal["call", "window", "end", "undo", "undone", "redo"]
_SCHEMA = """
create table if not exists turns (
    turn integer primary key autoincrement, session text not null, label text not null, state text not null,
    remains integer not null default 0, rewind integer
);
create table if not exists steps (
    step integer primary key autoincrement, turn integer not null, kind text not null, label text not null,
    owner text not null, done integer not null default 0, tree text, unstored text, because text, begun integer,
    call text not null default ''
);
create index if not exists steps_of_turns on steps (turn);
create table if not exists changes (
    change integer primary key autoincrement, step integer not null, path blob not null, exact integer not null,
    old_kind text not null, old_digest text not null, old_mode text not null,
    new_kind text not null, new_digest text not null, new_mode text not null
);
create index if not exists changes_of_steps on changes (step);
create index if not exists changes_of_paths on changes (path);
create table if not exists contents (digest text primary key, data blob not null) without rowid;
pragma user_version = 1;
"""
_VERSION = 1
#: Columns that records of earlier versions do not have. Those versions can use a record that has them.
_ADDED = (("turns", "rewind", "integer"), ("steps", "call", "text not null default ''"))


@dataclass(frozen=True)
class Change:
    """How a step changed a path. exact: by this step and nobody else; otherwise somebody else may have. done: for sure.

    number: of the change in the record, 0 for a new one.
    """

    names: Names
    old: FileState
    new: FileState
    exact: bool = True
    done: bool = False
    number: int = 0
    step: int = 0


@dataclass(frozen=True)
class Step:
    """A step of a turn. tree: the state at a window's start or end, None if it is not known because of `because`.

    unstored_signs: at a window's start, what is not stored with signs of its content; at its end, what became of that.
    window_number: of an end, the number of its window. An end is done when it is known what changed in between.
    call_id: of the agent's call, see `recording.running_call`; empty if it is not known.
    """

    number: int
    turn: int
    kind: StepKind
    label: str
    owner: str
    done: bool
    tree: str | None
    unstored_signs: Mapping[str, str]
    because: str
    window_number: int
    call_id: str


@dataclass(frozen=True)
class Turn:
    """A turn of a session. remains: whether its undo left changes that it did not take back."""

    number: int
    label: str
    remains: bool = False


class Record:
    """The record in a folder. Raises CheckpointFailed."""

    def __init__(self, folder: RecordFolder, session: str) -> None:
        self._session = session
        path = folder.private("changes.sqlite3")
        with _told():
            self._database = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = normal")  # It is safe against the death of a client.
            if self._database.execute("pragma user_version").fetchone()[0] > _VERSION:
                raise CheckpointFailed(f"{path} was written by a newer version of codelab")
            self._database.executescript(_SCHEMA)
            for table, column, kind in _ADDED:
                names = [row[1] for row in self._database.execute(f"pragma table_info({table})")]
                if column not in names:
                    self._database.execute(f"alter table {table} add column {column} {kind}")

    def close(self) -> None:
        """Close the record."""
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what is recorded inside."""
        with _told():
            self._database.execute("begin immediate")
            try:
                yield
            except BaseException:
                self._database.execute("rollback")
                raise
            self._database.execute("commit")

    # -- turns ---------------------------------------------------------------------------------------------------

    def begin_turn(self, label: str) -> int:
        """Record that a turn of the session begins. Returns its number."""
        cursor = self._do("insert into turns (session, label, state) values (?, ?, 'done')", self._session, label)
        return cursor.lastrowid or 0

    def last_turn(self) -> Turn | None:
        """The session's last turn that is not taken back."""
        return self._turn("state = 'done' order by turn desc limit 1")

    def last_undone(self) -> Turn | None:
        """The session's turn that was taken back last and can be brought back."""
        last = "(select max(step) from steps where steps.turn = turns.turn and kind = 'undo')"
        return self._turn(f"state = 'undone' and rewind is null order by {last} desc, turn limit 1")

    def settle(self, turn: int, state: Literal["done", "undone"], *, remains: bool = False) -> None:
        """Record whether a turn is taken back, and whether something of it remains. A rewind has its turns with it."""
        self._do("update turns set state = ?, remains = ? where turn = ?", state, remains, turn)
        self._do("update turns set state = ? where rewind = ? and state in ('done', 'undone')", state, turn)

    def begin_rewind(self, label: str, turns: Sequence[int]) -> int:
        """Record that turns are taken back together. Returns the number of what stands for them in their place."""
        rewind = self.begin_turn(label)
        for turn in turns:
            self._do("update turns set rewind = ? where turn = ?", rewind, turn)
        return rewind

    def is_done(self, turn: int) -> bool:
        """Whether a turn exists and is not taken back."""
        return self._turn(f"turn = {turn:d} and state = 'done'") is not None

    def forget_undone(self) -> None:
        """What the session has taken back cannot be brought back any more, because it has changed files anew."""
        self._do("update turns set state = 'gone' where session = ? and state = 'undone'", self._session)

    def spend(self, turn: int) -> None:
        """The undos of a turn that came to their end count no more: they were brought back."""
        self._do("update steps set kind = 'undone' where turn = ? and kind = 'undo' and done = 1", turn)

    def prune(self, keep: int, surplus: int) -> bool:
        """Forget the oldest turns if there are so many more than to keep. Returns whether it did."""
        (count,) = self._do("select count(*) from turns").fetchone()
        if count < keep + surplus:
            return False
        (first,) = self._do("select turn from turns order by turn desc limit 1 offset ?", keep - 1).fetchone()
        self._do("delete from changes where step in (select step from steps where turn < ?)", first)
        self._do("delete from steps where turn < ?", first)
        self._do("delete from turns where turn < ?", first)
        used_digests = "select old_digest from changes union select new_digest from changes"
        self._do(f"delete from contents where digest not in ({used_digests})")
        return True

    def vacuum(self) -> None:
        """Give the space of what was forgotten back."""
        self._do("vacuum")

    def _turn(self, condition: str) -> Turn | None:
        row = self._do(
            f"select turn, label, remains from turns where session = ? and {condition}", self._session
        ).fetchone()
        return None if row is None else Turn(row[0], row[1], bool(row[2]))

    # -- steps ---------------------------------------------------------------------------------------------------

    def begin_step(self, turn: int, kind: StepKind, label: str, owner: str, call_id: str = "") -> int:
        """Record that a step begins. Returns its number; numbers grow with time."""
        row = (turn, kind, label, owner, call_id)
        cursor = self._do("insert into steps (turn, kind, label, owner, call) values (?, ?, ?, ?, ?)", *row)
        return cursor.lastrowid or 0

    def add(self, step: int, change: Change) -> None:
        """Record a change of a path by a step."""
        states = (field for state in (change.old, change.new) for field in (state.kind, state.digest, state.mode))
        self._do(
            "insert into changes (step, path, exact, old_kind, old_digest, old_mode, new_kind, new_digest, new_mode)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            step,
            _bytes(change.names),
            change.exact,
            *states,
        )

    def finish(self, step: int, because: str = "") -> None:
        """Record that a step is done."""
        self._do("update steps set done = 1, because = coalesce(nullif(?, ''), because) where step = ?", because, step)

    def see(self, step: int, tree: str | None, unstored_signs: Mapping[str, str], because: str = "") -> None:
        """Record the state at a window's start or end."""
        signs = json.dumps(dict(unstored_signs))
        self._do("update steps set tree = ?, unstored = ?, because = ? where step = ?", tree, signs, because, step)

    def end_window(self, window: Step) -> int:
        """Record that a window ends. Returns the number of its end."""
        end = self.begin_step(window.turn, "end", window.label, window.owner, window.call_id)
        self._do("update steps set begun = ? where step = ?", window.number, end)
        self._do("update steps set done = 1 where step = ?", window.number)
        return end

    def drop(self, step: int) -> None:
        """Forget a step that has changed nothing."""
        self._do("delete from changes where step = ?", step)
        self._do("delete from steps where step = ?", step)

    def correct(self, change: Change, new: FileState, *, exact: bool = True) -> None:
        """Record what a change has really made."""
        fields = (new.kind, new.digest, new.mode, exact, change.number)
        self._do("update changes set new_kind = ?, new_digest = ?, new_mode = ?, exact = ? where change = ?", *fields)

    def open_windows(self) -> list[Step]:
        """The windows of all sessions that have not ended, as far as the record knows."""
        return self._steps("kind = 'window' and done = 0")

    def unknown_windows(self) -> list[tuple[Step, Step]]:
        """The windows of all sessions that have ended and were not compared yet, and their ends."""
        ends = self._steps("kind = 'end' and done = 0")
        return [(window, end) for end in ends for window in self._steps("step = ?", end.window_number)]

    def windows(self, turn: int) -> list[Step]:
        """The windows of a turn and their ends."""
        return self._steps("kind in ('window', 'end') and turn = ?", turn)

    def of_calls(self, call_ids: Container[str]) -> list[Step]:
        """The steps of these calls, of whichever session they are: a fork has the calls of its source."""
        return [step for step in self._steps("call != ''") if step.call_id in call_ids]

    def is_whole(self, turn: int, steps: Sequence[Step]) -> bool:
        """Whether all calls of a turn are among these steps."""
        numbers = {step.number for step in steps}
        calls = self._steps("turn = ? and kind in ('call', 'window', 'end')", turn)
        return all(step.number in numbers for step in calls)

    def next_step(self) -> int:
        """The number that no step has yet."""
        return (self._do("select max(step) from steps").fetchone()[0] or 0) + 1

    def last_step(self) -> Step | None:
        """The session's last step."""
        last = "(select max(step) from steps join turns using (turn) where session = ?)"
        return next(iter(self._steps(f"step = {last}", self._session)), None)

    def _steps(self, condition: str, *values: Any) -> list[Step]:
        fields = "step, turn, kind, label, owner, done, tree, unstored, because, begun, call"
        rows = self._do(f"select {fields} from steps where {condition} order by step", *values).fetchall()
        return [
            Step(
                number,
                turn,
                kind,
                label,
                owner,
                bool(is_done),
                tree,
                json.loads(signs or "{}"),
                reason or "",
                window_number or 0,
                call_id,
            )
            for number, turn, kind, label, owner, is_done, tree, signs, reason, window_number, call_id in rows
        ]

    # -- changes -------------------------------------------------------------------------------------------------

    def changes(self, turn: int, kinds: Sequence[StepKind]) -> list[Change]:
        """What the steps of a turn changed, in their order."""
        return self._changes(f"turn = ? and kind in ({', '.join('?' * len(kinds))})", turn, *kinds)

    def of_steps(self, steps: Container[int]) -> list[Change]:
        """What the calls of these steps changed, in their order."""
        return [change for change in self._changes("call != ''") if change.step in steps]

    def of_step(self, step: int) -> list[Change]:
        """What a step changed."""
        return self._changes("step = ?", step)

    def exact_between(self, step: int, end: int) -> dict[Names, list[Change]]:
        """By path, what calls, undos and redos of any session have changed between two steps."""
        return by_path(self._changes("step > ? and step < ? and exact = 1 and done = 1", step, end))

    def is_anothers(self, names: Names, state: FileState) -> bool:
        """Whether another session has left this at a path."""
        condition = "turn in (select turn from turns where session != ?) and path = ? and exact = 1"
        return any(change.new.matches(state) for change in self._changes(condition, self._session, _bytes(names)))

    def _changes(self, condition: str, *values: Any) -> list[Change]:
        fields = "path, old_kind, old_digest, old_mode, new_kind, new_digest, new_mode, exact, done, change, step"
        cursor = self._do(
            f"select {fields} from changes join steps using (step) where {condition} order by step, change", *values
        )
        return [
            Change(_names(row[0]), FileState(*row[1:4]), FileState(*row[4:7]), bool(row[7]), bool(row[8]), *row[9:])
            for row in cursor.fetchall()
        ]

    # -- contents ------------------------------------------------------------------------------------------------

    def store(self, data: bytes) -> str:
        """Keep a content. Returns its digest."""
        digest = digest_of(data)
        self._do("insert into contents (digest, data) values (?, ?) on conflict do nothing", digest, data)
        return digest

    def content(self, digest: str) -> bytes | None:
        """A content; None if it is not stored."""
        row = self._do("select data from contents where digest = ?", digest).fetchone()
        return None if row is None else bytes(row[0])

    def _do(self, statement: str, *values: Any) -> sqlite3.Cursor:
        with _told():
            return self._database.execute(statement, values)


def by_path(changes: Iterable[Change]) -> dict[Names, list[Change]]:
    """Changes by their paths, each in their order."""
    grouped_changes: dict[Names, list[Change]] = {}
    for change in changes:
        grouped_changes.setdefault(change.names, []).append(change)
    return grouped_changes


def _bytes(names: Names) -> bytes:
    return os.fsencode("/".join(names))


def _names(path: bytes) -> Names:
    return tuple(os.fsdecode(path).split("/"))


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors of the database into CheckpointFailed."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise CheckpointFailed(f"the record of changes cannot be used: {error}") from None
