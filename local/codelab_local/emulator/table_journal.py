"""What was written to the emulator's tables since its last snapshot: `STATE_DIR` survives `kill -9` of everything.

ministack saves its state when it exits. A snapshot of ten thousand items stops it for a third of a second, so there is
only one, after the deployment. Every later change of an item is appended to a file before the request that made it is
answered, one line and one `write` a request. The operating system keeps what was written if the process is killed;
there is no fsync, so a machine that loses power may lose the last seconds. ministack itself writes objects to files at
once.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

#: `POST` here takes the snapshot.
SNAPSHOT_PATH = "/_codelab/snapshot"


class TableJournal:
    """The journal in `path` of the tables of ministack's module `dynamodb`, and the module's snapshot in `snapshot`."""

    def __init__(self, dynamodb: ModuleType, path: Path, snapshot: Path) -> None:
        self._dynamodb = dynamodb
        self._snapshot = snapshot
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        #: Changes that are not in the file yet: the table's name, the key and the new item, or None if it was deleted.
        self._changes: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = []
        self._emit = dynamodb._emit_stream_event
        dynamodb._emit_stream_event = self._changed  # type: ignore[attr-defined]

    def restore(self) -> None:
        """Repeat the changes, after ministack has loaded its snapshot. Repeating one twice changes nothing."""
        with open(self._file, "rb", closefd=False) as lines:
            lines.seek(0)
            for line in lines:
                try:
                    changes = json.loads(line)
                except ValueError:
                    continue  # The process was killed in the middle of it, so nobody was told that it succeeded.
                for table, key, item in changes:
                    self._apply(table, key, item)

    def flush(self) -> None:
        """Write down what has changed. Raises :class:`OSError`, and then tries again with the next request."""
        if self._changes:
            # A line that could only be written in part, on a full disk, is ended by the next one.
            line = b"\n" + json.dumps(self._changes, separators=(",", ":")).encode() + b"\n"
            if os.write(self._file, line) != len(line):
                raise OSError("the journal in STATE_DIR cannot be written")
            self._changes.clear()

    def snapshot(self, save: Callable[[], None]) -> None:
        """Have everything saved by `save`, and begin again. If that fails (it does not say so), keep the journal."""
        before = _identity(self._snapshot)
        save()
        if _identity(self._snapshot) != before:
            self._changes.clear()
            os.ftruncate(self._file, 0)

    def _changed(self, table: str, event: str, old: Any, new: Any, *arguments: Any, **keywords: Any) -> None:
        table_object = self._dynamodb._tables.get(table)
        if table_object:
            names = [table_object[name] for name in ("pk_name", "sk_name") if table_object[name]]
            self._changes.append((table, {name: (new or old)[name] for name in names}, new))
        self._emit(table, event, old, new, *arguments, **keywords)

    def _apply(self, name: str, key: dict[str, Any], item: dict[str, Any] | None) -> None:
        dynamodb = self._dynamodb
        for (_account, _region, table_name), table in dynamodb._tables.all_items():
            if table_name != name:
                continue
            pk = dynamodb._extract_key_val(key[table["pk_name"]])
            sk = dynamodb._extract_key_val(key[table["sk_name"]]) if table["sk_name"] else "__no_sort__"
            if item is None:
                dynamodb._remove_item(table, pk, sk)
            else:
                dynamodb._set_item(table, pk, sk, item)


def _identity(path: Path) -> tuple[int, int] | None:
    """Of a file that is replaced when it is written."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
