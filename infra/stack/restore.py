"""Writes exported sessions into a stack's table and bucket.

A session that is being restored is hidden, like one that is being copied: its register has `erase_at`, callers see no
session, and if this process dies, the sweep deletes the rest, or the next `make restore` goes on. The register that the
file has comes last, and only if nobody else has written it.
"""

import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from botocore.exceptions import BotoCoreError, ClientError
from codelab.sessions import keys
from codelab.sessions.dynamodb.values import to_dynamodb
from codelab.sessions.register import Register

from infra.stack.export import Data
from infra.stack.sessions_file import Exported, Item, read
from infra.stack.stack import Refused

#: What to do with sessions that exist: refuse all, leave these, or replace them.
EXISTING = ("", "skip", "replace")
#: How the lease of a register begins that is being restored, and how long (ms) it lasts.
_LEASE, _LEASE_MS = "restore-", 3_600_000
#: For so long (ms) after its beginning the restore of a session is not taken over: its process may be alive.
_ALIVE_MS = 300_000
#: The most writes of one BatchWriteItem, and seconds before what a throttled table has left is sent again.
_BATCH, _PAUSE_S = 25, 0.2
#: How many existing sessions a refusal names.
_NAMED = 3


def restore(data: Data, path: Path, existing: str, out: TextIO) -> None:
    """Restore a file. Raises Refused before anything is written if the file is broken, or a session exists and
    `existing` is empty."""
    present = _present(data, path)
    if present and not existing:
        named = ", ".join(map(str, present[:_NAMED])) + (" …" if len(present) > _NAMED else "")
        raise Refused(
            f"nothing was restored: {len(present)} exist ({named}). EXISTING=skip leaves them as they are, "
            "EXISTING=replace replaces them"
        )
    lease = _LEASE + secrets.token_hex(8)
    skipped = {one.pk for one in present} if existing == "skip" else set()
    restored = 0
    for exported in read(path):
        if not exported.session_id:
            _restore_user(data, exported, replaces=existing == "replace")
        elif exported.pk not in skipped:
            _restore_session(data, exported, lease)
            restored += 1
    left = f", left {len(skipped)} as they are" if skipped else ""
    out.write(f"restored {restored} sessions into {data.table}{left}\n")


def _present(data: Data, path: Path) -> list[Exported]:
    """The sessions of the file that exist, without their contents. Reads all of the file."""
    found = []
    for exported in read(path):
        register = data.item(exported.pk, keys.REGISTER) if exported.session_id else None
        if register is not None and not _is_left_by_a_restore(exported, register):
            found.append(Exported(exported.user, exported.session_id, []))
    return found


def _is_left_by_a_restore(exported: Exported, register: Item) -> bool:
    """Is it the register of a session that another process has begun to restore, and left?

    Raises Refused if that process may be alive.
    """
    if not register.get("lease", {}).get("S", "").startswith(_LEASE):
        return False
    if int(register["lease_until"]["N"]) - _LEASE_MS + _ALIVE_MS > _now():
        raise Refused(
            f"{exported} is being restored by another process, or was until that was killed: try again in 5 minutes"
        )
    return True


def _now() -> int:
    return int(1000 * time.time())


def _restore_session(data: Data, exported: Exported, lease: str) -> None:
    """Objects before the items that refer to them, all of them before anything is deleted; the register first hidden,
    then as it was."""
    version = _hide(data, exported, lease)
    try:
        _fill(data, exported, lease, version)
    except BaseException:
        _let_go(data, exported, lease)
        raise


def _let_go(data: Data, exported: Exported, lease: str) -> None:
    """Have the next `make restore` go on at once, because this one ends by itself: by Ctrl-C or an error."""
    left = {":lease": lease, ":left": _now() + _LEASE_MS - _ALIVE_MS}
    with suppress(ClientError, BotoCoreError):  # then it waits
        data.dynamodb.update_item(
            TableName=data.table,
            Key={"pk": {"S": exported.pk}, "sk": {"S": keys.REGISTER}},
            UpdateExpression="SET lease_until = :left",
            ConditionExpression="lease = :lease",
            ExpressionAttributeValues=to_dynamodb(left),
        )


def _fill(data: Data, exported: Exported, lease: str, version: int) -> None:
    kept = {item["sk"]["S"]: item for item in exported.items}
    register = kept.pop(keys.REGISTER)

    def check() -> None:
        """Raise Refused if another process restores the session by now, or the sweep deletes it."""
        hidden = data.item(exported.pk, keys.REGISTER) or {}
        is_ours = (hidden.get("lease"), hidden.get("version")) == ({"S": lease}, {"N": str(version)})
        if not is_ours or int(hidden["lease_until"]["N"]) <= _now():
            raise Refused(changed)

    changed = f"{exported} was changed by somebody else while it was restored: look at it, then restore it again"
    for digest, text in exported.objects.items():
        check()
        key = keys.content_object(exported.user, exported.session_id, digest)
        data.s3.put_object(Bucket=data.bucket, Key=key, Body=text.encode(), ContentType="application/json")
    _write(data, [{"PutRequest": {"Item": item}} for item in kept.values()], check)
    others = [item["sk"]["S"] for item in data.items(exported.pk) if item["sk"]["S"] not in {keys.REGISTER, *kept}]
    _write(data, [{"DeleteRequest": {"Key": {"pk": {"S": exported.pk}, "sk": {"S": sk}}}} for sk in others], check)
    newer = max(version, int(register["version"]["N"])) + 1
    _put(
        data,
        {**register, "version": {"N": str(newer)}},
        changed,
        "lease = :lease AND version = :version",
        {":lease": lease, ":version": version},
    )


def _hide(data: Data, exported: Exported, lease: str) -> int:
    """Write a hidden register, over an existing one only if the session is at rest. Returns its version."""
    old = data.item(exported.pk, keys.REGISTER)
    if old is not None and not _is_left_by_a_restore(exported, old):
        if "erase_at" in old:
            raise Refused(f"{exported} is being deleted: restore it in some minutes")
        if old.get("phase", {}).get("S", "idle") != "idle" or any(name.startswith("conn#") for name in old):
            raise Refused(f"{exported} is in use: replace it when no client is connected and no turn is open")
    version = int(old["version"]["N"]) if old else 0
    now = _now()
    ends_at = now + _LEASE_MS
    hidden = Register(exported.user, exported.session_id, created_at=now, agent="universal", lease=lease)
    hidden.lease_until = hidden.erase_at = ends_at
    due = {"due_at": ends_at, "due_shard": keys.due_shard(exported.pk)}
    item = to_dynamodb({"pk": exported.pk, "sk": keys.REGISTER, **hidden.attributes(), **due, "version": version + 1})
    condition, values = ("version = :version", {":version": version}) if old else ("attribute_not_exists(pk)", {})
    _put(data, item, f"{exported} was changed by somebody else just now: try again", condition, values)
    return version + 1


def _restore_user(data: Data, exported: Exported, *, replaces: bool) -> None:
    """A later revocation stays, and so do existing rules unless `replaces`."""
    for item in exported.items:
        condition, values = "attribute_not_exists(pk)", {}
        if item["sk"]["S"] == keys.REVOKED:
            condition += " OR revoked_at < :at"
            values = {":at": int(item["revoked_at"]["N"])}
        elif replaces:
            condition = ""
        _put(data, item, "", condition, values)


def _put(data: Data, item: Item, lost: str, condition: str, values: dict[str, Any]) -> None:
    """Put an item if the condition holds. If not, raises Refused with `lost`; an empty `lost` leaves it at that."""
    request: dict[str, Any] = {"TableName": data.table, "Item": item}
    if condition:
        request["ConditionExpression"] = condition
    if values:
        request["ExpressionAttributeValues"] = to_dynamodb(values)
    try:
        data.dynamodb.put_item(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        if lost:
            raise Refused(lost) from None


def _write(data: Data, requests: Iterable[Any], check: Callable[[], None]) -> None:
    """Write in batches; `check` comes before each of them."""
    waiting = list(requests)
    while waiting:
        check()
        batch = {data.table: waiting[:_BATCH]}
        left = data.dynamodb.batch_write_item(RequestItems=batch).get("UnprocessedItems", {}).get(data.table, [])
        waiting = [*left, *waiting[_BATCH:]]
        if left:
            time.sleep(_PAUSE_S)
