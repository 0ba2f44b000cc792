"""Which function gets a message, and what the client gets on errors."""

import json
from typing import Any

import pytest

from tests.frames import check_received


def test_the_selection_expression_selects_the_route(client: Any) -> None:
    event = client.do("event")
    assert event["requestContext"]["routeKey"] == "command"


@pytest.mark.parametrize(
    "message",
    [
        "not JSON",
        "[1, 2]",
        "7",
        '"command"',
        "null",
        "{}",
        '{"type": null}',
        '{"type": 5}',
        '{"type": "nobody"}',
        '{"type": "Command"}',
        '{"type": "$connect"}',
        '{"type": "$disconnect"}',
        '{"type": {"a": 1}}',
        '{"other": "command"}',
        "[" * 20_000,
    ],
)
def test_messages_without_a_route_go_to_default(client: Any, message: str) -> None:
    client.send(message)
    assert client.receive() == {"default": message}


def test_a_message_event_has_the_shape_of_api_gateway(client: Any) -> None:
    event = client.do("event", text="ünïcödé 🙂")
    assert set(event) == {"requestContext", "body", "isBase64Encoded"}
    assert json.loads(event["body"])["text"] == "ünïcödé 🙂"
    assert event["isBase64Encoded"] is False
    context = event["requestContext"]
    assert context["eventType"] == "MESSAGE"
    assert context["messageDirection"] == "IN"
    assert context["messageId"] not in ("", context["connectionId"])
    assert context["connectionId"].endswith("=")
    assert len(context["connectionId"]) == 16
    assert context["connectedAt"] <= context["requestTimeEpoch"]
    assert context["identity"]["sourceIp"]
    assert {"requestId", "extendedRequestId", "requestTime", "stage", "apiId", "domainName"} <= set(context)


def test_every_message_has_unique_ids(client: Any) -> None:
    contexts = [client.do("event")["requestContext"] for _ in range(3)]
    assert len({context["connectionId"] for context in contexts}) == 1
    assert all(context["requestId"] == context["extendedRequestId"] for context in contexts)
    for name in ("messageId", "requestId"):
        assert len({context[name] for context in contexts}) == 3


def test_a_failing_function_sends_an_error_frame_and_stays_connected(client: Any) -> None:
    error = client.do("raise")
    assert error["message"] == "Internal server error"
    check_received(error)
    assert client.do("event")["requestContext"]["connectionId"] == error["connectionId"]


def test_return_values_reach_clients_only_with_a_route_response(client: Any) -> None:
    client.send({"type": "reply", "do": "nothing"})
    assert client.socket.recv(30) == "the reply"
    client.send({"type": "command", "do": "nothing"})
    assert client.do("event")["requestContext"]["eventType"] == "MESSAGE"  # No reply came before it.


def test_messages_of_one_connection_run_concurrently(client: Any) -> None:
    """The first one waits for what the second one does."""
    name = client.id
    client.send({"type": "command", "do": "recorded", "kind": "message", "name": name})
    client.send({"type": "command", "do": "record", "name": name})
    answers = [client.receive() for _ in range(2)]
    assert name in answers
    assert {"recorded": name} in answers
