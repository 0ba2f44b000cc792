"""`make export` and `make restore`: what functions have written is saved, and they continue what was restored."""

import io
import json
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from codelab.sessions.dynamodb.values import to_dynamodb

from infra.stack import restore
from infra.stack.export import Data, export_to
from infra.stack.stack import Refused
from tests.cases import cases
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import System
from tests.functions.template import REGION, Template
from tests.functions.test_retention import objects_of, sessions_of
from tests.functions.test_sweep import Died, _die_in_the_step

LARGE = "x = 1\n" * 30_000
HOUR_S = 3_600


class Backup:
    """Exports the system's table, and restores into it or into another one."""

    def __init__(self, system: System, folder: Path, template: Template) -> None:
        self._system = system
        self.file = folder / "sessions.ndjson"
        with system.aws.paused():
            s3: Any = boto3.client("s3", region_name=REGION)
            self.here = Data(system.table, "Table", s3, "payloads")
            system.table.create_table(**{**template.table(), "TableName": "Other"})
            s3.create_bucket(Bucket="others", CreateBucketConfiguration={"LocationConstraint": REGION})
            self.elsewhere = Data(system.table, "Other", s3, "others")

    def export(self, user: str = "", session: str = "", data: Data | None = None) -> list[dict[str, Any]]:
        """Returns the lines of the file."""
        self.file.unlink(missing_ok=True)
        with self._system.aws.paused():
            export_to(self.file, data or self.here, user, session, io.StringIO())
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def restore(self, data: Data | None = None, existing: str = "") -> str:
        out = io.StringIO()
        with self._system.aws.paused():
            restore.restore(data or self.here, self.file, existing, out)
        return out.getvalue()


@pytest.fixture
def backup(system: System, tmp_path: Path, template: Template) -> Backup:
    return Backup(system, tmp_path, template)


@pytest.fixture
def talked(system: System) -> System:
    """Ann's session s1 with a large object, and nobody connected."""
    system.connect("c1", extensions=True)
    system.ask("c1", "", call("write_file", path="a.py", content=LARGE))
    (call_id,) = system.item("REGISTER")["calls"]
    system.send("c1", "hitl_decision", call_id=call_id, decision="approve", remember={"scope": "user"})
    system.send("c1", "tool_result", call_id=call_id, result={"success": True})
    system.model.says("Done.")
    system.run_step()
    system.disconnect("c1")
    return system


def test_a_session_continues_where_it_was_exported(talked: System, backup: Backup) -> None:
    before = talked.history()
    backup.export("ann", "s1")
    talked.http("DELETE", "/sessions/s1")
    assert sessions_of(talked) == set()
    assert objects_of(talked) == []
    assert backup.restore() == "restored 1 sessions into Table\n"
    assert talked.history() == before
    talked.connect("c2")
    assert talked.ask("c2", "I remember") == []
    assert talked.history()[-1] == ("assistant", "I remember")
    assert objects_of(talked), "the large arguments are there again"


def test_all_sessions_go_into_another_table_as_they_are(talked: System, backup: Backup) -> None:
    talked.connect("c3", "s2", user="bob")
    talked.ask("c3", "Hi")
    talked.disconnect("c3")
    first = backup.export()
    assert first[-1] == {"sessions": 2, "users": 1}
    assert backup.restore(backup.elsewhere).startswith("restored 2 sessions")
    again = backup.export(data=backup.elsewhere)
    assert _contents(again) == _contents(first)


def _contents(lines: list[dict[str, Any]]) -> list[Any]:
    """Without what the table's name and the versions of registers are."""
    for line in lines:
        for item in line.get("items", ()):
            item.pop("version", None)
        line.get("items", []).sort(key=lambda item: item["sk"]["S"])
    return sorted(lines[1:], key=lambda line: json.dumps(line, sort_keys=True))


def test_the_file_holds_no_tokens_and_no_connections(system: System, backup: Backup) -> None:
    """Even of a session that is at work: a step runs, somebody is connected, tools are declared."""
    system.connect("the-connection", extensions=True)
    own = {"name": "ide.deploy", "description": "Deploys the project."}
    system.send_raw("the-connection", "control", json.dumps({"type": "hello", "capabilities": {"tools": [own]}}))
    system.send("the-connection", "user_message", content="hello")
    _die_in_the_step(system)
    register = system.item("REGISTER")
    assert register["lease"]
    assert "conn#the-connection" in register
    (_, exported, *_) = backup.export()
    (saved,) = (item for item in exported["items"] if item["sk"]["S"] == "REGISTER")
    assert not {"lease", "executor"} & saved.keys()
    text = backup.file.read_text()
    for secret in ("conn#", "eyJ", "X-Amz-", events.JWT_SECRET, "ide.deploy"):
        assert secret not in text
    assert stat.S_IMODE(backup.file.stat().st_mode) == 0o600


def test_a_step_that_was_running_is_run_again_where_it_is_restored(system: System, backup: Backup) -> None:
    system.connect("c1")
    system.send("c1", "user_message", content="hello")
    _die_in_the_step(system)
    backup.export()
    system.disconnect("c1")
    with system.aws.paused():
        for item in backup.here.items("SESSION#ann#s1"):  # the table is lost
            system.table.delete_item(TableName="Table", Key={name: item[name] for name in ("pk", "sk")})
    backup.restore()
    system.sweep(later_s=130)
    system.model.says("Hi again")
    system.run_step()
    assert system.history()[-1] == ("assistant", "Hi again")


def test_nothing_is_overwritten_unless_it_is_said(talked: System, backup: Backup) -> None:
    backup.export()
    talked.connect("c2")
    talked.ask("c2", "later")
    talked.disconnect("c2")
    later = talked.history()
    with pytest.raises(Refused, match=r"nothing was restored: 1 exist \(session s1 of ann\)\. EXISTING=skip"):
        backup.restore()
    assert "left 1 as they are" in backup.restore(existing="skip")
    assert talked.history() == later
    backup.restore(existing="replace")
    assert talked.history() == later[:-2], "what came after the export is gone"
    talked.connect("c3")
    talked.ask("c3", "again")
    assert talked.history()[-1] == ("assistant", "again")


@pytest.mark.parametrize("use", ["connected", "in a turn"])
def test_a_session_in_use_is_not_replaced(talked: System, backup: Backup, use: str) -> None:
    backup.export()
    talked.connect("c2")
    if use == "in a turn":
        talked.send("c2", "user_message", content="hello")
        talked.disconnect("c2")
    before = talked.all_keys()
    with pytest.raises(Refused, match="session s1 of ann is in use"):
        backup.restore(existing="replace")
    assert talked.all_keys() == before


def test_a_revocation_is_restored_and_a_later_one_stays(talked: System, backup: Backup) -> None:
    talked.function("sweep")({"kind": "revoke", "user": "ann"})
    exported = backup.export()
    assert [line["user"] for line in exported if "items" in line and "session_id" not in line] == ["ann"]
    backup.restore(backup.elsewhere)
    key = {"pk": {"S": "USER#ann"}, "sk": {"S": "REVOKED"}}
    restored = talked.table.get_item(TableName="Other", Key=key)["Item"]["revoked_at"]
    assert restored == talked.table.get_item(TableName="Table", Key=key)["Item"]["revoked_at"]
    later = {"N": "9999999999"}
    talked.table.put_item(TableName="Other", Item={**key, "revoked_at": later})
    backup.restore(backup.elsewhere, existing="replace")
    assert talked.table.get_item(TableName="Other", Key=key)["Item"]["revoked_at"] == later


# -- failures --------------------------------------------------------------------------------------------------------


class Dying:
    """A client of AWS whose process dies before its nth call that writes, and writes nothing more."""

    def __init__(self, client: Any, calls: Iterator[int], nth: int) -> None:
        self._client, self._calls, self._nth = client, calls, nth

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self._client, name)
        if not name.startswith(("put_", "batch_write", "update_")):
            return method

        def made(**request: Any) -> Any:
            if next(self._calls) >= self._nth:
                raise Died
            return method(**request)

        return made


def _dying(data: Data, nth: int) -> Data:
    calls = iter(range(1, 1_000))
    return Data(Dying(data.dynamodb, calls, nth), data.table, Dying(data.s3, calls, nth), data.bucket)


class Interrupted(Dying):
    """A client whose process is interrupted by Ctrl-C before its nth call that writes."""

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self._client, name)

        if not name.startswith(("put_", "batch_write")):
            return method

        def made(**request: Any) -> Any:
            if next(self._calls) == self._nth:
                raise KeyboardInterrupt
            return method(**request)

        return made


def test_a_restore_that_was_interrupted_goes_on_at_once(talked: System, backup: Backup) -> None:
    history = talked.history()
    backup.export("ann", "s1")
    interruptions = 0
    for nth in range(1, 50):
        talked.http("DELETE", "/sessions/s1")
        calls, here = iter(range(1, 1_000)), backup.here
        try:
            backup.restore(Data(Interrupted(here.dynamodb, calls, nth), here.table, here.s3, here.bucket))
            break
        except KeyboardInterrupt:
            interruptions += 1
            assert talked.http("GET", "/chat/history/s1")[0] == 404
        backup.restore()
        assert talked.history() == history
    assert interruptions > 2


@pytest.mark.parametrize("then", ["again", "sweep"])
def test_a_restore_that_dies_at_any_write_shows_nothing_half_restored(
    talked: System, backup: Backup, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = talked.history()
    backup.export("ann", "s1")
    talked.http("DELETE", "/sessions/s1")
    for nth in range(1, 50):
        try:
            backup.restore(_dying(backup.here, nth))
            break
        except Died:
            assert talked.http("GET", "/chat/history/s1")[0] == 404
        if then == "again":
            if nth > 1:
                with pytest.raises(Refused, match="is being restored by another process"):
                    backup.restore()
            with monkeypatch.context() as later:
                later.setattr(restore, "_now", lambda: int(1000 * time.time()) + 301_000)
                backup.restore()
            assert talked.history() == history
            talked.http("DELETE", "/sessions/s1")
        else:
            talked.sweep(later_s=HOUR_S + 60)
            assert sessions_of(talked) == set(), nth
            assert objects_of(talked) == [] or nth == 1
    assert nth > 3


def test_a_session_that_changes_while_it_is_read_is_read_again(
    talked: System, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, changes = Data.items, iter((True, False))

    def items(data: Data, pk: str) -> list[Any]:
        found = real(data, pk)
        if next(changes, True):
            _touch(talked)
        return found

    monkeypatch.setattr(Data, "items", items)
    assert backup.export("ann", "s1")[-1]["sessions"] == 1
    with pytest.raises(Refused, match="session s1 of ann changed during each of 5 attempts"):
        backup.export("ann", "s1")
    assert list(backup.file.parent.iterdir()) == [], "no file"


def test_a_session_that_does_not_stop_changing_keeps_no_other_from_the_file(
    talked: System, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    talked.connect("c3", "s2")
    talked.disconnect("c3")
    real = Data.items

    def items(data: Data, pk: str) -> list[Any]:
        if pk.endswith("s1"):
            _touch(talked)
        return real(data, pk)

    monkeypatch.setattr(Data, "items", items)
    with pytest.raises(Refused, match=r"1 sessions are not in .*: session s1 of ann changed"):
        backup.export()
    (_, exported, *_) = backup.file.read_text().splitlines()
    assert json.loads(exported)["session_id"] == "s2"


def _touch(system: System) -> None:
    system.table.update_item(
        TableName="Table",
        Key={"pk": {"S": "SESSION#ann#s1"}, "sk": {"S": "REGISTER"}},
        UpdateExpression="ADD version :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )


def test_a_session_that_somebody_writes_while_it_is_restored_is_theirs(
    talked: System, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup.export("ann", "s1")
    talked.http("DELETE", "/sessions/s1")
    real = restore._write

    def write(data: Data, requests: Any, check: Any) -> None:
        real(data, requests, check)
        _touch(talked)

    monkeypatch.setattr(restore, "_write", write)
    with pytest.raises(Refused, match="was changed by somebody else while it was restored"):
        backup.restore()


@pytest.mark.parametrize("change", ["another lease", "its time is over"])
def test_a_restore_that_has_lost_its_session_writes_nothing_more(
    talked: System, backup: Backup, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Its process was stopped for an hour, and another one, or the sweep, has the session."""
    backup.export("ann", "s1")
    talked.http("DELETE", "/sessions/s1")
    real = restore._hide

    def hide(*arguments: Any) -> int:
        version = real(*arguments)
        if change == "another lease":
            talked.table.update_item(
                TableName="Table",
                Key=to_dynamodb({"pk": "SESSION#ann#s1", "sk": "REGISTER"}),
                UpdateExpression="SET lease = :other",
                ExpressionAttributeValues=to_dynamodb({":other": "restore-other"}),
            )
        else:
            monkeypatch.setattr(restore, "_now", lambda: int(1000 * (time.time() + HOUR_S)) + 1)
        return version

    monkeypatch.setattr(restore, "_hide", hide)
    with pytest.raises(Refused, match="was changed by somebody else while it was restored"):
        backup.restore()
    assert [sk for pk, sk in talked.all_keys() if pk == "SESSION#ann#s1"] == ["REGISTER"]
    assert objects_of(talked) == []


NOT_WHOLE = "line 2: not a session or a user"


def _register(old: str, new: str) -> Callable[[str], str]:
    return _changed("REGISTER", old, new)


def _message(old: str, new: str) -> Callable[[str], str]:
    return _changed("MESSAGE#000000001", old, new)


def _changed(sk: str, old: str, new: str) -> Callable[[str], str]:
    """Replaces the first `old` in the item `sk` of the session's line."""

    def spoil(text: str) -> str:
        first, line, *rest = text.splitlines()
        session = json.loads(line)
        items = [json.dumps(item, separators=(",", ":")) for item in session.pop("items")]
        changed = [item.replace(old, new, 1) if f'"sk":{{"S":"{sk}"}}' in item else item for item in items]
        assert changed != items
        whole = json.dumps(session)[:-1] + ', "items": [' + ",".join(changed) + "]}"
        return "\n".join([first, whole, *rest]) + "\n"

    return spoil


def _of_user(sk: str) -> str:
    return json.dumps({"pk": {"S": "USER#bob"}, "sk": {"S": sk}})


@cases(
    ("spoil", "said"),
    [
        (lambda text: text[: len(text) // 2], "line 2: not a JSON object"),
        (lambda text: "\n".join(text.splitlines()[:-1]), "cut off after 1 sessions"),
        (lambda text: "", "cut off after 0 sessions"),
        (lambda text: text.replace('"codelab_sessions":1', '"codelab_sessions":2'), "no file of make export"),
        (lambda text: text.replace("SESSION#ann#s1", "SESSION#eve#s1"), "line 2: not a session or a user"),
        (lambda text: text.replace('"S":"REGISTER"', '"S":"ANOTHER"'), "line 2: not a session or a user"),
        (lambda text: text.replace('"session_id":"s1"', '"session_id":"a#b"'), "line 2: not a session or a user"),
        (lambda text: "hello", "line 1: not a JSON object"),
        (lambda text: text.replace("\n", "\n" + '{"a":' * 100_000 + "\n", 1), "line 2: not a JSON object"),
        (_register('"owner":{"S":"ann"}', '"owner":{"S":"bob"}'), NOT_WHOLE),
        (_register('"session_id":{"S":"s1"}', '"session_id":{"S":"s2"}'), NOT_WHOLE),
        (_register("{", '{"erase_at":{"N":"9"},'), NOT_WHOLE),
        (_register("{", '{"lease":{"S":"mine"},'), NOT_WHOLE),
        (_register("{", '{"conn#c9":{"M":{"gen":{"N":"1"}}},'), NOT_WHOLE),
        (_register("{", '{"due_at":{"N":"9"},"due_shard":{"S":"due9"},'), NOT_WHOLE),
        (_register('"version":{"N":"', '"version":{"N":"x'), NOT_WHOLE),
        (_message("{", '{"owner":{"S":"bob"},"last_activity":{"N":"9"},'), NOT_WHOLE),
        (_message("{", '{"due_at":{"N":"9"},"due_shard":{"S":"due0"},'), NOT_WHOLE),
        (_message("{", '{"extra":{"S":5},'), NOT_WHOLE),
        (_message("{", '{"extra":{"N":"1_000"},'), NOT_WHOLE),
        (_message("{", '{"extra":{"B":"AAAA"},'), NOT_WHOLE),
        (_message("{", '{"extra":{"N":"' + "9" * 39 + '"},'), NOT_WHOLE),
        (_message("{", '{"extra":{"S":"' + "x" * 400 * 1024 + '"},'), NOT_WHOLE),
        (_message("{", '{"extra":' + '{"L":[' * 40 + "]}" * 40 + ","), NOT_WHOLE),
        (lambda text: text.replace("MESSAGE#000000002", "MESSAGE#000000001"), NOT_WHOLE),
        (lambda text: text.replace("\n", '\n{"user":"bob","items":[' + _of_user("SLOT#0") + "]}\n", 1), NOT_WHOLE),
        (lambda text: text.replace("\n", '\n{"user":"bob","items":[' + _of_user("REVOKED") + "]}\n", 1), NOT_WHOLE),
        (lambda text: text.replace("\n", '\n{"user":"b#b","items":[]}\n', 1), NOT_WHOLE),
    ],
)
def test_a_file_that_was_cut_off_or_changed_is_refused_before_anything_is_written(
    talked: System, backup: Backup, spoil: Callable[[str], str], said: str
) -> None:
    backup.export("ann", "s1")
    backup.file.write_text(spoil(backup.file.read_text()))
    with pytest.raises(Refused, match=said):
        backup.restore(backup.elsewhere)
    assert talked.table.scan(TableName="Other")["Items"] == []


def test_nothing_is_written_into_a_file_that_somebody_else_makes(
    talked: System, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that others may write to, it would be theirs to read."""
    part = backup.file.with_name("sessions.ndjson.part")

    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        if path == part:
            part.write_text("theirs")

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(Refused, match="was made by somebody else"):
        backup.export("ann", "s1")
    assert part.read_text() == "theirs"
    assert not backup.file.exists()


def test_what_does_not_exist_is_named(talked: System, backup: Backup) -> None:
    with pytest.raises(Refused, match="no session s9 of ann"):
        backup.export("ann", "s9")
    with pytest.raises(Refused, match="SESSION needs USER"):
        backup.export("", "s1")
    with pytest.raises(Refused, match="have no '#'"):
        backup.export("ann#s1")
    assert backup.export("bob")[-1] == {"sessions": 0, "users": 0}
