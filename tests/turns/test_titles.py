"""What a session is called."""

import pytest
from codelab.sessions.items import MessageItem
from codelab.turns import titles

from tests.turns.world import World


def named(world: World, title: str) -> bool:
    """The model's title comes. Was it taken?"""
    return world.decide(lambda draft: titles.entitle(draft, title)) is not None


def test_a_session_goes_by_its_first_message_until_the_model_has_named_it() -> None:
    world = World()
    world.say("Why does the parser fail on empty input? " * 10)
    assert world.register.title.startswith("Why does the parser")
    assert len(world.register.title) <= 80
    world.answer("Because it does")
    assert titles.is_due(world.last)
    assert named(world, "Parser and empty input")
    assert world.replies[-1][1]["title"] == world.register.title == "Parser and empty input"


def test_of_two_titles_one_stays() -> None:
    world = World()
    world.say()
    world.answer("Hello")
    assert named(world, "First")
    assert not named(world, "Second")
    assert world.register.title == "First"
    world.say()
    world.answer("Again")
    assert not titles.is_due(world.last)


@pytest.mark.parametrize("before", [True, False])
def test_a_title_that_the_user_has_given_is_not_replaced(before: bool) -> None:
    world = World()
    if before:
        world.configure(title="Mine")
    world.say()
    world.answer("Hello")
    if not before:
        world.configure(title="Mine")
    assert not named(world, "The model's")
    assert world.register.title == "Mine"


def test_a_model_that_finds_no_title_is_not_asked_again() -> None:
    world = World()
    world.say("hello there")
    world.answer("Hello")
    replies = len(world.replies)
    assert named(world, "")
    assert world.register.title == "hello there"
    assert len(world.replies) == replies
    world.say()
    world.answer("Again")
    assert not titles.is_due(world.last)


def test_a_turn_that_failed_is_not_named_after() -> None:
    world = World()
    world.say()
    lease = world.acquire()
    assert lease is not None
    world.fail(lease)
    assert not titles.is_due(world.last)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Parser bug", "Parser bug"),
        (' "Parser\n bug." ', "Parser bug"),
        ("", ""),
        ("x" * 200, "x" * 79 + "…"),
    ],
)
def test_a_title_is_one_short_line(said: str, title: str) -> None:
    assert titles.title_of({"title": said}) == title


def test_it_is_made_from_the_first_question_and_answer_in_bounds() -> None:
    history = [
        MessageItem(1, "user", "first " + "x" * 10_000, 0, "t"),
        MessageItem(2, "assistant", "", 0, "t"),
        MessageItem(3, "tool", "a result", 0, "t", call_id="c"),
        MessageItem(4, "assistant", "answer", 0, "t"),
        MessageItem(5, "user", "second", 0, "t2"),
    ]
    system, asked = titles.messages(history)
    assert system["role"] == "system"
    assert asked["content"].startswith("User: first")
    assert asked["content"].endswith("Assistant: answer")
    assert len(asked["content"]) < 4_000
