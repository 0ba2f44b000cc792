"""A session's title comes with its first answer, at no further Request."""

import json

from tests.functions.system import System


def test_the_first_answer_names_the_session(extended: System) -> None:
    extended.model.answers.append(json.dumps({"message": "Hello!", "calls": [], "title": "A greeting"}))
    extended.say("c1")
    assert extended.item("REGISTER")["title"] == "A greeting"
    assert len(extended.model.requests) == 1
    [ended] = [frame for frame in extended.aws.frames("c1") if frame["type"] == "turn_end"]
    assert ended["title"] == "A greeting"


def test_only_the_first_answer_is_asked_for_a_title(connected: System) -> None:
    for content in ("hello", "and again"):
        connected.model.says("Hello!")
        connected.say("c1", content)
    asked = ["finds this conversation" in json.dumps(request) for request in connected.model.requests]
    assert asked == [True, False]
    assert connected.item("REGISTER")["title"] == "hello"
