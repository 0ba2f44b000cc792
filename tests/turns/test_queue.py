"""Messages during a turn: waiting, steering, interrupting, refusing; withdrawing them, and what the sender is told."""

import json
from typing import Any

import pytest
from codelab.protocol.errors import ProtocolError
from codelab.protocol.incoming import parse_frame
from codelab.protocol.outgoing import Ack
from codelab.sessions.transition import Transition
from codelab.turns import cancel, control, inbox, messages
from codelab.turns.decision import DecisionResult, decide_and_commit

from tests.turns.world import IDE, READ, World

_DECISIONS = {
    "user_message": messages.user_message,
    "cancel": cancel.cancel,
    "withdraw": inbox.withdraw,
    "switch_agent": control.switch_agent,
    "hello": control.hello,
}


def send(world: World, kind: str, **fields: Any) -> str:
    """The outcome of a client's frame."""
    frame = parse_frame(json.dumps({"type": kind, **fields}))
    decision: Any = _DECISIONS[kind]
    decided: DecisionResult = decide_and_commit(
        lambda draft: decision.decide(draft, IDE, frame), world, register=world.register, caller=IDE
    )
    if decided.transition is not None:
        world._run_effects(decided.transition)
    Ack(outcome=decided.outcome.outcome)
    return decided.outcome.outcome


def contents(world: World) -> list[str]:
    """The history."""
    return [item["content"] for key, item in sorted(world.table.items()) if key.startswith("MESSAGE#")]


def turns_of(world: World) -> dict[str, str]:
    return {frame["client_msg_id"]: frame["turn_id"] for frame in world.of_type("user_message")}


@pytest.fixture
def world() -> World:
    """A call is open, and `m1` is being answered."""
    world = World()
    send(world, "user_message", content="Go", client_msg_id="m1")
    (world.call_id,) = world.answer("", READ)  # type: ignore[attr-defined]
    return world


def settle(world: World) -> Transition | None:
    return world.result(world.call_id, result={"content": "1"})  # type: ignore[attr-defined]


def test_a_steering_message_is_given_to_the_model_after_the_results(world: World) -> None:
    assert send(world, "user_message", content="No mocks", client_msg_id="m2", when_busy="steer") == "queued"
    assert world.of_type("queued")[-1]["steer"] is True
    settle(world)
    assert contents(world)[-1] == "No mocks"
    assert len(set(turns_of(world).values())) == 1, "the running turn answers both"
    assert (world.register.inbox, world.register.steering) == ([], [])
    world.answer("Without mocks.")
    assert [frame["reason"] for frame in world.of_type("turn_end")] == ["completed"]


def test_a_steering_message_of_a_turn_that_ends_begins_the_next_one_before_all_that_wait(world: World) -> None:
    send(world, "user_message", content="Later", client_msg_id="m2")
    send(world, "user_message", content="No mocks", client_msg_id="m3", when_busy="steer")
    send(world, "user_message", content="No stubs", client_msg_id="m4", when_busy="steer")
    assert world.register.inbox == ["m3", "m4", "m2"]
    send(world, "cancel")
    assert world.register.steering == []
    world.answer("Yes.")
    world.answer("Yes.")
    world.answer("Yes.")
    assert list(turns_of(world)) == ["m1", "m3", "m4", "m2"]
    assert len(set(turns_of(world).values())) == 4


def test_a_steering_message_of_a_turn_that_is_being_cancelled_waits() -> None:
    world = World()
    send(world, "user_message", content="Go", client_msg_id="m1")
    lease = world.acquire()
    assert lease is not None
    send(world, "cancel")
    send(world, "user_message", content="No mocks", client_msg_id="m2", when_busy="steer")
    assert world.register.steering == []
    world.fail(lease)
    assert list(turns_of(world)) == ["m1", "m2"]


def test_a_message_chooses_what_happens_during_a_turn_whatever_the_session_says(world: World) -> None:
    world.configure(when_busy="reject")
    assert send(world, "user_message", content="Wait", client_msg_id="m2", when_busy="queue") == "queued"
    with pytest.raises(ProtocolError, match="turn is running"):
        send(world, "user_message", content="Wait", client_msg_id="m3")
    send(world, "user_message", content="Now", client_msg_id="m4", when_busy="interrupt")
    assert [frame["reason"] for frame in world.of_type("turn_end")] == ["cancelled"]
    assert list(turns_of(world)) == ["m1", "m4"]


def test_a_waiting_message_is_withdrawn_once_and_not_accepted_again(world: World) -> None:
    send(world, "user_message", content="Wait", client_msg_id="m2", when_busy="steer")
    assert send(world, "withdraw", client_msg_id="m2") == "withdrawn"
    assert (world.register.inbox, world.register.steering) == ([], [])
    assert world.of_type("withdrawn")[-1]["client_msg_ids"] == ["m2"]
    assert send(world, "withdraw", client_msg_id="m2") == "nothing_to_withdraw"
    assert send(world, "user_message", content="Wait", client_msg_id="m2") == "repeated"
    settle(world)
    assert "Wait" not in contents(world)


def test_a_message_that_is_being_answered_is_not_withdrawn(world: World) -> None:
    assert send(world, "withdraw", client_msg_id="m1") == "nothing_to_withdraw"
    assert world.register.phase == "waiting"


@pytest.mark.parametrize("kind", ["cancel", "withdraw"])
def test_a_message_that_was_overtaken_is_not_accepted(world: World, kind: str) -> None:
    assert send(world, kind, client_msg_id="m2") == "withdrawn"
    assert send(world, "user_message", content="Late", client_msg_id="m2") == "withdrawn"
    assert world.register.inbox == []
    assert world.register.phase == "waiting", "the running turn goes on"
    assert world.table["INPUT#m2"]["ttl"] > world.now // 1000


def test_an_overtaken_message_begins_no_turn_either() -> None:
    world = World()
    assert send(world, "cancel", client_msg_id="m1") == "withdrawn"
    assert send(world, "user_message", content="Late", client_msg_id="m1") == "withdrawn"
    assert world.register.phase == "idle"
    assert world.frames == []


def test_cancel_with_a_message_stops_the_turn_that_answers_it_and_no_other(world: World) -> None:
    send(world, "user_message", content="No mocks", client_msg_id="m2", when_busy="steer")
    settle(world)
    send(world, "user_message", content="Then this", client_msg_id="m3")
    assert send(world, "cancel", client_msg_id="m3") == "withdrawn"
    assert world.of_type("turn_end") == []
    assert send(world, "cancel", client_msg_id="m2") == "cancelling", "it was given to the running turn"
    assert world.register.phase == "idle"
    assert send(world, "cancel", client_msg_id="m1") == "nothing_to_cancel"


def test_cancel_empties_the_queue_if_it_says_so(world: World) -> None:
    send(world, "user_message", content="Two", client_msg_id="m2")
    send(world, "user_message", content="Three", client_msg_id="m3")
    assert send(world, "cancel", queued=True) == "cancelling"
    assert world.of_type("withdrawn")[-1]["client_msg_ids"] == ["m2", "m3"]
    assert world.register.phase == "idle"
    assert send(world, "cancel", queued=True) == "nothing_to_cancel"


def test_cancel_of_a_turn_that_does_not_run_still_empties_the_queue(world: World) -> None:
    send(world, "user_message", content="Two", client_msg_id="m2")
    assert send(world, "cancel", turn_id="another", queued=True) == "withdrawn"
    assert world.register.phase == "waiting"


def test_everything_is_answered(world: World) -> None:
    assert send(world, "user_message", content="Go", client_msg_id="m1") == "repeated"
    assert send(world, "switch_agent", agent_type="universal") == "unchanged"
    assert send(world, "switch_agent", agent_type="coder") == "switched"
    assert send(world, "cancel", turn_id="another") == "nothing_to_cancel"
    assert send(world, "cancel") == "cancelling"
    assert send(world, "user_message", content="Again", client_msg_id="m2") == "started"


def test_session_info_lists_the_messages_that_wait(world: World) -> None:
    send(world, "user_message", content="x" * 500, client_msg_id="m2")
    send(world, "user_message", content="No mocks", client_msg_id="m3", when_busy="steer")
    send(world, "hello")
    waiting = world.replies[-1][1]["queued"]
    assert [(it["client_msg_id"], it.get("steer"), len(it["preview"])) for it in waiting] == [
        ("m3", True, 8),
        ("m2", None, 200),
    ]
