"""What a session is called."""

import pytest
from codelab.turns import titles
from codelab.turns.model_answers import ANSWER

from tests.cases import cases
from tests.turns.world import READ, World, dispatched


def test_a_session_goes_by_its_first_message_until_the_model_has_named_it() -> None:
    world = World()
    world.say("Why does the parser fail on empty input? " * 10)
    assert world.register.title.startswith("Why does the parser")
    assert len(world.register.title) <= 80
    assert world.register.title_is_draft
    world.answer("Because it does", title="Parser and empty input")
    assert world.register.title == "Parser and empty input"
    assert not world.register.title_is_draft
    [ended] = [frame for frame in world.frames if frame["type"] == "turn_end"]
    assert ended["title"] == "Parser and empty input"


def test_the_first_answer_names_it_and_no_later_one() -> None:
    world = dispatched()
    [call_id] = world.answer("Let me see", READ, title="First")
    world.result(call_id, result={"content": ""})
    world.answer("Done", title="Second")
    assert world.register.title == "First"


@pytest.mark.parametrize("before", [True, False])
def test_a_title_that_the_user_has_given_is_not_replaced(before: bool) -> None:
    world = World()
    if before:
        world.configure(title="Mine")
    world.say()
    if not before:
        world.configure(title="Mine")
    world.answer("Hello", title="The model's")
    assert world.register.title == "Mine"


def test_a_model_that_finds_no_title_is_not_asked_again() -> None:
    world = World()
    world.say("hello there")
    world.answer("Hello")
    assert world.register.title == "hello there"
    assert not world.register.title_is_draft


def test_an_answer_that_failed_names_nothing() -> None:
    world = World()
    world.say("hello there")
    lease = world.acquire()
    assert lease is not None
    world.fail(lease)
    assert world.register.title_is_draft


@cases(
    ("said", "title"),
    [
        ("Parser bug", "Parser bug"),
        (' "Parser\n bug." ', "Parser bug"),
        ("", ""),
        (None, ""),
        ("x" * 200, "x" * 79 + "…"),
    ],
)
def test_a_title_is_one_short_line(said: str | None, title: str) -> None:
    assert titles.title_of({"title": said}) == title


def test_it_is_asked_for_behind_everything_else_and_may_be_left_out() -> None:
    asked = titles.with_title(ANSWER)
    assert list(asked["properties"]) == [*ANSWER["properties"], "title"]
    assert asked["required"] == ANSWER["required"]
    assert "title" not in ANSWER["properties"]
