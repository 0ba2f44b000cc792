"""sweep: whatever is due is repaired; nothing else is touched."""

import json
from typing import Any

import pytest
from codelab.engine.deleter import Deleter
from codelab.sessions.dynamodb.values import to_dynamodb
from codelab.sessions.keys import DUE_SHARDS, due_shard, partition
from codelab.sessions.register import Register
from codelab.sessions.transition import Transition
from codelab.turns import sweep
from codelab.turns.draft import Draft

from tests.fakes.aws.recorder import INVOKE, POST, QUERY, READ, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import Context, System

#: One for each shard of the due index.
LOOKING = [QUERY] * 8


class Died(BaseException):
    """The process is gone in the middle of a call."""


def die() -> None:
    raise Died


def test_an_idle_session_costs_the_sweep_nothing(connected: System) -> None:
    connected.ask("c1", "Hi")
    connected.sweep(later_s=100_000)
    assert connected.aws.calls == LOOKING


def test_what_is_not_yet_due_is_left_alone(connected: System) -> None:
    connected.send("c1", "user_message", content="hello")
    before = connected.item("REGISTER")
    connected.sweep(later_s=5)
    assert connected.aws.calls == LOOKING
    assert connected.item("REGISTER") == before


def test_a_step_that_nobody_acquired_is_invoked_again_as_the_same_attempt(connected: System) -> None:
    connected.send("c1", "user_message", content="hello")
    lost = list(connected.aws.invokes)
    connected.sweep(later_s=11)
    seen = [call for call in connected.aws.calls if call != QUERY]
    assert seen == [READ, TRANSACTION, INVOKE, READ_MANY, POST, UPDATE]
    assert connected.aws.invokes == lost
    connected.sweep(later_s=12)
    assert connected.aws.calls == LOOKING, "it is given its time again"


@pytest.fixture
def unposted(connected: System) -> System:
    """A call was approved, and the process that committed it died with the first frame that it posted."""
    (call_id,) = connected.ask("c1", "", call("write_file", path="a.py", content="1"))
    connected.aws.once(POST, die)
    with pytest.raises(Died):
        connected.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    return connected


def test_frames_that_were_logged_and_never_posted_are_posted(unposted: System) -> None:
    assert unposted.aws.posts == []
    unposted.sweep(later_s=11)
    assert [frame["type"] for frame in unposted.aws.frames("c1")] == ["tool_call", "agent_status"]
    assert unposted.aws.frames("c1")[0]["requires_approval"] is False
    assert [call for call in unposted.aws.calls if call != QUERY] == [READ, TRANSACTION, READ_MANY, POST, POST, UPDATE]
    unposted.sweep(later_s=30)
    assert unposted.aws.posts == [], "once is enough"


def test_frames_that_cannot_be_read_are_left_to_the_next_sweep(unposted: System) -> None:
    unposted.aws.refuse(READ_MANY, 400, "AccessDeniedException")
    unposted.sweep(later_s=11)
    assert unposted.aws.posts == []
    unposted.sweep(later_s=30)
    assert [frame["type"] for frame in unposted.aws.frames("c1")] == ["tool_call", "agent_status"]


def test_a_tool_that_does_not_answer_in_its_time_has_failed_and_the_turn_goes_on(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", call("read_file", path="a.py"))
    connected.sweep(later_s=121)
    ((_, payload),) = connected.aws.invokes
    assert payload["step"] == 2
    assert json.loads(connected.history()[-1][1])["error"]["code"] == "TIMEOUT"
    connected.send("c1", "tool_result", call_id=call_id, result={"content": "late"})
    assert [frame["error_code"] for frame in connected.aws.frames("c1")] == ["INVALID_CALL_ID"]


def test_an_approval_that_is_not_given_in_its_time_is_a_no(connected: System) -> None:
    (call_id,) = connected.ask("c1", "", call("run_command", command="rm -rf ."))
    connected.sweep(later_s=86_000)
    assert connected.item(f"CALL#{call_id}")["state"] == "awaiting_approval"
    connected.sweep(later_s=86_401)
    assert connected.item(f"CALL#{call_id}")["state"] == "expired"
    told = json.loads(connected.history()[-1][1])
    assert (told["status"], told["reason"]) == ("rejected", "expired")
    connected.send("c1", "hitl_decision", call_id=call_id, decision="approve")
    assert [frame["error_code"] for frame in connected.aws.frames("c1")] == ["INVALID_CALL_ID"]


def _die_in_the_step(system: System) -> dict[str, Any]:
    """The process of the step that was just invoked dies while the model is asked. Returns what had invoked it."""
    ((_, payload),) = system.aws.invokes
    system.aws.once(TRANSACTION, die, nth=2 if payload["attempt"] else 1)  # a later attempt acquires with one
    system.model.says("Hi")
    with pytest.raises(Died):
        system.run_step()
    assert system.item("REGISTER")["phase"] == "running"
    return payload


@pytest.fixture
def died(connected: System) -> dict[str, Any]:
    """What had invoked a step whose process died."""
    connected.send("c1", "user_message", content="hello")
    return _die_in_the_step(connected)


def test_a_step_whose_owner_failed_is_started_again_at_once(system: System, died: dict[str, Any]) -> None:
    system.report_failure(died)
    ((_, again),) = system.aws.invokes
    assert again == {**died, "attempt": 1}
    system.model.says("Hi again")
    system.run_step()
    assert system.history()[-1] == ("assistant", "Hi again")


def test_the_record_of_a_failure_that_was_repaired_before_changes_nothing(system: System, died: dict[str, Any]) -> None:
    system.report_failure(died)
    before = system.item("REGISTER")
    system.report_failure(died)
    assert system.aws.calls == [READ]
    assert system.item("REGISTER") == before


def test_a_step_whose_owner_vanished_is_started_again_when_its_lease_has_ended(
    system: System, died: dict[str, Any]
) -> None:
    system.sweep(later_s=20)
    assert system.aws.invokes == []
    system.sweep(later_s=130)
    nothing = {"announced": [0, -1]}  # its first attempt has posted the message and the status
    assert [again for _, again in system.aws.invokes] == [{**died, **nothing, "attempt": 1}]


def test_a_turn_whose_step_died_three_times_ends_with_an_error_and_the_session_goes_on(
    system: System, died: dict[str, Any]
) -> None:
    for _ in range(2):
        system.report_failure(died)
        died = _die_in_the_step(system)
    system.report_failure(died)
    assert system.aws.invokes == []
    assert "AGENT_ERROR" in [frame.get("error_code") for frame in system.aws.frames("c1")]
    assert system.aws.frames("c1")[-1]["status"] == "idle"
    assert system.ask("c1", "Better now") == []
    assert system.history()[-1] == ("assistant", "Better now")


def test_a_sweep_out_of_time_leaves_the_rest_to_the_next(connected: System) -> None:
    connected.send("c1", "user_message", content="hello")
    sweep = connected.function("sweep")
    sweep.clock_ms = 11_000
    connected.aws.reset()
    sweep(events.schedule(), Context(remaining_ms=1_000))
    assert connected.aws.calls == []
    sweep(events.schedule())
    assert len(connected.aws.invokes) == 1


def test_the_record_of_another_invocation_leaves_the_owner_of_the_step_alone(
    system: System, died: dict[str, Any]
) -> None:
    before = system.item("REGISTER")
    system.function("sweep")(events.failed_invocation(died, "0f5a1c6e-0000-4000-8000-000000000000"))
    assert system.item("REGISTER") == before


def test_merged_ranges_are_posted_again_and_then_forgotten(extended: System) -> None:
    extended.ask("c1", "Hi")
    last = extended.item("REGISTER")["last_seq"]
    extended.table.update_item(
        TableName="Table",
        Key=to_dynamodb({"pk": "SESSION#ann#s1", "sk": "REGISTER"}),
        UpdateExpression="SET #range = :range, due_at = :now, due_shard = :shard",
        ExpressionAttributeNames={"#range": "post#-1"},
        ExpressionAttributeValues=to_dynamodb(
            {":range": {"last": last, "at": 0}, ":now": 0, ":shard": due_shard("SESSION#ann#s1")}
        ),
    )
    extended.sweep(later_s=60)
    assert [frame["seq"] for frame in extended.aws.frames("c1")] == list(range(1, last + 1))
    assert not [name for name in extended.item("REGISTER") if name.startswith("post#")]


def test_a_session_that_is_deleted_keeps_no_other_waiting(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever shards the two are in."""
    order: list[str] = []
    for session in ("s1", "s2", "s3", "s4"):
        system.connect(session, session)
        system.send(session, "user_message", content="hello")
    system.http("DELETE", "/sessions/s2", Context(1_000))
    monkeypatch.setattr(Deleter, "delete", lambda _self, _user, session, _remaining: order.append(session))
    tick = sweep.tick

    def noted(draft: Draft, dead: str | None = None) -> Transition:
        order.append(draft.register.session_id)
        return tick(draft, dead)

    monkeypatch.setattr(sweep, "tick", noted)
    system.sweep(later_s=400)
    assert sorted(order[:-1]) == ["s1", "s3", "s4"]
    assert order[-1] == "s2"


def test_sessions_that_wait_for_their_deletion_hide_no_other_from_the_sweep(
    connected: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the oldest of their shard, more than one page, and stay in the index until the end of the sweep."""
    connected.send("c1", "user_message", content="hello")
    shard = due_shard("SESSION#ann#s1")
    ids = (f"old{n}" for n in range(10_000))
    hidden = [session for session in ids if due_shard(partition("ann", session)) == shard][:150]
    for session in hidden:
        register = Register("ann", session, created_at=1, agent="universal", erase_at=1)
        due = {"due_at": 1, "due_shard": shard}
        row = {"pk": register.pk, "sk": "REGISTER", "version": 1, **register.attributes(), **due}
        connected.table.put_item(TableName="Table", Item=to_dynamodb(row))
    deleted: list[str] = []
    monkeypatch.setattr(Deleter, "delete", lambda _self, _user, session, _remaining: deleted.append(session))
    connected.sweep(later_s=60)
    assert sorted(deleted) == sorted(hidden)
    assert connected.aws.calls.count(QUERY) == len(DUE_SHARDS) + 1
    assert connected.aws.calls.count(INVOKE) == 1, "the step that nobody acquired is invoked again"
