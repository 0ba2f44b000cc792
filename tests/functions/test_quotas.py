"""Quotas: what they cost, what they refuse, and that a slot is given back whatever ends its turn."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from codelab.aws import dynamodb_client
from codelab.aws.errors import AwsRefused
from codelab.config import USUAL_LIMITS
from codelab.llm.errors import TransportError
from codelab.sessions.dynamodb.tally import DynamoDBTally
from codelab.sessions.dynamodb.values import from_dynamodb
from codelab.sessions.spending import Spending
from codelab.sessions.store import Over

from tests.fakes.aws.recorder import APPEND, INVOKE, POST, READ, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import Context, System
from tests.quotas import USUAL
from tests.waiting import until

MINUTE, DAY = 60_000, 86_400_000
BEGAN = 1_700_000_000_000

pytestmark = pytest.mark.usefixtures("minute")


@pytest.fixture
def limited(system: System) -> System:
    """With the usual limits."""
    system.environment = dict(USUAL)
    return system


@pytest.fixture
def connected(limited: System) -> System:
    """With the usual limits, and a connection."""
    limited.connect("c1")
    return limited


def limit(system: System, **limits: Any) -> None:
    system.environment.update({name.upper(): str(value) for name, value in limits.items()})


def of_user(system: System, user: str = "ann") -> dict[str, dict[str, Any]]:
    """The items of the user's own partition by sort key."""
    items = [from_dynamodb(item) for item in system.table.scan(TableName="Table")["Items"]]
    return {item["sk"]: item for item in items if item["pk"] == f"USER#{user}"}


def used(system: System, user: str = "ann") -> Counter[str]:
    """The counters, the minutes of one added up."""
    found: Counter[str] = Counter()
    for sk, item in of_user(system, user).items():
        for name, value in item.items() if sk.startswith("USAGE#") else ():
            if isinstance(value, int) and name != "ttl":
                found[name.partition("@")[0]] += value
    return found


def slots(system: System) -> list[dict[str, Any]]:
    return [item for sk, item in of_user(system).items() if sk.startswith("SLOT#")]


def refusal(system: System, connection: str = "c1") -> dict[str, Any]:
    (frame,) = system.aws.frames(connection)
    assert (frame["type"], frame["error_code"], frame["retryable"]) == ("error", "RATE_LIMITED", True)
    assert frame["retry_after"] == frame["details"]["retry_after"] > 0
    return frame


# -- what they cost -----------------------------------------------------------------------------------------------


def test_a_message_costs_one_update_more_and_no_read(connected: System) -> None:
    assert connected.aws.calls == [READ_MANY, UPDATE, UPDATE]
    connected.send("c1", "user_message", content="hello")
    assert connected.aws.calls == [READ_MANY, TRANSACTION, INVOKE, UPDATE], "counted when the step was started"
    assert used(connected) == {"connections": 1, "messages": 1}
    (slot,) = slots(connected)
    assert slot["token"] == connected.item("REGISTER")["slot"]


def test_a_request_costs_one_update_when_the_turn_was_told(connected: System) -> None:
    connected.ask("c1", "Hi")
    assert Counter(connected.aws.calls) == {
        READ: 1, READ_MANY: 1, TRANSACTION: 1, "model": 1, APPEND: 1, POST: 4, UPDATE: 1 + 1 + 1,
    }  # fmt: skip
    assert connected.aws.calls[-2:] == [UPDATE, UPDATE], "the report, then the count"
    assert used(connected) == {"connections": 1, "messages": 1, "requests": 1, "tokens": 110}
    assert slots(connected) == [], "the turn has ended"


def test_results_and_decisions_cost_what_they_did(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", call("read_file", path="a.py"))
    connected.send("c1", "tool_result", call_id=call_id, result={"content": "x"})
    assert connected.aws.calls == [READ_MANY, TRANSACTION, INVOKE]
    assert len(slots(connected)) == 1


def test_only_what_has_a_limit_is_counted(system: System) -> None:
    limit(system, tokens_per_day=1_000)
    system.connect("c1")
    system.ask("c1", "Hi")
    assert used(system) == {"tokens": 110}
    assert UPDATE in system.aws.calls
    assert slots(system) == []


# -- what they refuse ---------------------------------------------------------------------------------------------


def test_a_message_too_many_writes_nothing_and_says_when_to_come_back(connected: System) -> None:
    limit(connected, messages_per_minute=2, open_turns=0)
    for n in range(2):
        connected.send("c1", "user_message", content="hello", client_msg_id=f"m{n}")
    before = connected.table.scan(TableName="Table")["Items"]
    connected.send("c1", "user_message", content="hello", client_msg_id="m2")
    assert connected.aws.calls == [READ_MANY, READ_MANY, POST], "the second says whether it was accepted before"
    frame = refusal(connected)
    assert frame["details"]["quota"] == "messages_per_minute"
    assert (frame["details"]["limit"], frame["details"]["client_msg_id"]) == (2, "m2")
    assert 0 < frame["retry_after"] <= 60
    assert connected.table.scan(TableName="Table")["Items"] == before
    connected.function("user_message").clock_ms = MINUTE
    connected.send("c1", "user_message", content="hello", client_msg_id="m2")
    assert connected.aws.frames("c1") == []


@pytest.mark.parametrize("kind", ["withdraw", "cancel"])
def test_taking_back_what_has_not_arrived_counts_as_the_message(limited: System, kind: str) -> None:
    limit(limited, messages_per_minute=2)
    limited.connect("c1", extensions=True)
    for n in range(3):
        limited.send_raw("c1", "control", json.dumps({"type": kind, "client_msg_id": f"m{n}"}))
    assert refusal(limited)["details"]["limit"] == 2
    assert used(limited)["messages"] == 2
    assert sum(sk.startswith("INPUT#") for _, sk in limited.all_keys()) == 2


@pytest.mark.parametrize("limits", [{"messages_per_minute": 1}, {"open_turns": 1}], ids=str)
def test_who_sends_again_what_was_accepted_is_not_refused(connected: System, limits: dict[str, int]) -> None:
    """The answer was lost, or the client came back: for it the message would never have been accepted."""
    limit(connected, **limits)
    connected.send("c1", "user_message", content="hello", client_msg_id="m1")
    connected.send("c1", "user_message", content="hello", client_msg_id="m1")
    assert connected.aws.frames("c1") == []
    connected.model.says("Hi")
    connected.run_step()
    connected.send("c1", "user_message", content="hello", client_msg_id="m1")
    assert connected.aws.frames("c1") == []
    assert [role for role, _ in connected.history()] == ["user", "assistant"]
    assert used(connected)["messages"] == 1


def test_an_open_turn_too_many_is_refused_and_the_end_of_one_makes_room(limited: System) -> None:
    limit(limited, open_turns=2)
    for n in (1, 2, 3):
        limited.connect(f"c{n}", session=f"s{n}")
    limited.send("c1", "user_message", content="hello")
    limited.send("c2", "user_message", content="hello")
    assert len(slots(limited)) == 2
    limited.send("c3", "user_message", content="hello")
    assert refusal(limited, "c3")["details"]["quota"] == "open_turns"
    limited.send_raw("c1", "control", '{"type": "cancel"}')
    assert {slot["session_id"] for slot in slots(limited)} == {"s2"}
    limited.send("c3", "user_message", content="hello")
    assert {slot["session_id"] for slot in slots(limited)} == {"s2", "s3"}


def test_messages_in_line_keep_the_slot_for_the_next_turn(connected: System) -> None:
    limit(connected, open_turns=1)
    connected.model.says("One")
    connected.send("c1", "user_message", content="first")
    (first,) = slots(connected)
    connected.send("c1", "user_message", content="second")
    assert [frame["type"] for frame in connected.aws.frames("c1")] == ["agent_status"]
    connected.model.says("Two")
    connected.run_step()  # it goes on with the second in the same invocation
    assert connected.history()[-1] == ("assistant", "Two")
    assert first["token"].startswith("0.")
    assert slots(connected) == []


def test_a_deleted_session_gives_its_slot_back_and_a_fork_takes_none(connected: System) -> None:
    limit(connected, open_turns=5)
    connected.send("c1", "user_message", content="hello")
    status, made = connected.http("POST", "/sessions/s1/fork")
    assert status == 201
    assert [slot["session_id"] for slot in slots(connected)] == ["s1"]
    assert "slot" not in connected.item("REGISTER", made["session_id"])
    assert connected.http("DELETE", "/sessions/s1")[0] == 200
    assert slots(connected) == []


def test_a_slot_that_ran_out_and_is_anothers_is_left_alone(connected: System) -> None:
    """And the ending that wanted to give it back succeeds: nothing is stuck because of it."""
    limit(connected, open_turns=1)
    connected.connect("c2", session="s2")
    connected.send("c1", "user_message", content="hello")
    later = 5_000_000
    connected.function("user_message").clock_ms = later
    connected.send("c2", "user_message", content="hello")
    (other,) = slots(connected)
    assert other["session_id"] == "s2"
    connected.function("control").clock_ms = later
    connected.send_raw("c1", "control", '{"type": "cancel"}')
    assert connected.aws.calls.count(TRANSACTION) == 2
    assert connected.item("REGISTER")["phase"] == "idle"
    assert slots(connected) == [other]


def test_a_slot_that_was_taken_meanwhile_is_not_taken_twice(connected: System) -> None:
    limit(connected, open_turns=2)
    connected.connect("c2", session="s2")
    other = connected.load("user_message")
    event = connected.event("c2", {"type": "user_message", "content": "faster"})
    connected.function("user_message")
    connected.aws.once(TRANSACTION, lambda: other(event) and None)
    connected.send("c1", "user_message", content="slower")
    assert {slot["session_id"] for slot in slots(connected)} == {"s1", "s2"}
    assert connected.aws.frames("c1") == []


def test_connections_over_the_limit_are_answered_429(limited: System) -> None:
    limit(limited, connections_per_minute=2)
    assert limited.connect("c1") == {"statusCode": 200}
    assert limited.connect("c2", session="s2") == {"statusCode": 200}
    answer = limited.connect("c3", session="s3")
    assert answer["statusCode"] == 429
    assert 0 < int(answer["headers"]["Retry-After"]) <= 60
    assert limited.aws.calls == [READ_MANY]
    assert "SESSION#ann#s3" not in {pk for pk, _ in limited.all_keys()}
    assert limited.connect("c4", session="s1", user="bob") == {"statusCode": 200}


def test_over_http_it_is_429_with_retry_after(connected: System) -> None:
    limit(connected, messages_per_minute=1, stored_bytes_per_day=10_000)
    message = {"session_id": "s1", "message": "hello"}
    assert connected.http("POST", "/chat/message", body=message)[0] == 202
    answer = connected.answer("POST", "/chat/message", body=message)
    assert answer["statusCode"] == 429
    assert 0 < int(answer["headers"]["retry-after"]) <= 60
    assert json.loads(answer["body"])["error"]["details"]["quota"] == "messages_per_minute"
    large = {"metadata": {"note": "x" * 8_000}}
    assert connected.http("POST", "/sessions", body=large)[0] == 201
    refused = connected.answer("POST", "/sessions", body=large)
    assert refused["statusCode"] == 429
    assert int(refused["headers"]["retry-after"]) <= 86_400


def test_what_is_stored_counts_in_bytes(connected: System) -> None:
    limit(connected, stored_bytes_per_day=10_000)
    data = {"path": "a.py", "content": "x" * 4_000}
    connected.send("c1", "context_update", action="add_file", data=data)
    assert used(connected)["stored_bytes"] == 4_000
    connected.send_raw("c1", "control", '{"type": "upload_request", "bytes": 5000}')
    assert connected.aws.frames("c1")[0]["type"] == "upload_ticket"
    assert connected.aws.calls == [UPDATE, POST], "counted and looked at in one call"
    assert used(connected)["stored_bytes"] == 9_000
    connected.send_raw("c1", "control", '{"type": "upload_request", "bytes": 5000}')
    assert refusal(connected)["details"]["quota"] == "stored_bytes_per_day"
    connected.send("c1", "context_update", action="add_file", data=data)
    refusal(connected)
    call_ = {"session_id": "s1", "tool_name": "write_file", "arguments": {"path": "a", "content": "x" * 900}}
    assert connected.http("POST", "/tools/execute", body=call_, query="wait=0")[0] == 202
    assert 9_900 < used(connected)["stored_bytes"] <= 10_000
    assert connected.http("POST", "/tools/execute", body=call_, query="wait=0")[0] == 429


def test_a_fork_counts_what_it_copies_before_it_does(connected: System) -> None:
    limit(connected, stored_bytes_per_day=15_000)
    data = {"path": "a.py", "content": "x" * 4_000}
    connected.send("c1", "context_update", action="add_file", data=data)
    connected.ask("c1", "Hi")
    assert connected.http("POST", "/sessions/s1/fork", Context(1_000))[0] == 413
    assert 8_000 < used(connected)["stored_bytes"] < 9_500, "the file, and the copy that did not finish"
    assert connected.http("POST", "/sessions/s1/fork")[0] == 201
    before = used(connected)["stored_bytes"]
    assert connected.http("POST", "/sessions/s1/fork")[0] == 429
    assert "BatchWriteItem" not in connected.aws.calls
    assert used(connected)["stored_bytes"] - before < 100, "no more than its register"


# -- the tokens of a day --------------------------------------------------------------------------------------------


def test_a_turn_ends_between_two_steps_when_the_days_tokens_are_used_up(limited: System) -> None:
    limit(limited, tokens_per_day=100)
    limited.connect("c1", extensions=True)
    (call_id,) = limited.ask("c1", "Reading", call("read_file", path="a.py"))
    limited.send("c1", "tool_result", call_id=call_id, result={"content": "x"})
    limited.run_step()
    assert "model" not in limited.aws.calls, "nothing was asked"
    frames = limited.aws.frames("c1")
    (error,) = [frame for frame in frames if frame["type"] == "error"]
    assert (error["error_code"], error["details"]["reason"], error["retryable"]) == ("RATE_LIMITED", "budget", True)
    assert error["retry_after"] <= 86_400
    (end,) = [frame for frame in frames if frame["type"] == "turn_end"]
    assert end["reason"] == "budget"
    assert [frame["status"] for frame in frames if frame["type"] == "agent_status"][-2:] == ["error", "idle"]
    assert slots(limited) == []
    limited.send("c1", "user_message", content="more")
    assert limited.aws.frames("c1")[0]["details"]["quota"] == "tokens_per_day"
    for folder in ("user_message", "llm_request"):
        limited.function(folder).clock_ms = 86_400_000
    limited.ask("c1", "Here I am again")
    assert limited.history()[-1] == ("assistant", "Here I am again")


def test_tokens_count_also_when_the_session_is_deleted_while_the_model_speaks(connected: System) -> None:

    def speak() -> Any:
        yield '{"message": "Hel'
        connected.function("rest_api")(events.http("DELETE", "/api/v1/sessions/s1"))
        yield 'lo", "calls": []}'

    connected.function("rest_api")
    connected.model.answers.append(speak())
    connected.say("c1")
    assert (used(connected)["tokens"], used(connected)["requests"]) == (110, 1)


def test_a_bare_request_counts_for_whom_it_names(limited: System) -> None:
    limited.model.answers.append('{"fruit": "apple"}')
    schema = {"type": "object", "properties": {"fruit": {"type": "string"}}, "required": ["fruit"]}
    event = {"kind": "request", "context": [{"role": "user", "content": "Name a fruit"}], "schema": schema}
    caller = {"user": "ann", "plan": "", "at": BEGAN}
    answer = limited.function("llm_request")({**event, "caller": caller})
    assert answer["solution"] == {"fruit": "apple"}
    assert limited.aws.calls.count(UPDATE) == 1
    (counters,) = of_user(limited).values()
    assert (counters["tokens"], counters[f"asking@{BEGAN // MINUTE}"]) == (110, -1), "of the minute in which it began"
    limited.model.answers.append('{"fruit": "pear"}')
    limited.function("llm_request")(event)
    assert used(limited) == {"tokens": 110, "asking": -1}, "who may invoke the function is no user"
    refused = limited.function("llm_request")({**event, "schema": {"type": "nothing"}, "caller": caller})
    assert refused["errorType"] == "InvalidRequest", "told, not raised: the function has not failed"
    assert used(limited) == {"tokens": 110, "asking": -2}, "nothing was asked, and it is over"


def ask_over_http(system: System, status: int) -> dict[str, Any]:
    """A Request whose invoke is answered with this status."""

    class Client:
        def ask(self, *_: Any) -> None:
            system.aws.note(INVOKE)
            raise AwsRefused(INVOKE, "refused", status=status)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codelab.aws.waiting_lambda_client", Client)
        return system.answer("POST", "/requests", body={"context": [{"role": "user", "content": "?"}], "schema": {}})


def test_a_request_over_http_is_counted_before_it_is_made(limited: System) -> None:
    """In one call. Who took it tells its end in the other one; what was not taken has ended."""
    assert ask_over_http(limited, 429)["statusCode"] == 429
    assert limited.aws.calls == [READ, UPDATE, INVOKE, UPDATE], "the read is of the token's revocation"
    assert used(limited) == {"requests": 1, "asking": 0}
    ask_over_http(limited, 500)
    assert limited.aws.calls == [READ, UPDATE, INVOKE], "it may have been taken"
    assert used(limited) == {"requests": 2, "asking": 1}


@pytest.mark.parametrize(
    ("limits", "quota", "retry_after"),
    [
        ({"requests_per_minute": 2}, "requests_per_minute", 60),
        ({"open_turns": 2}, "open_turns", 5),
        ({"tokens_per_day": 100}, "tokens_per_day", 86_400),
    ],
)
def test_a_request_over_http_too_many_is_not_made(
    limited: System, limits: dict[str, int], quota: str, retry_after: int
) -> None:
    limit(limited, **limits)
    for _ in range(2):
        assert ask_over_http(limited, 500)["statusCode"] != 429
    with limited.aws.paused():
        DynamoDBTally(dynamodb_client(), "Table").count("ann", Spending(tokens=100), time.time_ns() // 1_000_000, "w1")
    answer = ask_over_http(limited, 500)
    assert answer["statusCode"] == 429
    assert limited.aws.calls == [READ, UPDATE]
    assert 0 < int(answer["headers"]["retry-after"]) <= retry_after
    assert json.loads(answer["body"])["error"]["details"]["quota"] == quota
    assert used(limited)["requests"] == 2


def test_a_request_over_http_costs_nothing_without_quotas(system: System) -> None:
    assert ask_over_http(system, 429)["statusCode"] == 429
    assert system.aws.calls == [READ, INVOKE]


def test_a_choice_of_an_agent_that_is_broken_off_is_estimated(limited: System) -> None:
    limit(limited, default_agent="orchestrator")
    limited.connect("c1")

    def speak() -> Iterator[str]:
        until(lambda: limited.item("REGISTER")["phase"] == "running")
        limited.function("control")(limited.event("c1", {"type": "cancel"}))
        raise TransportError("broken off")
        yield ""

    limited.function("control")
    limited.model.answers += [speak(), speak()]
    limited.say("c1")
    assert used(limited)["tokens"] > 100


# -- plans, and what is told ---------------------------------------------------------------------------------------


def test_a_plan_has_limits_of_its_own_and_what_it_leaves_out_is_everybodys(limited: System) -> None:
    limit(limited, messages_per_minute=1, open_turns=7, plan_limits='{"team": {"messages_per_minute": 2}}')
    limited.connect("c1", plan="team")
    limited.connect("c2", session="s2", user="bob", plan="no such plan")
    for connection in ("c1", "c1", "c2"):
        limited.send(connection, "user_message", content="hello")
        assert "error" not in [frame["type"] for frame in limited.aws.frames(connection)]
    assert limited.item("REGISTER")["plan"] == "team"
    for connection in ("c1", "c2"):
        limited.send(connection, "user_message", content="hello")
        refusal(limited, connection)
    status, shown = limited.http("GET", "/usage", plan="team")
    assert (status, shown["plan"]) == (200, "team")
    assert shown["quotas"]["messages_per_minute"]["limit"] == 2
    assert shown["quotas"]["open_turns"] == {"used": 1, "limit": 7, "resets_at": None}


def test_the_session_and_the_api_tell_what_is_used(connected: System) -> None:
    connected.ask("c1", "Hi")
    connected.send("c1", "user_message", content="and now?")
    connected.send_raw("c1", "control", '{"type": "hello"}')
    assert connected.aws.calls[:2] == [READ_MANY, UPDATE]
    (info,) = [frame for frame in connected.aws.frames("c1") if frame["type"] == "session_info"]
    assert {name: quota["limit"] for name, quota in info["quotas"].items()} == asdict(USUAL_LIMITS)
    used_ = {name: quota["used"] for name, quota in info["quotas"].items()}
    assert used_ == {
        "messages_per_minute": 2, "requests_per_minute": 1, "connections_per_minute": 1, "tokens_per_day": 110,
        "stored_bytes_per_day": 0, "open_turns": 1,
    }  # fmt: skip
    assert "resets_at" not in info["quotas"]["open_turns"]
    _, shown = connected.http("GET", "/usage")
    assert connected.aws.calls == [READ, READ_MANY]
    assert {name: quota["used"] for name, quota in shown["quotas"].items()} == used_
    assert shown["quotas"]["tokens_per_day"]["resets_at"] % 86_400_000 == 0


def test_without_quotas_nothing_is_told_and_nothing_read(system: System) -> None:
    system.connect("c1")
    system.send_raw("c1", "control", '{"type": "hello"}')
    (info,) = [frame for frame in system.aws.frames("c1") if frame["type"] == "session_info"]
    assert "quotas" not in info
    assert system.http("GET", "/usage") == (200, {"plan": "", "quotas": {}})
    assert system.aws.calls == [READ], "whether the token is revoked"
    assert of_user(system) == {}


# -- the counters ---------------------------------------------------------------------------------------------------


def test_a_repeated_call_does_not_count_twice(limited: System) -> None:
    tally, now = DynamoDBTally(dynamodb_client(), "Table"), BEGAN
    with limited.aws.paused():
        for _ in range(2):
            tally.count("ann", Spending(messages=1, tokens=5), now, "w1", limits={"tokens": 5})
        tally.count("ann", Spending(messages=1), now, "w2")
        with pytest.raises(Over):
            tally.count("ann", Spending(messages=1, tokens=1), now, "w3", limits={"tokens": 5})
    assert used(limited) == {"messages": 2, "tokens": 5}


def test_minutes_that_are_over_are_removed_and_days_expire(connected: System) -> None:
    left = DAY - int(time.time() * 1000) % DAY
    first = left if left < 10 * MINUTE else 0  # all of it on one day
    for minute in range(5):
        for folder in ("user_message", "llm_request", "control"):
            connected.function(folder).clock_ms = first + minute * MINUTE
        connected.ask("c1", "Hi")
    *_, usage = (item for sk, item in sorted(of_user(connected).items()) if sk.startswith("USAGE#"))
    minutes = {name.partition("@")[2] for name in usage if "@" in name}
    assert len(minutes) <= 2, "the last one and the one before it"
    assert usage["ttl"] > connected.item("REGISTER")["last_activity"] // 1000
    assert usage["tokens"] == 5 * 110


def test_who_never_reads_the_counters_leaves_few_minutes_in_them(limited: System) -> None:
    tally = DynamoDBTally(dynamodb_client(), "Table")
    with limited.aws.paused():
        for minute in range(40):
            now = BEGAN + minute * MINUTE
            tally.count("ann", Spending(requests=1, asking=1), now, f"w{minute}", limits={"requests": 60})
    (usage,) = [item for sk, item in of_user(limited).items() if sk.startswith("USAGE#")]
    assert sum("@" in name for name in usage) <= 2 * 2, "the last minute and the one before it"


def test_who_waits_for_the_answer_does_not_wait_for_the_count(connected: System) -> None:
    begun, found = threading.Event(), list[bool]()
    connected.aws.once(UPDATE, begun.set)
    connected.aws.once(INVOKE, lambda: found.append(begun.wait(10)))
    assert connected.http("POST", "/chat/message", body={"session_id": "s1", "message": "hello"})[0] == 202
    assert found == [True], "it was begun while the step was being invoked"
    assert used(connected)["messages"] == 1


def test_a_count_that_fails_is_told_to_nobody(connected: System) -> None:
    connected.aws.refuse(UPDATE, 400, "ProvisionedThroughputExceededException")
    connected.send("c1", "user_message", content="hello")
    assert connected.aws.frames("c1") == []
    assert connected.aws.calls.count(INVOKE) == 1
    assert connected.history() == [("user", "hello")]
