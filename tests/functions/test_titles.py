"""A session's title: asked for when all else is done, and never in anybody's way."""

import json

from codelab.requests import TransportError

from tests.functions.recorder import CLEAR, POST, TRANSACTION
from tests.functions.system import System


def test_the_title_comes_after_the_turn_is_over_posted_and_reported(system: System) -> None:
    system.environment["SESSION_TITLES"] = "true"
    system.connect("c1", extensions=True)
    system.model.says("Hello!")
    system.model.answers.append(json.dumps({"title": "A greeting"}))
    system.send("c1", "user_message", content="hello")
    system.run_step()
    first, second = [index for index, name in enumerate(system.aws.calls) if name == "model"]
    between = system.aws.calls[first:second]
    assert between.count(TRANSACTION) == 1, "the answer was committed"
    assert CLEAR in between, "its frames were reported as posted"
    assert POST in between
    assert POST not in system.aws.calls[second:-1]
    assert system.item("REGISTER")["title"] == "A greeting"
    frames = system.aws.frames("c1")
    assert [frame["type"] for frame in frames[-2:]] == ["agent_status", "session_info"]
    assert frames[-1]["title"] == "A greeting"


def test_only_the_first_turn_is_named_after(system: System) -> None:
    system.environment["SESSION_TITLES"] = "true"
    system.connect("c1")
    system.model.says("Hello!")
    system.model.answers.append(json.dumps({"title": "A greeting"}))
    for content in ("hello", "and again"):
        system.send("c1", "user_message", content=content)
        system.run_step()
        system.model.says("Again!")
    assert len(system.model.requests) == 3


def test_a_title_that_fails_leaves_the_session_as_it_is(system: System) -> None:
    system.environment["SESSION_TITLES"] = "true"
    system.connect("c1")
    system.model.says("Hello!")

    def refuse():
        raise TransportError("no", status=400)
        yield ""

    system.model.answers.append(refuse())
    system.send("c1", "user_message", content="hello there")
    system.run_step()
    register = system.item("REGISTER")
    assert (register["title"], register["status"]) == ("hello there", "idle")
    assert "title_is_draft" not in register


def test_titles_can_be_turned_off(system: System) -> None:
    system.connect("c1")
    system.model.says("Hello!")
    system.send("c1", "user_message", content="hello")
    system.run_step()
    assert len(system.model.requests) == 1
    assert system.item("REGISTER")["title"] == "hello"
