"""Cancels, bounds, agents and devices, on the pure core: what ends a turn early, and what it may weigh."""

import json

from codelab.protocol.errors import ErrorCode
from codelab.sessions.register import Phase
from codelab.sessions.store import Conflict
from codelab.sessions.transition import Transition

from tests.turns.world import OTHER, READ, RUN, WRITE, World, calling, dispatched, refusal, running, unchanged

# -- cancel, interrupt ---------------------------------------------------------------------------------------------


def test_cancelling_nothing_is_no_error() -> None:
    world = World()
    assert world.cancel() is None
    world.say()
    assert world.cancel("another turn") is None


def test_a_cancelled_step_keeps_what_was_said_and_makes_no_calls() -> None:
    world, lease = running()
    world.stream(lease, "Once upon")
    world.cancel()
    assert world.register.phase is Phase.RUNNING, "its owner ends it, for it knows what was said"
    world.answer("Once upon", READ, lease=lease)
    assert world.of_type("tool_call") == []
    assert world.history() == [("user", "hello"), ("assistant", "Once upon")]
    assert world.of_type("turn_end")[-1]["reason"] == "cancelled"
    assert world.statuses()[-1] == "idle"


def test_a_cancelled_step_whose_owner_died_keeps_what_was_said_too() -> None:
    world, lease = running()
    world.stream(lease, "Once ")
    world.stream(lease, "upon")
    world.cancel()
    world.pass_time(11)
    assert world.history() == [("user", "hello"), ("assistant", "Once upon")]
    assert world.of_type("turn_end")[-1]["reason"] == "cancelled"
    world.answer("too late", lease=lease)
    assert len(world.history()) == 2


def test_a_cancel_between_two_attempts_keeps_and_closes_what_the_dead_one_has_said() -> None:
    world, lease = running()
    world.stream(lease, "Once upon")
    world.pass_time(1, dead=world.owner)
    world.cancel()
    assert world.history() == [("user", "hello"), ("assistant", "Once upon")]
    finals = [frame for frame in world.of_type("assistant_message") if frame["is_final"]]
    assert [frame["message_id"] for frame in finals] == [lease.message_id]
    assert world.of_type("turn_end")[-1]["reason"] == "cancelled"
    assert world.acquire() is None


def test_a_step_that_nobody_runs_yet_is_cancelled_at_once() -> None:
    world = dispatched()
    world.cancel()
    assert world.of_type("turn_end")[-1]["reason"] == "cancelled"
    assert world.acquire(world.invokes[0]) is None


def test_open_calls_are_settled_as_cancelled_and_a_late_result_is_refused() -> None:
    world, (write, read) = calling(WRITE, READ)
    world.join(OTHER)
    world.result(read, result=1)
    world.cancel()
    assert world.call_item(write)["state"] == "cancelled"
    assert world.call_item(read)["state"] == "completed"
    updated = world.of_type("call_update")[-1]
    assert (updated["call_id"], updated["state"]) == (write, "cancelled")
    assert refusal(lambda: world.decision(write, "approve")).code is ErrorCode.INVALID_CALL_ID
    assert [role for role, _ in world.history()] == ["user", "assistant", "tool", "tool"]


def test_what_waits_is_answered_after_a_cancel() -> None:
    world, _ = calling(READ)
    world.say("second")
    world.cancel()
    assert [step.turn_id for step in world.invokes][-1] != world.invokes[0].turn_id
    world.answer("Two")
    assert world.history()[-2:] == [("user", "second"), ("assistant", "Two")]


def test_a_session_that_interrupts_answers_the_new_message_at_once() -> None:
    world = World()
    world.configure(when_busy="interrupt")
    world.say("first")
    world.answer("", READ)
    world.say("waiting")  # interrupts the call and runs
    lease = world.acquire()
    world.say("now this")
    world.say("no, this")
    world.fail(lease)
    world.answer("This")
    assert world.history()[-3:] == [("user", "no, this"), ("assistant", "This"), ("user", "now this")]
    assert world.register.phase is Phase.DISPATCHED, "the other one is answered after it"


def test_a_repeated_message_brings_its_new_connection_and_nothing_else() -> None:
    world = World()
    world.say(id="m1")
    world.answer("", READ)
    seq = world.of_type("tool_call")[0]["seq"]
    world.leave()
    world.join(OTHER)
    world.say(caller=OTHER, id="m1")
    assert world.resends == [("conn-2", seq)], "the open call goes to whoever came back"
    assert world.register.inbox == []
    assert [role for role, _ in world.history()] == ["user", "assistant"]


def test_a_repeat_of_an_accepted_message_is_not_refused_as_busy() -> None:
    world = World()
    world.configure(when_busy="reject")
    world.say(id="m1")
    world.say(id="m1")
    assert [role for role, _ in world.history()] == ["user"]


def test_a_session_that_rejects_is_busy() -> None:
    world = World()
    world.configure(when_busy="reject")
    world.say()
    assert refusal(lambda: world.say()).code is ErrorCode.BUSY


# -- bounds and failures -------------------------------------------------------------------------------------------


def test_a_failing_model_ends_the_turn_and_what_was_said_is_not_kept_as_an_answer() -> None:
    world = dispatched()
    world.fail(world.acquire(), "Half")
    assert world.of_type("error")[0]["error_code"] == "LLM_ERROR"
    assert world.of_type("assistant_message")[-1]["aborted"] is True
    assert world.statuses() == ["thinking", "error", "idle"]
    assert world.history() == [("user", "hello")]


def test_a_call_that_fails_again_and_again_is_not_made_again_and_ends_the_turn() -> None:
    world = dispatched()
    for _ in range(3):
        (call_id,) = world.answer("", READ)
        world.result(call_id, error={"code": ErrorCode.FILE_NOT_FOUND, "message": "no"})
    sent = len(world.of_type("tool_call"))
    world.answer("", READ)
    assert len(world.of_type("tool_call")) == sent
    assert "failed 3 times" in world.history()[-1][1]
    world.answer("", READ)
    assert world.of_type("error")[-1]["details"] == {"reason": "repeated failing call"}
    assert world.register.phase is Phase.IDLE


def test_a_call_that_works_again_starts_counting_anew() -> None:
    world = dispatched()
    for outcome in ({"error": {"code": ErrorCode.TIMEOUT, "message": "no"}}, {"result": 1}) * 4:
        (call_id,) = world.answer("", READ)
        world.result(call_id, **outcome)
    assert len(world.of_type("tool_call")) == 8


def test_output_so_far_survives_a_command_that_never_ends() -> None:
    world, (call_id,) = calling(RUN, tool_timeout_s=10)
    world.join(OTHER)
    world.decision(call_id, "approve")
    for offset, text in ((0, "one "), (4, "two "), (4, "two ")):
        world.result(call_id, result={"stdout": text, "exit_code": None}, offset=offset)
    assert [frame["offset"] for frame in world.of_type("tool_progress")] == [0, 4, 4]
    world.pass_time(11)
    assert json.loads(world.history()[-1][1])["error"]["output_so_far"] == "one two "


def test_output_cannot_keep_a_call_open_for_ever() -> None:
    world, (call_id,) = calling(("run_command", {"command": "yes"}), tool_timeout_s=3_600)
    world.decision(call_id, "approve")
    begun, writes = world.now, []
    while call_id in world.register.open_calls:
        before = len(world.table)
        world.result(call_id, result={"stdout": "", "exit_code": None})  # a sign of life
        writes.append(len(world.table) - before)
        world.pass_time(3_000)
    assert world.call_item(call_id)["state"] == "failed"
    assert 0 <= world.now - begun - 86_400_000 <= 3_000_000
    assert not any(writes)


def test_pieces_begin_where_their_streams_are() -> None:
    world, (call_id,) = calling(RUN)
    world.join(OTHER)
    world.decision(call_id, "approve")
    pieces = [
        ({"stdout": "one "}, (0, 0)),
        ({"stderr": "oh "}, (4, 0)),
        ({"stderr": "oh "}, (4, 0)),
        ({"stdout": "two"}, (4, 3)),
    ]
    for piece, (out, err) in pieces:
        result = {**piece, "exit_code": None}
        world.result(call_id, result=result, offsets={"stdout": out, "stderr": err})
    shown = world.of_type("tool_progress")
    assert [(frame["offset"], frame["offsets"]["stderr"]) for frame in shown] == [(0, 0), (4, 0), (4, 0), (7, 3)]
    assert world.call_item(call_id)["progress"] == "one oh two"


# -- agents, devices -----------------------------------------------------------------------------------------------


def test_switching_the_agent_is_told_in_both_shapes() -> None:
    world = World()
    world.switch("coder")
    (switched,) = world.of_type("agent_switched")
    assert (switched["from_agent"], switched["to_agent"]) == ("universal", "coder")
    assert switched["metadata"]["to_agent"] == "coder"
    assert world.register.agent == "coder"
    assert refusal(lambda: world.switch("king")).details == {"field": "agent_type"}


def test_other_devices_learn_what_became_of_a_call() -> None:
    world, (first, second) = calling(READ, WRITE)
    world.join(OTHER)
    world.result(first, result=1)
    world.decision(second, "reject", OTHER)
    updates = [(frame["call_id"], frame["state"]) for frame in world.of_type("call_update")]
    assert updates == [(first, "completed"), (second, "rejected")]


def test_one_device_alone_learns_what_became_of_its_calls_with_the_next_step() -> None:
    world, (first, second, third) = calling(READ, WRITE, READ)
    before = len(world.frames)
    world.result(first, result=1)
    world.decision(second, "reject")
    assert [frame["type"] for frame in world.frames[before:]] == ["agent_status"]  # executing_tool
    world.result(third, error={"code": "FILE_NOT_FOUND", "message": "no"})
    told = [(frame["type"], frame.get("call_id"), frame.get("state")) for frame in world.frames[before + 1 :]]
    assert told == [
        ("call_update", first, "completed"),
        ("call_update", second, "rejected"),
        ("call_update", third, "failed"),
        ("agent_status", None, None),
    ]


def test_a_call_that_one_device_settled_alone_is_told_before_the_cancelled_turn_ends() -> None:
    world, (write, read) = calling(WRITE, READ)
    world.result(read, result=1)
    world.cancel()
    told = [(frame["call_id"], frame["state"]) for frame in world.of_type("call_update")]
    assert sorted(told) == sorted([(read, "completed"), (write, "cancelled")])
    assert world.frames[-2]["type"] == "turn_end"


# -- limits --------------------------------------------------------------------------------------------------------


def test_calls_beyond_sixteen_are_not_made_and_the_model_is_told() -> None:
    world, _ = calling(*[("read_file", {"path": f"{n}.py"}) for n in range(60)])
    assert len(world.of_type("tool_call")) == 16
    assert [role for role, _ in world.history()].count("tool") == 1
    assert "At most 16" in world.history()[-1][1]


def test_arguments_that_no_frame_can_carry_are_refused() -> None:
    world, _ = calling(("write_file", {"path": "a", "content": "x" * 10_500_000}))
    assert json.loads(world.history()[-1][1])["error"]["code"] == "PAYLOAD_TOO_LARGE"


def test_a_result_without_exit_code_is_output_of_commands_only() -> None:
    world, (call_id,) = calling(READ)
    world.result(call_id, result={"content": "x", "exit_code": None})
    assert world.call_item(call_id)["state"] == "completed"


def test_output_that_approves_implicitly_shows_the_execution() -> None:
    world, (call_id,) = calling(("run_command", {"command": "ls"}))
    world.result(call_id, result={"stdout": "a", "exit_code": None})
    assert world.statuses()[-1] == "executing_tool"


def test_a_repeat_has_what_was_never_posted_posted() -> None:
    world, (call_id,) = calling(WRITE)
    world.decision(call_id, "approve")
    assert unchanged(world.decision(call_id, "approve"))
    assert world.reposts[-1][1] == len(world.frames)


def test_a_very_long_answer_is_kept_by_its_beginning_and_end() -> None:
    world = dispatched()
    world.answer("begin" + "я" * 200_000 + "end")
    kept = world.history()[-1][1]
    assert kept.startswith("begin")
    assert kept.endswith("end")
    assert len(kept.encode()) <= 200_000


def test_a_message_without_an_id_is_accepted_once_if_its_transaction_was_in_progress() -> None:
    class Refusing(World):
        """Its first transaction is written, but the writer is told of a conflict: with its own, still in progress."""

        conflicts = 0

        def back_off(self, attempt: int) -> None:
            assert attempt == 0

        def commit(self, transition: Transition) -> None:
            super().commit(transition)
            if self.conflicts:
                self.conflicts -= 1
                raise Conflict

    world = Refusing()
    world.conflicts = 1
    world.say("hello")
    assert world.history() == [("user", "hello")]
    assert len([key for key in world.table if key.startswith("INPUT#")]) == 1
    assert world.register.inbox == []
