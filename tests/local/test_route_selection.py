"""Which key a message's route has, as the developer guide's examples say."""

import pytest
from codelab_local.gateway.route_selection import RouteSelection

MESSAGE = (
    '{"service": "chat", "action": "join", "data": {"room": "room1234", "list": ["a", {"b": 2}]}, "n": 7, "on": true}'
)


@pytest.mark.parametrize(
    ("expression", "key"),
    [
        ("$request.body.action", "join"),
        ("${request.body.action}", "join"),
        ("${request.body.service}/${request.body.action}", "chat/join"),
        ("${request.body.action}-${request.body.invalidPath}", "join-"),
        ("action", "action"),
        pytest.param(r"a\$${request.body.action}", "a$join", id="a dollar-a$join"),
        ("$request.body.data.room", "room1234"),
        ("$request.body.data.list[0]", "a"),
        ("$request.body.data.list[1].b", "2"),
        ("$request.body.data.list[9]", ""),
        ("$request.body.n", "7"),
        ("$request.body.on", "true"),
        ("$request.body.data.list", '[a, {"b": 2}]'),
        ("$request.body.service.", "chat."),
        ("$request.body.action-now", ""),  # A name may have a hyphen.
    ],
)
def test_an_expression_is_filled_from_the_message(expression: str, key: str) -> None:
    assert RouteSelection(expression).key_of(MESSAGE) == key


@pytest.mark.parametrize("expression", ["$default", r"\$default", r"\$connect"])
def test_no_expression_selects_a_route_of_api_gateways_own(expression: str) -> None:
    assert RouteSelection(expression).key_of(MESSAGE) is None


@pytest.mark.parametrize("message", ["no JSON", "", '{"a"', '{"action": "$disconnect"}', "[" * 20_000])
def test_some_messages_have_no_key(message: str) -> None:
    assert RouteSelection("$request.body.action").key_of(message) is None


@pytest.mark.parametrize("message", ["[]", "7", '"text"', "{}", '{"action": null}', '{"action": ""}'])
def test_a_path_that_leads_to_nothing_gives_an_empty_text(message: str) -> None:
    assert RouteSelection("$request.body.action").key_of(message) == ""
