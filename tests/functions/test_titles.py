"""A session's title comes with its first answer, at no further Request."""

import json

from tests.functions.system import System


def test_the_first_answer_names_the_session(system: System) -> None:
    system.connect("c1", extensions=True)
    system.model.answers.append(json.dumps({"message": "Hello!", "calls": [], "title": "A greeting"}))
    system.send("c1", "user_message", content="hello")
    system.run_step()
    assert system.item("REGISTER")["title"] == "A greeting"
    assert len(system.model.requests) == 1
    [ended] = [frame for frame in system.aws.frames("c1") if frame["type"] == "turn_end"]
    assert ended["title"] == "A greeting"


def test_only_the_first_answer_is_asked_for_a_title(system: System) -> None:
    system.connect("c1")
    for content in ("hello", "and again"):
        system.model.says("Hello!")
        system.send("c1", "user_message", content=content)
        system.run_step()
    asked = ["finds this conversation" in json.dumps(request) for request in system.model.requests]
    assert asked == [True, False]
    assert system.item("REGISTER")["title"] == "hello"
