"""Who answers a first message, on the pure core."""

from codelab.agents import agents
from codelab.turns import routing

from tests.turns.history import message
from tests.turns.world import World, running

KNOWN = set(agents())


def test_the_chosen_agent_answers_and_stays():
    world = World(default_agent="orchestrator")
    world.say("write a test")
    lease = world.acquire()
    world.route(lease, "coder")
    (switched,) = world.of_type("agent_switched")
    told = {name: switched[name] for name in ("from_agent", "to_agent", "reason", "confidence", "timestamp")}
    assert told == switched["metadata"]
    assert (told["from_agent"], told["to_agent"], told["confidence"]) == ("orchestrator", "coder", 0.9)
    world.answer("Done", lease=lease)
    assert world.of_type("turn_end")[0]["usage"]["llm_calls"] == 2, "the choice is paid for as well"
    world.say("and now?")
    assert world.register.agent == "coder"


def test_a_choice_is_made_once_also_when_its_step_is_attempted_again():
    world, first = running(default_agent="orchestrator")
    world.route(first, "coder")
    world.route(first, "coder")
    world.pass_time(310)
    second = world.acquire()
    assert world.register.agent == "coder", "who runs the step again finds the choice made"
    world.answer("ok", lease=second)
    assert len(world.of_type("agent_switched")) == 1


def test_whom_the_user_chooses_meanwhile_wins():
    world, lease = running(default_agent="orchestrator")
    world.switch("architect")
    world.route(lease, "coder")
    assert world.register.agent == "architect"
    assert [frame["to_agent"] for frame in world.of_type("agent_switched")] == ["architect"]


def test_whom_the_user_chooses_afterwards_wins_too():
    world, lease = running(default_agent="orchestrator")
    world.route(lease, "coder")
    world.switch("debug")
    world.answer("ok", lease=lease)
    assert world.register.agent == "debug"


def test_a_choice_for_a_step_that_is_lost_or_to_be_stopped_changes_nothing():
    world, lease = running(default_agent="orchestrator")
    world.cancel()
    assert world.route(lease, "coder") is None
    world.fail(lease)
    world.say("again")
    lost = world.acquire()
    world.pass_time(310)
    world.acquire()
    assert world.route(lost, "coder") is None
    assert world.register.agent == "orchestrator"


def test_who_routes_may_be_asked_for_again():
    world = World(default_agent="coder")
    world.switch("orchestrator")
    world.say()
    world.route(world.acquire(), "ask")
    assert world.register.agent == "ask"


def test_every_agent_that_answers_can_be_chosen_and_is_described():
    known = agents()
    names = routing.schema(known)["properties"]["agent"]["enum"]
    assert set(names) == KNOWN - {"orchestrator"}
    system, asked = routing.messages(known["orchestrator"], known, [message(1, "user", "Привет")])
    assert all(known[name].description in system["content"] for name in names)
    assert asked == {"role": "user", "content": "Привет"}


def test_the_choice_is_made_by_the_last_question_and_a_little_of_what_was_said_before():
    known = agents()
    history = [message(n, role, f"{role} {n} " + "x" * 9_000) for n, role in enumerate(("user", "assistant") * 9)]
    _, asked = routing.messages(known["orchestrator"], known, [*history, message(19, "user", "the question")])
    assert asked["content"].startswith("Earlier:")
    assert asked["content"].endswith("Now:\n\nthe question")
    assert len(asked["content"]) < 4_000
