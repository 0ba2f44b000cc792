"""The file of `make export` and `make restore`: NDJSON, of which each line is whole.

The first line is {"codelab_sessions": 1, "table", "exported_at"}. A line {"user", "items"} has a user's own items, a
line {"user", "session_id", "items", "objects"} a session: its items in DynamoDB's JSON, and its objects' JSON texts
by digest. The last line is {"sessions", "users"}, how many there are, so that a file that was cut off is noticed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from codelab.sessions import keys

from infra.stack.stack import Refused

_FORMAT = 1

#: An item in DynamoDB's JSON: {"pk": {"S": "SESSION#alice#s1"}, …}.
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Exported:
    """A session, or with an empty `session_id` what belongs to the user."""

    user: str
    session_id: str
    items: list[Item]
    objects: dict[str, str] = field(default_factory=dict)

    @property
    def pk(self) -> str:
        return keys.partition(self.user, self.session_id) if self.session_id else keys.of_user(self.user)

    def __str__(self) -> str:
        return f"session {self.session_id} of {self.user}" if self.session_id else f"user {self.user}"


class Writer:
    """Writes a file. `close` writes its end; without it, the file counts as cut off."""

    def __init__(self, file: TextIO, table: str, exported_at: str) -> None:
        self._file = file
        self.sessions = self.users = 0
        self._write({"codelab_sessions": _FORMAT, "table": table, "exported_at": exported_at})

    def add(self, exported: Exported) -> None:
        if exported.session_id:
            self.sessions += 1
            of_session = {"session_id": exported.session_id, "objects": exported.objects}
        else:
            self.users += 1
            of_session = {}
        self._write({"user": exported.user, "items": exported.items, **of_session})

    def close(self) -> None:
        self._write({"sessions": self.sessions, "users": self.users})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def read(path: Path) -> Iterator[Exported]:
    """What is in a file. Raises Refused, which names the line, if it is no such file or was cut off."""
    sessions = users = 0
    is_complete = False
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            line = _parsed(path, number, text)
            if number == 1:
                if line.get("codelab_sessions") != _FORMAT:
                    raise Refused(f"{path} is no file of make export, or of a later version of it")
            elif "items" in line:
                exported = _exported(path, number, line)
                sessions, users = sessions + bool(exported.session_id), users + (not exported.session_id)
                yield exported
            else:
                is_complete = (line.get("sessions"), line.get("users")) == (sessions, users)
    if not is_complete:
        raise Refused(f"{path} was cut off after {sessions} sessions: export again")


def _parsed(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise Refused(f"{path}, line {number}: not a JSON object; the file was cut off or changed")
    return line


def _exported(path: Path, number: int, line: dict[str, Any]) -> Exported:
    """Also checks that the line writes only what is its own."""
    try:
        exported = Exported(line["user"], line.get("session_id", ""), line["items"], line.get("objects", {}))
        is_own = all(item["pk"]["S"] == exported.pk and item["sk"]["S"] for item in exported.items)
        is_own = is_own and all(digest.isalnum() and isinstance(text, str) for digest, text in exported.objects.items())
        has_register = any(item["sk"]["S"] == keys.REGISTER and "version" in item for item in exported.items)
        is_own = is_own and has_register == bool(exported.session_id)
    except (KeyError, TypeError, ValueError, AttributeError):
        is_own = False
    if not is_own:
        raise Refused(f"{path}, line {number}: not a session or a user as make export writes them")
    return exported
