"""A thief with a stolen token: floods are refused before they cost anything, with the time to retry. Other users are
not affected.

Each attack uses the deployed functions, with small limits so that a flood is short.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from codelab.aws.errors import AwsTimeout
from codelab.aws.functions import Returned
from codelab.llm.errors import TransportError
from codelab.sessions.dynamodb.values import to_dynamodb

from tests.fakes.model.script import call
from tests.functions.conftest import minute as minute
from tests.functions.conftest import system as system
from tests.functions.conftest import template as template
from tests.functions.system import System
from tests.functions.test_quotas import of_user
from tests.security.signing import bearing, signed

FLOOD = 12

pytestmark = pytest.mark.usefixtures("minute")
LIMITS = {
    "MESSAGES_PER_MINUTE": "5",
    "REQUESTS_PER_MINUTE": "5",
    "TOKENS_PER_DAY": "1000",
    "CONNECTIONS_PER_MINUTE": "5",
    "STORED_BYTES_PER_DAY": "100000",
    "OPEN_TURNS": "3",
}


@pytest.fixture
def victim(system: System) -> Iterator[System]:
    """The system, the token's owner (`ann`) and another user (`bob`), each with a connection."""
    system.environment = dict(LIMITS)
    system.connect("c1")
    system.connect("bobs", session="bobs", user="bob")
    yield system
    system.send("bobs", "user_message", content="Am I served?")
    assert system.aws.frames("bobs") == [], "another user pays for it"
    assert len(system.aws.invokes) == 1


def refused(system: System, connection: str = "c1") -> bool:
    return any(frame.get("error_code") == "RATE_LIMITED" for frame in system.aws.frames(connection))


def steps_of(system: System, connection: str, session: str = "s1") -> int:
    """Messages in sessions whose turns end at once, so that only their rate counts."""
    accepted = 0
    for n in range(FLOOD):
        system.send(connection, "user_message", content="spend", client_msg_id=f"{session}-{n}")
        accepted += not refused(system, connection)
        system.send_raw(connection, "control", '{"type": "cancel"}')
    return accepted


def test_a_thief_floods_messages(victim: System) -> None:
    assert steps_of(victim, "c1") == 5
    assert len([sk for _, sk in victim.all_keys() if sk.startswith("INPUT#")]) == 5, "the others leave nothing"


def test_a_thief_spreads_messages_over_sessions_and_over_http(victim: System) -> None:
    statuses: Counter[int] = Counter()
    for n in range(4):
        victim.connect(f"w{n}", session=f"wide{n}")
        body = {"session_id": f"wide{n}", "message": "spend"}
        for _ in range(3):
            statuses[victim.http("POST", "/chat/message", body=body)[0]] += 1
    assert statuses == {202: 5, 429: 7}


def test_a_thief_opens_slow_turns_in_many_sessions(victim: System) -> None:
    """Each would hold one of the executions shared by all users."""
    victim.environment["MESSAGES_PER_MINUTE"] = "0"
    invoked = 0
    for n in range(4):
        victim.connect(f"t{n}", session=f"turn{n}")
        victim.send(f"t{n}", "user_message", content="be slow")
        invoked += len(victim.aws.invokes)
    assert invoked == 3


def test_a_thief_opens_connections(victim: System) -> None:
    statuses = Counter(victim.connect(f"x{n}", session=f"new{n}")["statusCode"] for n in range(FLOOD))
    assert statuses == {200: 4, 429: FLOOD - 4}, "one is the owner's"
    assert len([pk for pk, _ in victim.all_keys() if "#new" in pk]) == 4


def test_a_thief_opens_streams_that_each_hold_a_function(victim: System) -> None:
    """A revoked token opens none, and counts against nobody."""
    streams, stolen = victim.load("rest_stream"), bearing(signed())
    path = "/api/v1/chat/stream/s1?last_seq=0&wait=0"
    statuses = Counter(streams.get(path, stolen).status_code for _ in range(FLOOD))
    assert statuses == {200: 4, 429: FLOOD - 4}, "the open connection is one of the five"
    assert streams.get(path, bearing(signed(sub="bob"))).status_code == 404, "not bob's session"
    before = of_user(victim)
    victim.function("sweep")({"kind": "revoke", "user": "ann"})
    assert streams.get(path, stolen).status_code == 401
    assert of_user(victim).keys() - before.keys() == {"REVOKED"}
    assert {sk: of_user(victim)[sk] for sk in before} == before


def test_a_thief_creates_and_forks_sessions(victim: System) -> None:
    metadata = {"note": "x" * 15_000}
    made = Counter(victim.http("POST", "/sessions", body={"metadata": metadata})[0] for _ in range(FLOOD))
    assert made == {201: 6, 429: FLOOD - 6}
    assert victim.http("POST", "/sessions/s1/fork")[0] in (201, 429)
    forks = Counter(victim.http("POST", "/sessions/s1/fork")[0] for _ in range(FLOOD))
    assert forks[429] > 0


def test_a_thief_takes_tickets_for_uploads(victim: System) -> None:
    tickets = 0
    for _ in range(FLOOD):
        victim.send_raw("c1", "control", '{"type": "upload_request", "bytes": 30000}')
        tickets += [frame["type"] for frame in victim.aws.frames("c1")] == ["upload_ticket"]
    assert tickets == 3


def test_a_thief_fills_the_context_and_asks_for_calls(victim: System) -> None:
    taken = 0
    for n in range(FLOOD):
        data = {"path": f"f{n}.md", "content": "x" * 8_000}
        victim.send("c1", "context_update", action="add_file", data=data)
        taken += not refused(victim)
        victim.send("c1", "context_update", action="remove_file", data={"path": f"f{n}.md"})
    assert taken == FLOOD
    body = {"session_id": "s1", "tool_name": "write_file", "arguments": {"path": "a", "content": "x" * 8_000}}
    assert victim.http("POST", "/tools/execute", body=body, query="wait=0")[0] == 429


Invoke = Callable[[dict[str, Any]], Returned]


def invoked_by(invoke: Invoke, victim: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rest_api` invokes `llm_request` by `invoke`, which gets the event and returns Lambda's answer."""
    victim.function("llm_request")
    client = SimpleNamespace(ask=lambda _function, event: invoke(json.loads(json.dumps(event))))
    monkeypatch.setattr("codelab.aws.waiting_lambda_client", lambda: client)


REQUEST = {"context": [{"role": "user", "content": "Name a fruit"}], "schema": {"type": "object"}}


def asked(victim: System, request: dict[str, Any] = REQUEST) -> Counter[int]:
    """The statuses of a flood of Requests."""
    return Counter(victim.http("POST", "/requests", body=request)[0] for _ in range(FLOOD))


def test_a_thief_calls_the_model_over_http(victim: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Request counts against the token's user before `llm_request` runs it."""
    schema = {"type": "object", "properties": {"fruit": {"type": "string"}}, "required": ["fruit"]}
    invoked: list[dict[str, Any]] = []

    def invoke(request: dict[str, Any]) -> Returned:
        invoked.append(request)
        victim.model.answers.append('{"fruit": "apple"}')
        return Returned(victim.function("llm_request")(request), failed=False)

    invoked_by(invoke, victim, monkeypatch)
    assert asked(victim, {**REQUEST, "schema": schema}) == {200: 5, 429: FLOOD - 5}
    assert len(invoked) == 5, "refused before anything is spent"


def test_a_thief_runs_too_many_requests_in_parallel(victim: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow model keeps them running: `rest_api` stops waiting, `llm_request` does not."""
    victim.environment["REQUESTS_PER_MINUTE"] = "0"
    under_way: list[dict[str, Any]] = []

    def invoke(request: dict[str, Any]) -> Returned:
        under_way.append(request)
        raise AwsTimeout("http://lambda: no answer in time")

    invoked_by(invoke, victim, monkeypatch)
    assert asked(victim) == {502: 3, 429: FLOOD - 3}
    assert len(under_way) == 3
    for request in under_way[:2]:
        victim.model.answers.append("{}")
        victim.function("llm_request")(request)
    assert asked(victim) == {502: 2, 429: FLOOD - 2}


def test_a_thief_sends_invalid_requests(victim: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds two executions for a while, although it does not reach the model."""

    def invoke(request: dict[str, Any]) -> Returned:
        return Returned(victim.function("llm_request")(request), failed=False)

    invoked_by(invoke, victim, monkeypatch)
    assert asked(victim, {**REQUEST, "schema": {"type": "nothing"}}) == {422: 5, 429: FLOOD - 5}


def test_a_revoked_thief_takes_tickets_on_an_open_connection(victim: System) -> None:
    victim.connect("old", session="old", issued=1_000)
    victim.send_raw("old", "control", '{"type": "upload_request", "bytes": 10}')
    assert [frame["type"] for frame in victim.aws.frames("old")] == ["upload_ticket"]
    item = {"pk": "USER#ann", "sk": "REVOKED", "revoked_at": 1_000}
    victim.table.put_item(TableName="Table", Item=to_dynamodb(item))
    victim.send_raw("old", "control", '{"type": "upload_request", "bytes": 10}')
    assert [frame["error_code"] for frame in victim.aws.frames("old")] == ["UNAUTHORIZED"]


def test_a_thief_keeps_an_agent_working_all_day(victim: System) -> None:
    """110 tokens per step: the tenth step of a turn that calls tools forever is its last."""
    victim.environment |= {"REQUESTS_PER_MINUTE": "0"}
    victim.connect("c1", extensions=True)
    (call_id,) = victim.ask("c1", "", call("read_file", path="a0.py"))
    steps = 1
    while steps < 30:
        victim.send("c1", "tool_result", call_id=call_id, result={"content": "x"})
        victim.model.says("", call("read_file", path=f"a{steps}.py"))
        victim.run_step()
        if "model" not in victim.aws.calls:
            break
        steps += 1
        (call_id,) = victim.item("REGISTER")["calls"]
    assert steps == 10
    (end,) = [frame for frame in victim.aws.frames("c1") if frame["type"] == "turn_end"]
    assert end["reason"] == "budget"


def test_a_thief_cancels_every_answer_before_its_usage_is_reported(victim: System) -> None:
    """Tokens that the provider did not report are estimated."""
    victim.environment |= {"MESSAGES_PER_MINUTE": "0", "REQUESTS_PER_MINUTE": "0"}

    def speak() -> Iterator[str]:
        yield '{"message": "' + "word " * 50
        victim.function("control")(victim.event("c1", {"type": "cancel"}))
        raise TransportError("broken off")

    victim.function("control")
    accepted = 0
    for _ in range(FLOOD):
        victim.model.answers = [speak() for _ in range(4)]
        victim.send("c1", "user_message", content="spend")
        if refused(victim):
            break
        accepted += 1
        victim.run_step()
    assert 0 < accepted < FLOOD


def test_a_thief_claims_an_unknown_plan(victim: System) -> None:
    victim.connect("rich", session="rich", plan="unlimited")
    assert steps_of(victim, "rich", "rich") == 5
