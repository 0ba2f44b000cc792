"""Deleting and forking sessions over HTTP."""

import threading

import httpx
import pytest
from codelab.protocol.incoming import SessionConfig
from codelab.rest.sessions import SettingsChange
from codelab_local import LocalCloud
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.conftest import TEMPLATE, Open
from tests.conversations.table import Table
from tests.fakes.model.script import Says, call
from tests.fakes.model.server import ScriptedModel
from tests.rest.conftest import client_of
from tests.rest.test_history import said
from tests.rest.test_sessions import refused
from tests.waiting import PATIENCE, until


@pytest.fixture(scope="session")
def table(cloud: LocalCloud) -> Table:
    return Table(cloud)


def test_deleting_a_session_matches_the_seed_document(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel, table: Table
) -> None:
    window = ide(session)
    window.ask(model.script("deleted", Says("answer")))
    assert table.items(session)
    answer = api.delete(f"/sessions/{session}")
    assert (answer.status_code, answer.json()) == (200, {"status": "deleted", "complete": True})
    assert table.items(session) == []
    assert api.get(f"/sessions/{session}").status_code == 404
    assert window.expect("error")["error_code"] == "SESSION_NOT_FOUND"
    with pytest.raises(ConnectionClosed):
        window.receive()


def test_a_deleted_session_is_gone_from_lists(api: httpx.Client, session: str) -> None:
    api.delete(f"/sessions/{session}")
    assert session not in [it["session_id"] for it in api.get("/sessions", params={"limit": 100}).json()["sessions"]]
    refused(api.delete(f"/sessions/{session}"), 404, "SESSION_NOT_FOUND")


@pytest.mark.deep
def test_a_session_with_ten_thousand_events_is_deleted_completely(
    api: httpx.Client, session: str, table: Table
) -> None:
    for kind, count in (("EVENT", 10_000), ("MESSAGE", 100)):
        table.fill(session, [{"sk": f"{kind}#{number:012d}"} for number in range(1_000_000, 1_000_000 + count)])
    api.delete(f"/sessions/{session}")
    until(lambda: not table.items(session), 2 * PATIENCE)


def objects_of(cloud: LocalCloud, session: str) -> list[str]:
    s3 = cloud.client("s3")
    pages = [s3.list_objects_v2(Bucket=bucket["Name"]) for bucket in s3.list_buckets()["Buckets"]]
    return [found["Key"] for page in pages for found in page.get("Contents", []) if f"/{session}/" in found["Key"]]


def test_a_sessions_objects_are_deleted_with_it(
    api: httpx.Client, cloud: LocalCloud, session: str, ide: Open, model: ScriptedModel
) -> None:
    large = call("write_file", path="large.txt", content="x" * 40_000)
    asked = ide(session).call_for(model.script("large", Says("", [large]), Says("Done")))
    assert objects_of(cloud, session)
    (waiting,) = api.get(f"/sessions/{session}/pending-approvals").json()["pending_approvals"]
    assert waiting["call_id"] == asked["call_id"]
    assert httpx.get(waiting["payload_url"], timeout=60).json() == {"path": "large.txt", "content": "x" * 40_000}
    api.delete(f"/sessions/{session}")
    assert objects_of(cloud, session) == []


@pytest.mark.deep  # `functions/retention` is in every run; this needs a cloud of its own
def test_a_session_that_nobody_has_used_for_a_day_is_erased(model: ScriptedModel) -> None:
    environment = {**model.environment, "SESSION_RETENTION_DAYS": "1"}
    with LocalCloud(TEMPLATE, environment=environment) as running, client_of(running) as api:
        table = Table(running)
        old, new = (api.post("/sessions", json={}).json()["session_id"] for _ in range(2))
        table.set_last_activity(old, 1)
        until(lambda: not table.items(old))
        assert api.get(f"/sessions/{old}").status_code == 404
        assert api.get(f"/sessions/{new}").status_code == 200


def test_a_session_can_be_deleted_while_it_streams(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    window = ide(session)
    window.say(model.script("doomed", Says("word " * 200, delay=0.05)))
    window.expect("assistant_message")
    assert api.delete(f"/sessions/{session}").json() == {"status": "deleted", "complete": False}
    assert api.get(f"/sessions/{session}").status_code == 404
    assert api.get(f"/chat/history/{session}").status_code == 404
    assert api.post("/chat/message", json={"session_id": session, "message": "?"}).status_code == 404
    refused(api.post("/sessions", json={"session_id": session}), 409, "BUSY")
    with pytest.raises(InvalidStatus, match="409"):
        ide(session)
    until(lambda: "doomed" in model.hung_up)  # Its owner stops.


def test_a_fork_has_the_history_up_to_a_point(api: httpx.Client, session: str, ide: Open, model: ScriptedModel) -> None:
    marker = model.script("forked", Says("answer"))
    window = ide(session)
    for number in range(2):
        window.ask(f"{number} {marker}")
    made = api.post(f"/sessions/{session}/fork", json={"up_to": 2, "title": "Another way"})
    assert made.status_code == 201
    fork = made.json()["session_id"]
    assert said(api, fork) == said(api, session)[:2]
    assert api.get(f"/sessions/{fork}").json()["title"] == "Another way"
    whole = api.post(f"/sessions/{session}/fork", json={}).json()["session_id"]
    assert said(api, whole) == said(api, session)
    ide(fork).ask(f"on {marker}")
    assert (len(said(api, fork)), len(said(api, session))) == (4, 4)


def test_an_idempotency_key_makes_one_fork(api: httpx.Client, session: str) -> None:
    first, second = (
        api.post(f"/sessions/{session}/fork", json={}, headers={"Idempotency-Key": "fork"}) for _ in range(2)
    )
    assert first.json() == second.json()


def test_invalid_forks_are_refused(api: httpx.Client, session: str) -> None:
    beyond = api.post(f"/sessions/{session}/fork", json={"up_to": 1})
    assert refused(beyond, 422, "INVALID_ARGUMENTS") == {"field": "up_to"}


def test_title_and_settings_are_changed(api: httpx.Client, session: str) -> None:
    changed = api.patch(f"/sessions/{session}", json={"title": "Neu", "settings": {"when_busy": "reject"}})
    assert changed.status_code == 200
    shown = api.get(f"/sessions/{session}").json()
    assert changed.json() == shown
    assert (shown["title"], shown["settings"]) == ("Neu", {"when_busy": "reject"})
    api.patch(f"/sessions/{session}", json={"settings": {"model": "other"}})
    assert api.get(f"/sessions/{session}").json()["settings"] == {"when_busy": "reject", "model": "other"}


def test_settings_are_validated_as_on_the_websocket() -> None:
    for name in SettingsChange.model_fields:
        assert SettingsChange.model_fields[name].annotation == SessionConfig.model_fields[name].annotation
    assert set(SettingsChange.model_fields) == set(SessionConfig.model_fields) - {
        "type",
        "title",
        "request_id",
        "thinking",
        "last_seq",
    }


def test_a_message_during_a_turn_is_refused_with_reject(
    api: httpx.Client, session: str, ide: Open, model: ScriptedModel
) -> None:
    asked = threading.Event()
    marker = model.script("busy", Says("slow", until=asked))
    api.patch(f"/sessions/{session}", json={"settings": {"when_busy": "reject"}})
    api.post("/chat/message", json={"session_id": session, "message": marker})
    refused(api.post("/chat/message", json={"session_id": session, "message": "now"}), 409, "BUSY")
    api.patch(f"/sessions/{session}", json={"settings": {"when_busy": "queue"}})
    assert api.post("/chat/message", json={"session_id": session, "message": "then"}).json()["status"] == "queued"
