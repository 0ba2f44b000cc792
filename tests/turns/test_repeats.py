"""An agent that makes the same calls again and again is told so, and then stopped."""

from tests.turns.world import READ, RUN, WRITE, Call, World

OTHER_READ = (READ[0], {"path": "other.py"})
SAME = {"content": "x = 1"}
NEXT = (WRITE[0], {**WRITE[1], "content": "something else"})


def asked(world: World, call: Call, result: object = SAME) -> str:
    """Make a call and give its result; the newest message of the history, which the model reads next."""
    (call_id,) = world.answer("", call)
    if world.of_type("tool_call")[-1]["requires_approval"]:
        world.decision(call_id, "approve")
    world.result(call_id, result=result)
    return world.history()[-1][1]


def begun(**settings: object) -> World:
    world = World(**settings)
    world.say()
    return world


def ended(world: World) -> list[str]:
    return [frame["reason"] for frame in world.of_type("turn_end")]


def test_the_model_is_told_at_the_third_equal_call_and_stopped_at_the_fifth() -> None:
    world = begun()
    told = ["same result" in asked(world, READ) for _ in range(4)]
    assert told == [False, False, True, True]
    assert ended(world) == []
    asked(world, READ)
    assert ended(world) == ["error"]
    error = world.of_type("error")[-1]
    assert error["error_code"] == "AGENT_ERROR"
    assert error["details"] == {"reason": "repeated call"}
    assert "same call 5 times" in error["content"]


def test_calls_in_turns_are_repeats_too() -> None:
    world = begun()
    for _ in range(4):
        asked(world, READ)
        asked(world, OTHER_READ)
    assert ended(world) == []
    asked(world, READ)
    assert ended(world) == ["error"]


def test_edit_and_test_in_turns_are_no_repeat() -> None:
    world = begun()
    for n in range(12):
        asked(world, (WRITE[0], {**WRITE[1], "content": f"try {n}"}), {"success": True})
        assert "same result" not in asked(world, RUN, {"stdout": "1 failed", "exit_code": 1})
    assert ended(world) == []


def test_a_file_that_a_command_changes_between_two_tests_counts_as_a_change() -> None:
    world = begun()
    for n in range(12):
        asked(world, (RUN[0], {"command": f"sed -i s/{n}/x/ a.py"}), {"stdout": "", "exit_code": 0})
        assert "same result" not in asked(world, RUN, {"stdout": "1 failed", "exit_code": 1})
    assert ended(world) == []


def test_two_commands_in_turns_are_repeats_too() -> None:
    world = begun()
    for _ in range(5):
        asked(world, RUN, {"stdout": "1 failed", "exit_code": 1})
        if not ended(world):
            asked(world, (RUN[0], {"command": "ls"}), {"stdout": "a.py", "exit_code": 0})
    assert ended(world) == ["error"]


def test_to_wait_for_a_process_is_no_repeat() -> None:
    read = ("read_process", {"process_id": "build"})
    world = begun()
    for _ in range(9):
        told = asked(world, read, {"process_id": "build", "status": "running", "stdout": "", "exit_code": None})
        assert "same result" not in told
    ended_process = {"process_id": "build", "status": "exited", "stdout": "done", "exit_code": 0}
    assert ["same result" in asked(world, read, ended_process) for _ in range(3)] == [False, False, True]
    assert ended(world) == []


def test_another_result_is_no_repeat() -> None:
    world = begun()
    for n in range(12):
        asked(world, READ, {"content": f"line {n}"})
    assert ended(world) == []


def test_how_long_a_command_took_makes_no_other_result_of_it() -> None:
    world = begun()
    for n in range(5):
        asked(world, RUN, {"stdout": f"2 passed in 0.{n}2s", "exit_code": 0})
    assert ended(world) == ["error"]


def test_a_change_back_and_forth_is_noticed() -> None:
    world = begun()
    for _ in range(4):
        asked(world, WRITE, {"success": True})
        asked(world, NEXT, {"success": True})
    assert ended(world) == []
    asked(world, WRITE, {"success": True})
    assert ended(world) == ["error"]


def test_what_the_user_says_meanwhile_begins_the_count_anew() -> None:
    world = begun()
    for _ in range(4):
        asked(world, READ)
    world.say("Look again, please", when_busy="steer", client_msg_id="m9")
    for _ in range(4):
        asked(world, READ)
    assert ended(world) == []


def test_the_next_turn_begins_anew_and_the_limit_can_be_set() -> None:
    world = begun(max_repeats=2)
    asked(world, READ)
    asked(world, READ)
    assert ended(world) == ["error"]
    world.say("Again", client_msg_id="m2")
    asked(world, READ)
    assert ended(world) == ["error"]
    unlimited = begun(max_repeats=0)
    for _ in range(9):
        asked(unlimited, READ)
    assert ended(unlimited) == []
