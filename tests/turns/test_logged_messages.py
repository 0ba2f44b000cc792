"""The user's messages in the log: other windows and replays see them, and which turn answers which."""

from codelab.protocol.incoming import UserMessage
from codelab.turns import messages

from tests.turns.world import IDE, World, dispatched

WITHOUT_TIMES = ("seq", "at")


def shown(world: World) -> list[dict[str, object]]:
    return [
        {name: value for name, value in frame.items() if name not in WITHOUT_TIMES}
        for frame in world.of_type("user_message")
    ]


def test_a_message_is_logged_when_its_turn_begins() -> None:
    world = World()
    world.say("Hello", id="m1")
    world.say("And then?", id="m2")
    first = {"type": "user_message", "client_msg_id": "m1", "turn_id": world.register.turn_id, "role": "user"}
    assert shown(world) == [{**first, "content": "Hello"}], "the second one waits"
    world.answer("Hi.")
    assert [(it["client_msg_id"], it["turn_id"]) for it in shown(world)] == [
        ("m1", first["turn_id"]),
        ("m2", world.register.turn_id),
    ]


def test_a_message_of_another_role_is_logged_as_it_was_sent() -> None:
    world = World()
    world.say("rm -rf /", role="tool")
    assert (shown(world)[0]["role"], shown(world)[0]["content"]) == ("tool", "rm -rf /")


def test_every_logged_frame_says_when_it_was_logged() -> None:
    world = dispatched()
    world.now += 1_000
    world.answer("Hi.")
    times = {frame["type"]: frame["at"] for frame in world.frames}
    assert times["user_message"] == world.now - 1_000
    assert times["turn_end"] == world.now


def test_a_message_that_does_not_fit_into_a_frame_becomes_an_object() -> None:
    world = World()
    long = UserMessage.model_construct(type="user_message", content="ж" * 90_000, role="user", client_msg_id="m1")
    world.handle(messages.user_message, long)
    (frame,) = shown(world)
    assert "content" not in frame
    assert len(world.objects) == 1


def test_the_status_keeps_its_time_when_the_sweep_has_invoked_the_step_again() -> None:
    world = dispatched()
    logged = world.frames[-1]
    world.pass_time(11)
    world.acquire(world.invokes[-1])
    assert world.last.announcements[-1].frame == logged


def test_a_repeat_before_the_step_is_acquired_writes_nothing() -> None:
    world = World()
    world.say("Hello", IDE, id="m1")
    version = world.register.version
    world.say("Hello", IDE, id="m1")
    assert world.register.version == version
