"""The keys of the table. The user is part of the partition key, so another user's session cannot be addressed."""

import hashlib
import zlib
from collections.abc import Callable

REGISTER = "REGISTER"
PLAN = "PLAN"
RULES = "RULES"
USER_RULES = "USER_RULES"
REVOKED = "REVOKED"
ABOUT = "ABOUT"
TOOLS = "TOOLS"
INSTRUCTIONS = "INSTRUCTIONS"
_USAGE, _SLOT = "USAGE#", "SLOT#"
#: Prefixes of the sort keys of a user's own items, which are in the partition `USER#{user}`.
OF_USERS = (USER_RULES, REVOKED, _USAGE, _SLOT)
DUE_SHARDS = tuple(f"due{n}" for n in range(8))


def partition(user: str, session_id: str) -> str:
    """`SESSION#{user}#{session_id}`. Raises ValueError if a part is empty or has a `#`: two users could share a key."""
    if "#" in user or "#" in session_id or not user or not session_id:
        raise ValueError("user and session id must not be empty or contain '#'")
    return f"SESSION#{user}#{session_id}"


def owner_and_session(pk: str) -> tuple[str, str]:
    """The user and the session id of a session's partition key."""
    _, user, session_id = pk.split("#")
    return user, session_id


def child_session(session_id: str, call_id: str) -> str:
    """The id of the session of the child that works on a `delegate` call. Clients' ids have no slash."""
    return f"{session_id}/{call_id}"


def delegation_of(session_id: str) -> tuple[str, str] | None:
    """The parent's id and its call, by the id of a child's session; None for every other session."""
    parent_id, slash, call_id = session_id.partition("/")
    return (parent_id, call_id) if slash else None


def of_user(user: str) -> str:
    """The partition key of a user's own items. It differs from all sessions' keys by its prefix."""
    return f"USER#{user}"


def of_subscriptions(user: str) -> str:
    """The partition key of a user's push subscriptions. A policy of the template knows its prefix."""
    return f"PUSH#{user}"


def user_of(pk: str) -> str | None:
    """The user of a partition key made by `of_user`; None for a session's."""
    return pk.removeprefix("USER#") if pk.startswith("USER#") else None


def home(pk: str, sk: str) -> str:
    """The partition key of item `sk` for a decision in session `pk`: the user's for the user's own items, else `pk`."""
    return of_user(owner_and_session(pk)[0]) if sk.startswith(OF_USERS) and pk.startswith("SESSION#") else pk


def usage_key(now: int) -> str:
    """The sort key of the counters of the day of `now` (ms)."""
    return f"{_USAGE}{now // 86_400_000}"


def slot_key(k: int) -> str:
    """The sort key of slot `k`, counted from 0, in the user's own partition."""
    return f"{_SLOT}{k}"


def content_object(user: str, session_id: str, digest: str) -> str:
    """The S3 key of a content of the session, which lives as long as the session."""
    return f"items/{_part(user)}/{_part(session_id)}/{digest}"


def ticket_object(user: str, session_id: str, payload_ref: str) -> str:
    """The S3 key of a frame that a client uploads, which expires."""
    return f"tickets/{_part(user)}/{_part(session_id)}/{payload_ref}"


def object_prefixes(user: str, session_id: str) -> tuple[str, ...]:
    """The prefixes of the S3 keys of all objects of the session."""
    return content_object(user, session_id, ""), ticket_object(user, session_id, "")


def _part(name: str) -> str:
    """`name` as one path segment. A slash could address another user's objects; HTTP clients normalise dots."""
    escaped = name.replace("%", "%25").replace("/", "%2F")
    return escaped if escaped.strip(".") else escaped.replace(".", "%2E")


#: The sort keys of message `n` of the history, of the summary of the first `n` messages, and of the logged frame `seq`.
#: They are padded with zeros, so that they sort by number.
message_key: Callable[[int], str] = "MESSAGE#{:09d}".format
summary_key: Callable[[int], str] = "SUMMARY#{:09d}".format
event_key: Callable[[int], str] = "EVENT#{:012d}".format

_REASONING = "REASONING#"
#: The sort key of the reasoning of message `n` of the history.
reasoning_key: Callable[[int], str] = (_REASONING + "{:09d}").format


def is_reasoning(sk: str) -> bool:
    """Is it the sort key of a message's reasoning?"""
    return sk.startswith(_REASONING)


def reasoning_n(sk: str) -> int:
    """The number of the message, by the sort key of its reasoning."""
    return int(sk.removeprefix(_REASONING))


#: The sort key of an accepted user message: the same id gives the same key, so a repeat is recognised.
input_key: Callable[[str], str] = "INPUT#{}".format
#: The sort key of a push subscription.
subscription_key: Callable[[str], str] = "SUBSCRIPTION#{}".format
#: The sort key of a call.
call_key: Callable[[str], str] = "CALL#{}".format


def file_digest(path: str) -> str:
    """A digest that stands for a path in keys and in the register, because paths may be too long for both."""
    return hashlib.sha256(path.encode()).hexdigest()[:20]


def endpoint_digest(endpoint: str) -> str:
    """A digest that stands for the address of a push subscription in its key."""
    return hashlib.sha256(endpoint.encode()).hexdigest()[:32]


def file_key(digest: str) -> str:
    """The sort key of a context file. digest: made from its path by `file_digest`."""
    return f"FILE#{digest}"


def due_shard(pk: str) -> str:
    """The shard of the due index for a partition; by crc32, because `hash` differs between processes."""
    return DUE_SHARDS[zlib.crc32(pk.encode()) % len(DUE_SHARDS)]
