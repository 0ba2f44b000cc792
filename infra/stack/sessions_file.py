"""The file of `make export` and `make restore`: NDJSON, of which each line is whole.

The first line is {"codelab_sessions": 1, "table", "exported_at"}. A line {"user", "items"} has a user's own items, a
line {"user", "session_id", "items", "objects"} a session: its items in DynamoDB's JSON, and its objects' JSON texts
by digest. The last line is {"sessions", "users"}, how many there are, so that a file that was cut off is noticed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from codelab.sessions import keys
from codelab.sessions.dynamodb.values import from_dynamodb, to_dynamodb
from codelab.sessions.register import Register

from infra.stack.stack import Refused

_FORMAT = 1
#: A user's own items that a file may have: rules, and until when their tokens are revoked.
OF_USER = (keys.USER_RULES, keys.REVOKED)
#: The attributes by which items are in the indexes. Only the items that belong there may have them.
_LISTED, _DUE = {"owner", "last_activity"}, {"due_at", "due_shard"}
#: DynamoDB's limits: bytes of an item and of a sort key, levels of a value, digits of a number.
_ITEM_BYTES, _KEY_BYTES, _LEVELS, _DIGITS = 400 * 1024, 1_024, 32, 38
#: The most characters of a digest.
_DIGEST_CHARS = 128

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
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        raise Refused(f"{path}, line {number}: not a JSON object; the file was cut off or changed")
    return line


def _exported(path: Path, number: int, line: dict[str, Any]) -> Exported:
    """Also checks that the line writes only what is its own, and only what the table takes and its readers understand:
    a file that is refused halfway would have replaced sessions."""
    try:
        exported = Exported(line["user"], line.get("session_id", ""), line["items"], line.get("objects", {}))
        items = {item["sk"]["S"]: _plain(item) for item in exported.items}
        is_whole = bool(exported.user) and "#" not in exported.user and len(items) == len(exported.items)
        is_whole = is_whole and all(_is_own(exported, sk, item) for sk, item in items.items())
        is_whole = is_whole and all(_is_object(digest, text) for digest, text in exported.objects.items())
        is_whole = is_whole and (keys.REGISTER in items) == bool(exported.session_id)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise Refused(f"{path}, line {number}: not a session or a user as make export writes them")
    return exported


def _plain(item: Item) -> dict[str, Any]:
    """The item's plain values. Raises ValueError if DynamoDB would not take the item, or would change it."""
    plain = from_dynamodb(item)
    if to_dynamodb(plain) != item or _bytes(plain) > _ITEM_BYTES:
        raise ValueError("no item of DynamoDB")
    return plain


def _bytes(value: Any, level: int = 0) -> int:
    """What DynamoDB counts for a value. Raises ValueError for one that it does not take."""
    if level > _LEVELS:
        raise ValueError("too deep")
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return 3 + sum(1 + len(name.encode()) + _bytes(inner, level + 1) for name, inner in value.items())
    if isinstance(value, list):
        return 3 + sum(1 + _bytes(inner, level + 1) for inner in value)
    digits = len(str(abs(value))) if type(value) is int else 0
    if digits > _DIGITS:
        raise ValueError("too long a number")
    return 1 + digits


def _is_own(exported: Exported, sk: str, item: Mapping[str, Any]) -> bool:
    """Does the item belong to the line's session or user, and only there?"""
    if item["pk"] != exported.pk or not 0 < len(sk.encode()) <= _KEY_BYTES:
        return False
    if sk in (keys.REGISTER, keys.REVOKED) and _DUE & item.keys():
        if type(item["due_at"]) is not int or item["due_shard"] != keys.due_shard(exported.pk):
            return False
    elif _DUE & item.keys():
        return False
    if sk == keys.REGISTER:
        return _is_at_rest(exported, Register.of(dict(item)))
    if _LISTED & item.keys():
        return False
    if exported.session_id:
        return True
    return sk in OF_USER and (sk != keys.REVOKED or type(item["revoked_at"]) is int)


def _is_at_rest(exported: Exported, register: Register) -> bool:
    """Is it the session's register, which callers see and nobody has open?"""
    is_its_own = (register.user, register.session_id) == (exported.user, exported.session_id)
    are_numbers = all(type(number) is int for number in (register.version, register.last_activity, register.created_at))
    is_open = bool(register.connections or register.lease or register.compact_lease or register.executor)
    return is_its_own and are_numbers and not is_open and not register.erase_at


def _is_object(digest: str, text: str) -> bool:
    return digest.isalnum() and digest.isascii() and len(digest) <= _DIGEST_CHARS and bool(text.encode())
