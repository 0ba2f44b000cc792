"""Reads sessions from a stack's table and bucket, as they would be after all its processes and connections had ended.

So nothing in the file opens anything: no tokens and no connections, and of the processes that were working only what
the sweep needs to continue their work. What users have said is in it, and their files.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from codelab.sessions import keys

from infra.stack.sessions_file import OF_USER, Exported, Item, Writer
from infra.stack.stack import Refused

#: How often a session is read that changes while it is read.
_ATTEMPTS = 5
#: Attributes of the register that belong to connections and to a running process.
_OF_THE_MOMENT = ("lease", "executor", "compact_lease", "reasoning")


@dataclass(frozen=True)
class Data:
    """A stack's table and bucket, with boto3's clients."""

    dynamodb: Any
    table: str
    s3: Any
    bucket: str

    def item(self, pk: str, sk: str) -> Item | None:
        """Read consistently."""
        key = {"pk": {"S": pk}, "sk": {"S": sk}}
        found: Item | None = self.dynamodb.get_item(TableName=self.table, Key=key, ConsistentRead=True).get("Item")
        return found

    def items(self, pk: str) -> list[Item]:
        """All items of a partition, page by page: consistent only if nothing is written meanwhile."""
        pages = self.dynamodb.get_paginator("query").paginate(
            TableName=self.table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": pk}},
            ConsistentRead=True,
        )
        return [item for page in pages for item in page["Items"]]


def export_to(path: Path, data: Data, user: str, session_id: str, out: TextIO) -> None:
    """Write one session, all of a user or all into a new file that only its owner can read.

    Raises Refused, without a file, if the one session does not exist or does not stop changing, or somebody else makes
    the file; and with a file if some of several sessions are not in it, because they did not stop changing.
    """
    if session_id and not user:
        raise Refused("SESSION needs USER: two users may have sessions with the same id")
    if "#" in user + session_id:
        raise Refused("USER and SESSION have no '#'")
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(f"{part} was made by somebody else just now: nothing was written into it") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            writer = Writer(file, data.table, datetime.now(UTC).isoformat(timespec="seconds"))
            missing = _write(writer, data, user, session_id)
            writer.close()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    out.write(f"exported {writer.sessions} sessions into {path}: keep it as safe as what its users have said\n")
    if missing:
        raise Refused(f"{len(missing)} sessions are not in {path}: {'; '.join(missing[:3])}")


def _write(writer: Writer, data: Data, user: str, session_id: str) -> list[str]:
    """Returns why sessions are missing, for each of those that are."""
    owners: set[str] = set()
    missing: list[str] = []
    for owner, its_id in sessions(data, user, session_id):
        try:
            exported = session(data, owner, its_id)
        except Refused as error:
            if session_id:
                raise
            missing.append(str(error))
            continue
        if exported is not None:
            writer.add(exported)
            owners.add(owner)
        elif session_id:
            raise Refused(f"no session {session_id} of {user} in {data.table}")
    for owner in sorted(owners if not session_id else ()):
        if (of_user := user_items(data, owner)) is not None:
            writer.add(of_user)
    return missing


def sessions(data: Data, user: str, session_id: str) -> Iterator[tuple[str, str]]:
    """User and id of the wanted sessions: one, all of a user (no `session_id`), or all (no `user`)."""
    if session_id:
        yield user, session_id
        return
    request: dict[str, Any] = {"TableName": data.table, "IndexName": "sessions", "ProjectionExpression": "pk"}
    if user:
        request |= {"KeyConditionExpression": "#owner = :owner", "ExpressionAttributeNames": {"#owner": "owner"}}
        request["ExpressionAttributeValues"] = {":owner": {"S": user}}
    for page in data.dynamodb.get_paginator("query" if user else "scan").paginate(**request):
        for item in page["Items"]:
            yield keys.owner_and_session(item["pk"]["S"])


def session(data: Data, user: str, session_id: str) -> Exported | None:
    """A session; None if there is none, or it is being deleted. Raises Refused if it does not stop changing."""
    pk = keys.partition(user, session_id)
    for _ in range(_ATTEMPTS):
        before = data.item(pk, keys.REGISTER)
        if before is None or "erase_at" in before:
            return None
        items, objects = data.items(pk), _objects(data, user, session_id)
        after = data.item(pk, keys.REGISTER)
        if after is not None and after["version"] == before["version"]:
            kept = [item for item in items if not _is_left_out(item["sk"]["S"])]
            return Exported(user, session_id, [*kept, _at_rest(before)], objects)
    raise Refused(f"session {session_id} of {user} changed during each of {_ATTEMPTS} attempts: export it later")


def _is_left_out(sk: str) -> bool:
    """Is the item written in another form, or only of the moment?"""
    return sk in (keys.REGISTER, keys.TOOLS) or keys.is_reasoning(sk)


def user_items(data: Data, name: str) -> Exported | None:
    """What belongs to a user and not to one session; None if there is nothing. Counters and slots are of the moment."""
    found = [item for sk in OF_USER if (item := data.item(keys.of_user(name), sk)) is not None]
    return Exported(name, "", found) if found else None


def _objects(data: Data, user: str, session_id: str) -> dict[str, str]:
    """The texts of the session's large contents by digest. Uploads that no item refers to are left out."""
    prefix = keys.content_object(user, session_id, "")
    found = {}
    for page in data.s3.get_paginator("list_objects_v2").paginate(Bucket=data.bucket, Prefix=prefix):
        for entry in page.get("Contents", ()):
            body = data.s3.get_object(Bucket=data.bucket, Key=entry["Key"])["Body"].read()
            found[entry["Key"].removeprefix(prefix)] = body.decode()
    return found


def _at_rest(register: Item) -> Item:
    """The register without connections and owners. A running step stays one, whose lease the sweep will see end."""
    kept = {
        name: value for name, value in register.items() if name not in _OF_THE_MOMENT and not name.startswith("conn#")
    }
    for call in kept.get("side_calls", {}).get("M", {}).values():
        call["M"].pop("executor", None)
    return kept
