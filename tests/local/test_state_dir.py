"""STATE_DIR and --keep-sessions: what a local cloud keeps when it ends, also if all of its processes are killed."""

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
from codelab_local.settings import kept_sessions

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


# --keep-sessions


def test_each_checkout_has_a_private_folder_of_its_own(tmp_path: Path) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "state")}
    first, second = tmp_path / "a checkout", tmp_path / "another" / "a checkout"
    folder, note = kept_sessions.prepare(first / "template.yaml", home, "codelab")
    other, _ = kept_sessions.prepare(second / "template.yaml", home, "codelab")
    assert folder is not None
    assert other is not None
    assert note == ""
    assert folder != other
    assert folder.parent == other.parent == tmp_path / "state" / "codelab" / "checkouts"
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent, folder.parent.parent)] == [0o700] * 3
    assert kept_sessions.prepare(first / "sub" / ".." / "template.yaml", home, "codelab") == (folder, "")


def test_what_a_former_version_kept_is_taken_once(tmp_path: Path) -> None:
    former = tmp_path / "codelab" / "local_cloud"
    (former / "services").mkdir(parents=True)
    (former / "services" / "dynamodb.json").write_text("{}")
    home = {"XDG_STATE_HOME": str(tmp_path)}
    folder, note = kept_sessions.prepare(tmp_path / "one" / "template.yaml", home, "codelab")
    assert folder is not None
    assert note == f"the sessions in {former} are in {folder} now"
    assert (folder / "services" / "dynamodb.json").read_text() == "{}"
    other, note = kept_sessions.prepare(tmp_path / "two" / "template.yaml", home, "codelab")
    assert other is not None
    assert (note, list(other.iterdir())) == ("", [])


def test_without_a_place_for_them_sessions_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    folder, note = kept_sessions.prepare(
        tmp_path / "template.yaml", {"XDG_STATE_HOME": str(tmp_path / "file")}, "codelab"
    )
    assert folder is None
    assert note.startswith("sessions are in memory only: ")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert kept_sessions.prepare(tmp_path / "template.yaml", {}, "codelab")[0] is None


@pytest.mark.deep
def test_sessions_stay_where_the_template_is_wrong(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(APP, project, ignore=shutil.ignore_patterns("__pycache__"))
    template = project / "template.yaml"
    home = {"XDG_STATE_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}

    def cloud() -> LocalCloud:
        return LocalCloud(template, environment=home, keep_sessions=True, show_logs=False)

    with cloud() as running:
        running.client("dynamodb").put_item(TableName=table_of(running), Item=KEYS[0])
    right = template.read_text()
    wrong = "Parameters:\n  Wrong: {Type: String, Default: b, AllowedValues: [a]}\n"
    template.write_text(right.replace("Parameters:\n", wrong))
    assert template.read_text() != right
    with pytest.raises(RuntimeError, match=r"what was kept is in .* again"):
        cloud().start()
    template.write_text(right)
    with cloud() as running:
        assert kept(running) == [KEYS[0]]
    assert len(list((tmp_path / "home" / "sample" / "checkouts").iterdir())) == 1


@pytest.mark.deep
def test_sessions_are_kept_and_set_aside_if_they_cannot_be_used(tmp_path: Path) -> None:
    def cloud(**environment: str) -> LocalCloud:
        home = {"XDG_STATE_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path), **environment}
        return LocalCloud(APP / "template.yaml", environment=home, keep_sessions=True, show_logs=False)

    with cloud() as running:
        running.client("dynamodb").put_item(TableName=table_of(running), Item=KEYS[0])
        with pytest.raises(RuntimeError, match="in use by another local cloud"):
            cloud().start()
    with cloud() as running:
        assert kept(running) == [KEYS[0]]
    with cloud(STATE_DIR="") as running:
        assert kept(running) == []
    (folder,) = (tmp_path / "home" / "sample" / "checkouts").iterdir()
    for content in (b"", b'{"tables": {', None):
        tables = folder / "services" / "dynamodb.json"
        tables.unlink() if content is None else tables.write_bytes(content)
        with cloud() as running:
            assert kept(running) == []
            assert f"It is set aside as {folder}." in running.logs()
            running.client("dynamodb").put_item(TableName=table_of(running), Item=KEYS[0])
    assert len(list(folder.parent.iterdir())) == 4
    with cloud() as running:
        assert kept(running) == [KEYS[0]]
