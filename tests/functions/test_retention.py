"""Sessions that nobody has used for `SESSION_RETENTION_DAYS` are erased; all others stay, and cost nothing more."""

import itertools
from typing import Any

import boto3
import pytest
from codelab.engine import retention, sweeper
from codelab.engine.deleter import Deleter
from codelab.sessions.dynamodb.values import to_dynamodb

from tests.fakes.aws.recorder import QUERY, READ, UPDATE
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import Context, System
from tests.functions.test_payloads import upload
from tests.functions.test_sweep import LOOKING, Died, die

#: The look at the index, the erasure of items, and that of the register.
SCAN, ERASE, LAST = "Scan", "BatchWriteItem", "DeleteItem"
DAY_S = 86_400
OLD_S = 31 * DAY_S


@pytest.fixture
def kept_a_month(system: System, monkeypatch: pytest.MonkeyPatch) -> System:
    """Sessions are erased after thirty days, and each sweep looks at all of them."""
    monkeypatch.setattr(retention, "_SEGMENTS", 1)
    system.environment["SESSION_RETENTION_DAYS"] = "30"
    return system


def used(system: System, session: str = "s1", **caller: Any) -> None:
    """A session with a message and a large object, that nobody has open any more."""
    system.connect(session, session, **caller)
    system.send(session, "user_message", content="hello")
    system.model.says("Hi")
    system.run_step()
    upload(system, session, "tool_result", call_id="x", result={"content": "x = 1\n" * 30_000})
    system.disconnect(session)


def sessions_of(system: System) -> set[str]:
    return {pk.split("#")[2] for pk, _ in system.all_keys() if pk.startswith("SESSION#")}


def objects_of(system: System) -> list[str]:
    with system.aws.paused():
        listed = boto3.client("s3", region_name="eu-central-1").list_objects_v2(Bucket="payloads")
    return [found["Key"] for found in listed.get("Contents", [])]


def test_an_old_session_is_erased_with_all_that_is_stored_of_it(kept_a_month: System) -> None:
    used(kept_a_month)
    kept_a_month.sweep(later_s=29 * DAY_S)
    assert sessions_of(kept_a_month) == {"s1"}
    kept_a_month.sweep(later_s=OLD_S)
    assert [call for call in kept_a_month.aws.calls if call != QUERY] == [SCAN, READ, UPDATE]
    assert kept_a_month.http("GET", "/chat/history/s1")[0] == 404, "hidden at once"
    kept_a_month.sweep(later_s=OLD_S + 60)
    assert sessions_of(kept_a_month) == set()
    assert objects_of(kept_a_month) == []


def test_by_default_no_session_is_erased_and_nothing_looks_for_old_ones(system: System) -> None:
    used(system)
    system.sweep(later_s=4_000 * DAY_S)
    assert system.aws.calls == LOOKING
    assert sessions_of(system) == {"s1"}


def test_a_session_that_is_used_again_is_kept_from_then_on(kept_a_month: System) -> None:
    used(kept_a_month)
    for folder in ("connect", "user_message", "disconnect"):
        kept_a_month.function(folder).clock_ms = 1000 * 20 * DAY_S
    kept_a_month.connect("c2")
    kept_a_month.send("c2", "user_message", content="hello again")
    kept_a_month.function("llm_request").clock_ms = 1000 * 20 * DAY_S
    kept_a_month.model.says("Hi again")
    kept_a_month.run_step()
    kept_a_month.disconnect("c2")
    kept_a_month.sweep(later_s=OLD_S)
    assert sessions_of(kept_a_month) == {"s1"}


def test_a_session_that_somebody_has_open_is_kept(kept_a_month: System) -> None:
    kept_a_month.connect("c1")
    kept_a_month.ask("c1", "Hi")
    kept_a_month.sweep(later_s=OLD_S)
    assert sessions_of(kept_a_month) == {"s1"}


def test_a_session_that_waits_for_a_human_is_kept(kept_a_month: System) -> None:
    kept_a_month.environment["APPROVAL_TIMEOUT_S"] = str(60 * DAY_S)
    kept_a_month.connect("c1")
    kept_a_month.ask("c1", "", call("run_command", command="rm -rf ."))
    kept_a_month.disconnect("c1")
    kept_a_month.sweep(later_s=OLD_S)
    kept_a_month.sweep(later_s=OLD_S + 60)
    assert sessions_of(kept_a_month) == {"s1"}


def test_a_turn_that_was_open_for_a_month_is_activity_when_it_ends(kept_a_month: System) -> None:
    """A human decides after a month, the answer comes, the client goes: the session was in use until now."""
    kept_a_month.environment["APPROVAL_TIMEOUT_S"] = kept_a_month.environment["TOOL_TIMEOUT_S"] = str(60 * DAY_S)
    kept_a_month.connect("c1")
    (call_id,) = kept_a_month.ask("c1", "", call("run_command", command="make"))
    for folder in ("hitl_decision", "tool_result", "llm_request", "disconnect"):
        kept_a_month.function(folder).clock_ms = 1000 * OLD_S
    kept_a_month.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    kept_a_month.send("c1", "tool_result", call_id=call_id, result={"exit_code": 0, "stdout": ""})
    kept_a_month.model.says("Made")
    kept_a_month.run_step()
    kept_a_month.disconnect("c1")
    for later_s in (OLD_S + 60, OLD_S + 120):
        kept_a_month.sweep(later_s=later_s)
    assert sessions_of(kept_a_month) == {"s1"}


def test_a_register_that_names_another_user_erases_nothing_of_theirs(kept_a_month: System) -> None:
    """The partition says whose a session is, whatever somebody has written into its register."""
    used(kept_a_month, user="bob")
    with_bob = {**kept_a_month.item("REGISTER", user="bob"), "pk": "SESSION#ann#s1", "last_activity": 1}
    kept_a_month.table.put_item(TableName="Table", Item=to_dynamodb(with_bob))
    for later_s in (60, 120):
        kept_a_month.sweep(later_s=later_s)
    assert "erase_at" not in kept_a_month.item("REGISTER", user="bob")
    assert any(pk == "SESSION#bob#s1" and sk.startswith("MESSAGE#") for pk, sk in kept_a_month.all_keys())


def test_the_register_decides_not_the_index_which_may_be_behind(kept_a_month: System) -> None:
    """Between the look at the index and the decision, a client connects."""
    used(kept_a_month)
    kept_a_month.aws.once(READ, lambda: kept_a_month.connect("c2"))
    kept_a_month.sweep(later_s=OLD_S)
    assert kept_a_month.connections() == {"c2"}
    kept_a_month.sweep(later_s=OLD_S + 60)
    assert sessions_of(kept_a_month) == {"s1"}


def test_a_session_that_was_deleted_and_is_still_in_the_index_disturbs_nobody(kept_a_month: System) -> None:
    for session in ("s1", "s2"):
        used(kept_a_month, session)
    kept_a_month.aws.once(READ, lambda: kept_a_month.http("DELETE", "/sessions/s1") and None)
    for later_s in (OLD_S, OLD_S + 60):
        kept_a_month.sweep(later_s=later_s)
    assert sessions_of(kept_a_month) == set()


@pytest.mark.usefixtures("minute")
def test_every_session_is_in_the_part_of_one_minute(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """With four parts, four sweeps look at all of them once."""
    monkeypatch.setattr(retention, "_SEGMENTS", 4)
    system.environment["SESSION_RETENTION_DAYS"] = "30"
    users = [f"user{n}" for n in range(12)]
    for n, user in enumerate(users):
        used(system, f"s{n}", user=user)
    hidden: list[int] = []
    for minute in range(4):
        system.sweep(later_s=OLD_S + 60 * minute)
        hidden.append(system.aws.calls.count(UPDATE))
    assert max(hidden) < len(users), "one sweep does not look at all"
    system.sweep(later_s=OLD_S + 300)
    assert sessions_of(system) == set()


@pytest.mark.usefixtures("minute")
def test_a_sweep_reads_one_part_of_the_index_even_if_a_minute_passes(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The minute is over when the sweep has repaired what was due, and again with each page of the index."""
    system.environment["SESSION_RETENTION_DAYS"] = "30"
    system.sweep()
    store, sweep = system.function("sweep").engine.store, system.function("sweep")
    parts: list[tuple[int, tuple[int, int]]] = []

    def page(before: int, segment: tuple[int, int], position: Any = None) -> tuple[list[str], Any]:
        parts.append((before, segment))
        sweep.clock_ms += 60_000
        return [], ({"pk": {"S": "next"}} if len(parts) < 3 else None)

    def due(*_: Any) -> tuple[list[tuple[str, int]], None]:
        sweep.clock_ms += 60_000
        return [], None

    monkeypatch.setattr(store, "unused", page)
    monkeypatch.setattr(store, "due", due)
    began_at = sweep.engine.clock()
    sweep(events.schedule())
    ((before, part),) = set(parts)
    assert part == (began_at // 60_000 % 1_440, 1_440)
    assert before // 60_000 == began_at // 60_000 - 30 * 1_440


def test_no_more_is_hidden_than_can_be_deleted(kept_a_month: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is hidden and cannot be deleted stays due; it must not become more with each minute."""

    def fail(*_: Any) -> None:
        raise PermissionError("no access to the bucket")

    monkeypatch.setattr(sweeper, "_MOST_HIDDEN", 2)
    monkeypatch.setattr(Deleter, "delete", fail)
    for n in range(5):
        used(kept_a_month, f"s{n}")
    for n in range(3):
        kept_a_month.sweep(later_s=OLD_S + 60 * n)
        assert sum("erase_at" in kept_a_month.item("REGISTER", f"s{n}") for n in range(5)) == 2


def test_a_sweep_hides_no_session_when_its_time_is_over(kept_a_month: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index may give hundreds, and each is a read and a write."""
    for n in range(3):
        used(kept_a_month, f"s{n}")
    sweep, context = kept_a_month.function("sweep"), Context()
    sweep.clock_ms = 1000 * OLD_S
    monkeypatch.setattr(
        context, "get_remaining_time_in_millis", lambda: 4_000 if SCAN in kept_a_month.aws.calls else 60_000
    )
    kept_a_month.aws.reset()
    sweep(events.schedule(), context)
    assert UPDATE not in kept_a_month.aws.calls
    assert SCAN in kept_a_month.aws.calls


def test_a_sweep_out_of_time_looks_at_no_old_sessions(kept_a_month: System) -> None:
    used(kept_a_month)
    sweep = kept_a_month.function("sweep")
    sweep.clock_ms = 1000 * OLD_S
    kept_a_month.aws.reset()
    sweep(events.schedule(), Context(remaining_ms=1_000))
    assert kept_a_month.aws.calls == []


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_sweep_that_dies_at_any_of_its_calls_leaves_no_rest_unseen(kept_a_month: System, whole: bool) -> None:
    """whole: at each call; else at the first of each kind."""
    later_s = itertools.count(OLD_S, 60)
    used(kept_a_month)
    calls = [*_swept(kept_a_month, next(later_s)), *_swept(kept_a_month, next(later_s))]
    assert {SCAN, READ, UPDATE, ERASE, "DeleteObject", LAST} <= set(calls)
    assert sessions_of(kept_a_month) == set()
    for index, operation in enumerate(calls):
        if operation == QUERY == calls[index - 1]:
            continue  # another shard of the due index
        if not whole and operation in calls[:index]:
            continue
        used(kept_a_month)
        _age(kept_a_month)
        kept_a_month.aws.once(operation, die, nth=calls[: index + 1].count(operation))
        deaths = 0
        for _ in range(2):
            try:
                kept_a_month.sweep(later_s=next(later_s))
            except Died:
                deaths += 1
            _whole_or_due(kept_a_month)
        assert deaths == 1, (index, operation)
        kept_a_month.sweep(later_s=next(later_s))
        kept_a_month.sweep(later_s=next(later_s) + 60)  # after the lease of the process that died
        next(later_s)
        assert sessions_of(kept_a_month) == set(), (index, operation)
        assert objects_of(kept_a_month) == [], (index, operation)


def _swept(system: System, later_s: float) -> list[str]:
    system.sweep(later_s=later_s)
    return list(system.aws.calls)


def _age(system: System) -> None:
    """The session was last used at the beginning of time."""
    system.table.update_item(
        TableName="Table",
        Key=to_dynamodb({"pk": "SESSION#ann#s1", "sk": "REGISTER"}),
        UpdateExpression="SET last_activity = :long_ago",
        ExpressionAttributeValues=to_dynamodb({":long_ago": 1}),
    )


def _whole_or_due(system: System) -> None:
    """A session of which something is gone is due, so that the next sweep sees it."""
    keys = [sk for pk, sk in system.all_keys() if pk.startswith("SESSION#")]
    if keys and not (any(sk.startswith("MESSAGE#") for sk in keys) and objects_of(system)):
        assert "due_at" in system.item("REGISTER")


@pytest.mark.parametrize("operation", [SCAN, READ, UPDATE])
def test_a_refused_call_fails_no_sweep_and_is_made_again(kept_a_month: System, operation: str) -> None:
    used(kept_a_month)
    kept_a_month.aws.refuse(operation, 400, "AccessDeniedException")
    for n in range(3):
        kept_a_month.sweep(later_s=OLD_S + 60 * n)
    assert sessions_of(kept_a_month) == set()


def test_two_sweeps_at_once_erase_a_session_once(kept_a_month: System) -> None:
    """While one decides, another has hidden the session and deleted it."""
    used(kept_a_month)

    def another() -> None:
        for later_s in (OLD_S, OLD_S + 60):
            kept_a_month.sweep(later_s=later_s)

    kept_a_month.aws.once(UPDATE, another)
    kept_a_month.sweep(later_s=OLD_S)
    kept_a_month.sweep(later_s=OLD_S + 120)
    assert sessions_of(kept_a_month) == set()
