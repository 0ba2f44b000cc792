"""What the agent is said to do, at every moment."""

from codelab.protocol.outgoing import Status

from tests.turns.world import READ, WRITE, calling, dispatched, running


def test_a_turn_is_thinking_executing_thinking_and_idle() -> None:
    world, (call_id,) = calling(READ)
    world.result(call_id, result="x")
    world.answer("Done")
    assert world.statuses() == ["thinking", "executing_tool", "thinking", "idle"]


def test_a_human_is_waited_for_as_long_as_one_call_asks() -> None:
    world, (read, first, second) = calling(READ, WRITE, WRITE)
    assert world.register.status is Status.WAITING_APPROVAL
    world.decision(first, "approve")
    world.result(read, result="x")
    assert world.register.status is Status.WAITING_APPROVAL
    world.decision(second, "approve")
    assert world.register.status is Status.EXECUTING_TOOL


def test_after_a_rejection_the_other_calls_are_executing() -> None:
    world, (_, write) = calling(READ, WRITE)
    world.decision(write, "reject")
    assert world.statuses()[-1] == "executing_tool"


def test_after_an_approval_by_a_result_the_other_calls_are_executing() -> None:
    world, (_, write) = calling(READ, WRITE)
    world.result(write, result={"success": True})
    assert world.statuses()[-1] == "executing_tool"


def test_after_a_call_has_failed_by_its_deadline_the_human_is_still_waited_for() -> None:
    world, _ = calling(READ, WRITE, tool_timeout_s=30, approval_timeout_s=60)
    world.pass_time(31)
    assert world.statuses()[-1] == "waiting_approval"


def test_a_failed_turn_is_an_error_and_then_idle() -> None:
    world, lease = running()
    world.fail(lease)
    assert world.statuses() == ["thinking", "error", "idle"]


def test_the_next_message_in_line_is_thought_about_without_a_pause() -> None:
    world = dispatched()
    world.say()
    world.answer("One")
    world.answer("Two")
    assert world.statuses() == ["thinking", "idle"]
