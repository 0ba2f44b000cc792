"""A user with a stolen token is revoked: no token issued before works any more."""

import json
import time
from typing import Any

import pytest
from codelab.engine.revoker import Revoker
from codelab.rest.log import LogReader
from codelab.sessions.dynamodb.values import to_dynamodb

from tests.fakes.aws.recorder import QUERY, READ, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import ROUTES, Context, System
from tests.functions.test_sweep import Died, die
from tests.security.signing import bearing, signed

SESSION = {"session_id": "s1"}


def revoke(system: System, user: str = "ann", context: Context | None = None) -> Any:
    """Invoke the sweep like `make revoke`."""
    system.aws.reset()
    return system.function("sweep")({"kind": "revoke", "user": user}, context or Context(55_000))


def connect(system: System, connection: str, session: str = "s1", issued: int | None = None, **caller: Any) -> None:
    now = int(time.time())
    system.connect(connection, session, issued=issued or now, expires=now + 3_600, **caller)


def errors(system: System, connection: str) -> list[str]:
    return [frame["error_code"] for frame in system.aws.frames(connection)]


def test_a_revoked_token_works_neither_on_the_websocket_nor_over_http(system: System) -> None:
    stolen = signed()
    assert system.http("GET", "/usage", user="", headers=bearing(stolen))[0] == 200
    authorize = system.function("authorize")
    assert authorize(events.authorize(query=SESSION, headers=bearing(stolen)))["principalId"] == "ann"
    revoke(system)
    with pytest.raises(Exception, match=r"\AUnauthorized\Z"):
        authorize(events.authorize(query=SESSION, headers=bearing(stolen)))
    assert system.http("GET", "/usage", user="", headers=bearing(stolen))[0] == 401


def test_new_tokens_and_other_users_tokens_are_accepted(system: System) -> None:
    authorize = system.function("authorize")
    fresh = signed(iat=revoke(system)["revoked_at"] + 1)
    assert authorize(events.authorize(query=SESSION, headers=bearing(fresh)))["principalId"] == "ann"
    assert authorize(events.authorize(query=SESSION, headers=bearing(signed(sub="bob"))))["principalId"] == "bob"


def test_a_revoked_users_connections_are_closed_without_a_frame(system: System) -> None:
    connect(system, "c1")
    connect(system, "c2")
    connect(system, "c3", "s2")
    connect(system, "bobs", "s1", user="bob")
    assert revoke(system).items() >= {"sessions": 2, "connections": 3, "complete": True}.items()
    assert system.aws.calls.count("DeleteConnection") == 3
    assert system.aws.posts == []
    assert system.connections() == set()
    assert "conn#bobs" in system.item("REGISTER", user="bob")


def test_frames_of_a_revoked_connection_are_refused(system: System) -> None:
    """The connection could not be closed; the item read with the register refuses its frames."""
    connect(system, "thief", extensions=True)
    system.ask("thief", "", call("write_file", path="a.py", content="1"))
    (call_id,) = system.item("REGISTER")["calls"]
    revoke(system)
    before = system.item("REGISTER")
    for frame in (
        {"type": "user_message", "content": "go on"},
        {"type": "hitl_decision", "call_id": call_id, "decision": "approve"},
        {"type": "tool_result", "call_id": call_id, "result": {"success": True}},
        {"type": "context_update", "action": "remove_file", "data": {"path": "a"}},
        {"type": "hello", "client": {"name": "x", "version": "1"}},
        {"type": "resume", "last_seq": 0},
        {"type": "cancel"},
        {"type": "session_config", "autonomy": "autonomous"},
        {"type": "refresh_token", "token": signed(iat=int(time.time()) + 2)},
    ):
        system.send_raw("thief", frame["type"] if frame["type"] in ROUTES else "control", json.dumps(frame))
        assert errors(system, "thief") == ["UNAUTHORIZED"], frame
    assert system.item("REGISTER") == before


def test_an_old_connection_cannot_refresh_with_a_revoked_token(system: System) -> None:
    """A connection opened before connections stored when their token was issued."""
    system.connect("old", extensions=True)
    stolen = signed()
    revoke(system)
    system.connect("old", extensions=True)
    system.send_raw("old", "control", json.dumps({"type": "refresh_token", "token": stolen}))
    assert errors(system, "old") == ["UNAUTHORIZED"]


def test_a_connection_authorized_just_before_cannot_join(system: System) -> None:
    revoked_at = revoke(system)["revoked_at"]
    assert system.connect("late", issued=revoked_at, expires=revoked_at + 600)["statusCode"] == 401
    assert system.all_keys() == [("USER#ann", "REVOKED")]


def test_the_sweep_closes_a_connection_that_joined_in_between(system: System) -> None:
    connect(system, "late")
    connection = to_dynamodb({":connection": system.item("REGISTER")["conn#late"]})
    revoke(system)
    # As if the authorizer and `$connect` had read before the revocation, and `$connect` had committed after it.
    system.table.update_item(
        TableName="Table",
        Key=to_dynamodb({"pk": "SESSION#ann#s1", "sk": "REGISTER"}),
        UpdateExpression="SET #name = :connection",
        ExpressionAttributeNames={"#name": "conn#late"},
        ExpressionAttributeValues=connection,
    )
    assert system.connections() == {"late"}
    system.sweep(later_s=11)
    assert system.connections() == set()
    assert system.aws.calls.count("DeleteConnection") == 1
    system.sweep(later_s=12)
    assert set(system.aws.calls) == {QUERY}, "that was the last look"


def test_the_sweep_completes_an_interrupted_revocation(system: System) -> None:
    connect(system, "c1")
    connect(system, "c2", "s2")
    system.aws.once(TRANSACTION, die)
    with pytest.raises(Died):
        revoke(system)
    system.sweep(later_s=11)
    assert system.connections() == set()
    assert not [name for name in system.item("REGISTER", "s2") if name.startswith("conn#")]


def test_the_sweep_completes_a_revocation_that_ran_out_of_time(system: System) -> None:
    connect(system, "c1")
    assert revoke(system, context=Context(1_000))["complete"] is False
    system.sweep(later_s=11)
    assert system.connections() == set()


def test_a_revocation_continues_where_the_last_sweep_stopped(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codelab.engine.revoker._PAGE", 1)
    for n in range(3):
        connect(system, f"c{n}", f"s{n}")
    revoke(system, context=Context(1_000))
    sweep = system.function("sweep")
    revoker = Revoker(sweep.engine)
    for _ in range(3):
        left = iter([55_000, 0])  # Time for one page.
        with sweep._running():
            revoker.close_remaining("ann", lambda left=left: next(left))
    registers = [system.item("REGISTER", f"s{n}") for n in range(3)]
    assert not [name for register in registers for name in register if name.startswith("conn#")]
    found = system.table.get_item(TableName="Table", Key={"pk": {"S": "USER#ann"}, "sk": {"S": "REVOKED"}})
    assert found["Item"].keys() == {"pk", "sk", "revoked_at"}, "the sweep need not look again"


def test_a_second_revocation_closes_only_newer_connections(system: System) -> None:
    revoked_at = revoke(system)["revoked_at"]
    connect(system, "c1", issued=revoked_at + 2)
    connect(system, "c2", issued=revoked_at + 40)
    system.function("sweep").clock_ms = 10_000
    assert revoke(system)["connections"] == 1
    assert system.connections() == {"c2"}


def test_calls_are_not_handed_to_another_revoked_connection(system: System) -> None:
    now = int(time.time())
    connect(system, "c1")
    connect(system, "c2")
    connect(system, "mine", issued=now + 50)
    system.ask("c1", "", call("read_file", path="a.py"))
    for other in ("mine", "c2"):
        system.send(other, "user_message", content="I am here")
    revoke(system)
    assert system.connections() == {"mine"}
    assert system.item("REGISTER")["executor"] == "mine"
    assert {target for target, _ in system.aws.posts} == {"mine"}


def test_a_stream_over_http_ends_on_revocation(system: System) -> None:
    """The reader has an older register, but checks the token again while frames flow."""
    connect(system, "c1")
    system.ask("c1", "The answer")
    engine = system.function("rest_api").engine
    register = engine.store.read("SESSION#ann#s1")
    assert register is not None
    now = engine.clock()
    reader = LogReader(engine.store, engine.payloads, register, 0, issued_at=int(time.time()))
    assert reader.read(now)
    revoke(system)
    assert reader.read(now + 11_000) == []
    assert reader.is_gone


@pytest.mark.parametrize("user", ["", "ann#bob", "a" * 129, "a\n"])
def test_invalid_user_names_are_refused(system: System, user: str) -> None:
    with pytest.raises(ValueError, match="name"):
        revoke(system, user)


def test_checking_revocations_costs_no_round_trip(system: System) -> None:
    """The register's read has one more key. Without tokens there is nothing to revoke, so nothing is read."""
    connect(system, "c1")
    assert system.aws.calls == [READ_MANY, UPDATE]
    system.send("c1", "user_message", content="hello")
    assert system.aws.calls[:2] == [READ_MANY, TRANSACTION]
    system.connect("c2", "s2")
    assert system.aws.calls == [READ, UPDATE]


def test_a_users_sessions_are_found_without_a_scan(system: System) -> None:
    connect(system, "c1")
    revoke(system)
    assert system.aws.calls[:2] == ["UpdateItem", QUERY]
    assert "Scan" not in system.aws.calls
