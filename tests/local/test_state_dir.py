"""STATE_DIR: what a local cloud keeps when it ends, also if all of its processes are killed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud
from codelab_local.emulator import server
from codelab_local.functions.event_journal import EventJournal
from codelab_local.host.errors import StartError

from tests.local.conftest import APP
from tests.local.test_lambda import recorded
from tests.processes import kill_everything
from tests.waiting import until

KEYS = [{"pk": {"S": "kept"}, "sk": {"S": str(n)}} for n in range(8)]

Start = Callable[[], LocalCloud]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a local cloud with one worker a function, always with the same STATE_DIR."""
    environment = {"STATE_DIR": str(tmp_path / "state"), "TMPDIR": str(tmp_path), "LOCAL_CONCURRENCY": "1"}
    return lambda: LocalCloud(APP / "template.yaml", environment=environment)


def kept(cloud: LocalCloud) -> list[dict[str, Any]]:
    """The items under the key "kept"."""
    dynamodb = cloud.client("dynamodb")
    found: list[dict[str, Any]] = dynamodb.query(
        TableName=table_of(cloud),
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": KEYS[0]["pk"]},
    )["Items"]
    return found


def table_of(cloud: LocalCloud) -> str:
    name: str = cloud.client("dynamodb").list_tables()["TableNames"][0]
    return name


def write_in_every_way(cloud: LocalCloud) -> None:
    dynamodb, table = cloud.client("dynamodb"), table_of(cloud)
    more = {"UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": {"N": "5"}}}
    for key in KEYS[:6]:
        dynamodb.put_item(TableName=table, Item={**key, "n": {"N": "1"}, "text": {"S": "\n\u2028"}, "b": {"B": b"\0"}})
    dynamodb.update_item(TableName=table, Key=KEYS[0], **more)
    dynamodb.delete_item(TableName=table, Key=KEYS[1])
    parts = [
        {"Update": {"TableName": table, "Key": KEYS[2], **more}},
        {"Delete": {"TableName": table, "Key": KEYS[3]}},
        {"Put": {"TableName": table, "Item": {**KEYS[6], "map": {"M": {"list": {"L": [{"NULL": True}]}}}}}},
    ]
    dynamodb.transact_write_items(TransactItems=parts)
    batch = [{"DeleteRequest": {"Key": KEYS[4]}}, {"PutRequest": {"Item": KEYS[7]}}]
    dynamodb.batch_write_item(RequestItems={table: batch})


@pytest.mark.deep
def test_no_write_is_lost_by_a_kill_nor_by_a_restart(start: Start, tmp_path: Path) -> None:
    with start() as cloud:
        write_in_every_way(cloud)
        expected = kept(cloud)
        kill_everything(cloud)
    assert [item["sk"]["S"] for item in expected] == ["0", "2", "5", "6", "7"]
    with (tmp_path / "state" / "services" / "journal.jsonl").open("ab") as journal:
        journal.write(b'\n[["a write that was cut off')
    with start() as cloud:
        assert kept(cloud) == expected
        cloud.client("dynamodb").put_item(TableName=table_of(cloud), Item=KEYS[0])
        expected[0] = KEYS[0]
    with start() as cloud:
        assert kept(cloud) == expected
        assert cloud.invoke("command", {"a": 1}) == {"a": 1}
        before = cloud.invoke("command", {"do": "count", "kind": "tick"})
        until(lambda: cloud.invoke("command", {"do": "count", "kind": "tick"}) > before)
    state = tmp_path / "state"
    assert [path for path in (state, *state.rglob("*")) if path.stat().st_mode & 0o077] == []


@pytest.mark.deep
def test_accepted_events_outlive_a_kill(start: Start, tmp_path: Path) -> None:
    """One event runs and is retried, as its function's settings have it; one waits and then runs for the first time."""
    with start() as cloud:
        # It fails once in any case, also if this machine is so slow that it ends before it is killed.
        cloud.invoke("background", {"name": "running", "seconds": 1.5, "failures": 1}, asynchronous=True)
        cloud.invoke("background", {"name": "waiting"}, asynchronous=True)
        first = until(lambda: recorded(cloud, "background", "running#1"))
        kill_everything(cloud)
    with start() as cloud:
        assert until(lambda: recorded(cloud, "background", "running#2")) == first  # with the same request id
        until(lambda: recorded(cloud, "background", "waiting#1"))
        assert recorded(cloud, "background", "waiting#2") is None
        until(lambda: unfinished(tmp_path) == [])


def unfinished(folder: Path) -> list[str]:
    """The ids of the events that the next start would go on with."""
    copied = shutil.copy(folder / "state" / "events.jsonl", folder / "copied")
    return list(EventJournal(Path(copied)).unfinished)


def test_two_clouds_cannot_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOCK_TIMEOUT", 0.0)
    held = server.locked(tmp_path)
    with pytest.raises(StartError, match="is in use by another local cloud"):
        server.locked(tmp_path)
    os.close(held)
    os.close(server.locked(tmp_path))


def test_an_event_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path, payload = tmp_path / "events.jsonl", '{"a": "ü"}'.encode("utf-16")
    journal = EventJournal(path)
    journal.accepted("first", "background", payload)
    with path.open("ab") as cut_off:
        cut_off.write(b'{"accepted": "second", "func')
    journal.accepted("third", "background", b"{}")
    journal.started("third")
    found = EventJournal(path).unfinished
    assert {name: (event.payload, event.started) for name, event in found.items()} == {
        "first": (payload, False),
        "third": (b"{}", True),
    }
