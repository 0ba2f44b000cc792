"""rest_api: a session is copied or deleted as a whole, wherever the process that does it dies."""

from dataclasses import replace
from typing import Any

import pytest
from codelab.llm.client.transport import Call
from codelab.sessions import keys
from codelab.sessions.items import SummaryItem
from codelab.sessions.transition import Transition

from tests.fakes.aws.recorder import READ, READ_MANY
from tests.fakes.model.in_process import Answer, Body
from tests.functions import events
from tests.functions.system import Context, System
from tests.sampling import sampled

BATCH, REMOVE = "BatchWriteItem", "DeleteItem"

#: A sweep that comes when every process of before must have ended.
LATER_S = 120


class Died(Exception):
    """The process is gone in the middle of a call: nothing that the code could catch is."""


def die() -> None:
    raise Died


@pytest.fixture
def filled(connected: System) -> System:
    """The session has a history of four messages."""
    for _ in range(2):
        connected.ask("c1", "answer")
    return connected


def sessions(system: System) -> set[str]:
    return {pk for pk, _ in system.all_keys()}


def test_looking_at_a_session_costs_one_read_beside_that_of_the_tokens_revocation(connected: System) -> None:
    status, shown = connected.http("GET", "/sessions/s1")
    assert (status, shown["session_id"]) == (200, "s1")
    assert connected.aws.calls == [READ, READ_MANY]


def test_a_request_is_answered_in_the_thread_that_has_read_it(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: Any, **__: Any) -> None:
        raise AssertionError("a thread was asked for")

    system.connect("c1")
    monkeypatch.setattr("anyio.to_thread.run_sync", no_thread)
    message = {"session_id": "s1", "message": "hello"}
    answers = [
        system.http("GET", "/sessions/s1"),
        system.http("GET", "/tools"),
        system.http("GET", "/sessions/s1/pending-approvals"),
        system.http("POST", "/chat/message", body=message),
    ]
    assert [status for status, _ in answers] == [200, 200, 200, 202]


def test_a_message_costs_what_it_costs_on_the_websocket(connected: System) -> None:
    connected.http("POST", "/chat/message", body={"session_id": "s1", "message": "hello"})
    assert connected.aws.calls == [READ, READ_MANY, "TransactWriteItems", "Invoke"], "the first of the revocation"


def test_a_token_is_taken_from_the_header_or_the_query(connected: System) -> None:
    value = events.token("ann")
    for given in ({"headers": {"authorization": f"bearer {value}"}}, {"query": f"token={value}"}):
        assert connected.http("GET", "/sessions/s1", user="", **given)[0] == 200
    assert connected.http("GET", "/sessions/s1", user="bob", query=f"token={value}")[0] == 404, "the header wins"


@pytest.mark.parametrize("operation", sampled(["UpdateItem", "GetItem", "Query", BATCH, "PostToConnection", REMOVE]))
def test_a_deletion_that_dies_is_carried_on_by_the_sweep(filled: System, operation: str) -> None:
    filled.aws.once(operation, die)
    filled.http("DELETE", "/sessions/s1")
    status, _ = filled.http("GET", "/sessions/s1")
    if status == 200:  # it died before it had begun
        assert operation in ("GetItem", "UpdateItem")
        return
    assert status == 404
    filled.sweep(later_s=5)
    assert sessions(filled) == {"SESSION#ann#s1"}, "its process may live"
    filled.sweep(later_s=LATER_S)
    assert sessions(filled) == set()


def test_a_deletion_that_dies_is_carried_on_by_a_repeat(filled: System) -> None:
    filled.aws.once(BATCH, die)
    filled.http("DELETE", "/sessions/s1")
    assert filled.http("DELETE", "/sessions/s1") == (200, {"status": "deleted", "complete": False})
    filled.function("rest_api").clock_ms = 1000 * LATER_S
    assert filled.http("DELETE", "/sessions/s1") == (200, {"status": "deleted", "complete": True})
    assert sessions(filled) == set()


def test_a_deletion_without_time_leaves_the_rest_to_the_sweep(filled: System) -> None:
    assert filled.http("DELETE", "/sessions/s1", Context(1_000))[1] == {"status": "deleted", "complete": False}
    assert len(filled.all_keys()) > 1
    filled.sweep(later_s=1)
    assert sessions(filled) == set()


def test_the_register_is_kept_until_the_owner_of_a_step_can_write_no_more(connected: System) -> None:
    connected.model.says("never committed")
    answered: list[Any] = []
    say = connected.model.answer

    def delete_first(body: Body, call: Call) -> Answer:
        connected.until_a_step_runs()
        answered.append(connected.http("DELETE", "/sessions/s1"))
        return say(body, call)

    connected.model.answer = delete_first
    connected.say("c1")
    assert answered == [(200, {"status": "deleted", "complete": False})]
    left = {sk for _, sk in connected.all_keys()}
    assert not {sk for sk in left if not sk.startswith("EVENT#")} - {"REGISTER"}, "but what it streams meanwhile"
    connected.sweep(later_s=60)
    assert sessions(connected) == {"SESSION#ann#s1"}, "its lease has not ended"
    connected.sweep(later_s=200)
    assert sessions(connected) == set()


@pytest.mark.parametrize(
    ("operation", "number"),
    [("UpdateItem", 1), (READ_MANY, 1), (READ_MANY, 2), (BATCH, 1), ("UpdateItem", 2)],
)
def test_a_fork_that_dies_leaves_nothing(filled: System, operation: str, number: int) -> None:
    before = filled.all_keys()
    filled.aws.once(operation, die, nth=number)
    status, _ = filled.http("POST", "/sessions/s1/fork", body={})
    assert status == 500
    assert filled.http("GET", "/sessions")[1]["sessions"][0]["session_id"] == "s1"
    filled.sweep(later_s=LATER_S)
    assert filled.all_keys() == before


def test_a_fork_that_dies_can_be_repeated_when_it_is_erased(filled: System) -> None:
    again = {"headers": {"idempotency-key": "k"}, "body": {"up_to": 2}}
    filled.aws.once(BATCH, die)
    filled.http("POST", "/sessions/s1/fork", **again)
    status, refused = filled.http("POST", "/sessions/s1/fork", **again)
    assert (status, refused["error"]["code"]) == (409, "BUSY")
    filled.sweep(later_s=LATER_S)
    status, made = filled.http("POST", "/sessions/s1/fork", **again)
    assert status == 201
    status, history = filled.http("GET", f"/chat/history/{made['session_id']}")
    assert [message["n"] for message in history["messages"]] == [1, 2]
    assert filled.http("POST", "/sessions/s1/fork", **again) == (201, made)


@pytest.mark.parametrize("up_to", [2, 4])
def test_a_fork_has_the_summary_only_with_all_messages_that_it_stands_for(filled: System, up_to: int) -> None:
    store = filled.function("rest_api").engine.store
    register = store.read("SESSION#ann#s1")
    after = replace(register.copy(), summary_n=3)
    store.commit(Transition(register, after, puts=(SummaryItem(3, "what was said", 0),)))
    _, made = filled.http("POST", "/sessions/s1/fork", body={"up_to": up_to})
    pk = keys.partition("ann", made["session_id"])
    assert ((pk, keys.summary_key(3)) in filled.all_keys()) is (up_to == 4)
    fork = store.read(pk)
    assert fork.summary_n == (3 if up_to == 4 else 0)
    own_messages = store.history(pk, fork.summary_n + 1, up_to)
    assert 0 < fork.history_tokens == sum(message.tokens for message in own_messages)


def test_a_fork_without_time_is_refused_and_leaves_nothing(filled: System) -> None:
    before = filled.all_keys()
    status, refused = filled.http("POST", "/sessions/s1/fork", Context(1_000), body={})
    assert (status, refused["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
    filled.sweep(later_s=1)
    assert filled.all_keys() == before


def test_database_error(connected: System) -> None:
    connected.aws.refuse(READ_MANY, 400, "ProvisionedThroughputExceededException")
    status, refused = connected.http("GET", "/sessions/s1")
    assert (status, refused["error"]["code"]) == (500, "DATABASE_ERROR")
    assert connected.http("GET", "/sessions/s1")[0] == 200


def test_an_error_of_ours_is_answered_in_the_same_shape(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codelab.sessions.dynamodb.store.DynamoDBStore.listed", lambda *_: 1 / 0)
    status, refused = system.http("GET", "/sessions")
    assert (status, refused["error"]["code"]) == (500, "AGENT_ERROR")
