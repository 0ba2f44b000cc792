"""Keys of the one table. The owner is part of the partition key: another user's session cannot be named at all."""

import hashlib
import zlib

REGISTER = "REGISTER"
PLAN = "PLAN"
RULES = "RULES"
USER_RULES = "USER_RULES"
REVOKED = "REVOKED"
ABOUT = "ABOUT"
TOOLS = "TOOLS"
_USAGE, _SLOT = "USAGE#", "SLOT#"
#: How the sort keys begin of what a user has beside sessions: the items of `USER#{user}`.
OF_USERS = (USER_RULES, REVOKED, _USAGE, _SLOT)
DUE_SHARDS = tuple(f"due{n}" for n in range(8))


def partition(user: str, session_id: str) -> str:
    """`SESSION#{user}#{session_id}`. Raises ValueError if a part contains `#`: two owners would share a key."""
    if "#" in user or "#" in session_id or not user or not session_id:
        raise ValueError("user and session id must not be empty or contain '#'")
    return f"SESSION#{user}#{session_id}"


def owner_and_session(pk: str) -> tuple[str, str]:
    """The parts of `partition`."""
    _, user, session_id = pk.split("#")
    return user, session_id


def of_user(user: str) -> str:
    """The partition of what a user has beside sessions. No session's: those begin otherwise, and a name has no `#`."""
    return f"USER#{user}"


def user_of(pk: str) -> str | None:
    """The user of a partition that `of_user` names; None of a session's."""
    return pk.removeprefix("USER#") if pk.startswith("USER#") else None


def home(pk: str, sk: str) -> str:
    """The partition in which a session's decision finds the item `sk`: the session's, but for what is its user's."""
    return of_user(owner_and_session(pk)[0]) if sk.startswith(OF_USERS) and pk.startswith("SESSION#") else pk


def usage_key(now: int) -> str:
    """The counters of the day of `now` (ms)."""
    return f"{_USAGE}{now // 86_400_000}"


def slot_key(k: int) -> str:
    return f"{_SLOT}{k}"


def content_object(user: str, session_id: str, digest: str) -> str:
    """The S3 key of a content of the session; it lives as long as the session."""
    return f"items/{_part(user)}/{_part(session_id)}/{digest}"


def ticket_object(user: str, session_id: str, payload_ref: str) -> str:
    """The S3 key of a frame that a client uploads; it expires."""
    return f"tickets/{_part(user)}/{_part(session_id)}/{payload_ref}"


def object_prefixes(user: str, session_id: str) -> tuple[str, ...]:
    """What the S3 keys of all objects of the session begin with."""
    return content_object(user, session_id, ""), ticket_object(user, session_id, "")


def _part(name: str) -> str:
    """`name` as one segment of a path, which no HTTP client takes for something else. A slash would be two owners."""
    escaped = name.replace("%", "%25").replace("/", "%2F")
    return escaped if escaped.strip(".") else escaped.replace(".", "%2E")


def input_key(input_id: str) -> str:
    return f"INPUT#{input_id}"


def message_key(n: int) -> str:
    return f"MESSAGE#{n:09d}"


def event_key(seq: int) -> str:
    return f"EVENT#{seq:012d}"


def call_key(call_id: str) -> str:
    return f"CALL#{call_id}"


def summary_key(n: int) -> str:
    return f"SUMMARY#{n:09d}"


def file_digest(path: str) -> str:
    """What stands for a path in keys and in the register: paths may be longer than a key, and many of them than it."""
    return hashlib.sha256(path.encode()).hexdigest()[:20]


def file_key(digest: str) -> str:
    return f"FILE#{digest}"


def due_shard(pk: str) -> str:
    """The shard of the due index that a session is found in; crc32, because `hash` differs between processes."""
    return DUE_SHARDS[zlib.crc32(pk.encode()) % len(DUE_SHARDS)]
