"""The opening handshake: authorizer, `$connect`, subprotocol; and the end of a connection."""

import contextlib
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus


def test_every_event_has_the_authorizers_context(open_socket: Any) -> None:
    client = open_socket(session_id="s 1")
    context = client.do("event")["requestContext"]["authorizer"]
    expected = {"principalId": "someone", "user": "someone", "session": "s 1", "number": "7", "flag": "true"}
    assert expected.items() <= context.items()
    connection_id = client.id
    assert client.do("recorded", kind="connect", name=connection_id)["requestContext"]["authorizer"]["session"] == "s 1"
    client.socket.close()
    gone = open_socket().do("recorded", kind="disconnect", name=connection_id)
    assert gone["requestContext"]["authorizer"]["session"] == "s 1"


def test_connect_events_have_headers_and_query_but_no_message_id(open_socket: Any) -> None:
    client = open_socket(headers={"X-Custom": "yes"}, session_id="s2", last_seq="")
    connection_id = client.id
    for kind in ("connect", "authorize"):
        event = client.do("recorded", kind=kind, name=connection_id)
        assert {name.lower(): value for name, value in event["headers"].items()}["x-custom"] == "yes"
        assert {name.lower(): many for name, many in event["multiValueHeaders"].items()}["x-custom"] == ["yes"]
        assert event["headers"]["X-Forwarded-For"] == event["requestContext"]["identity"]["sourceIp"]
        assert event["queryStringParameters"] == {"session_id": "s2", "last_seq": ""}
        assert event["multiValueQueryStringParameters"] == {"session_id": ["s2"], "last_seq": [""]}
        context = event["requestContext"]
        assert (context["eventType"], context["routeKey"]) == ("CONNECT", "$connect")
        assert "messageId" not in context
        assert "body" not in event
        if kind == "authorize":
            assert event["type"] == "REQUEST"
            assert event["methodArn"].endswith(f"{context['apiId']}/{context['stage']}/$connect")


@pytest.mark.parametrize(
    ("auth", "status"),
    [("deny", 403), ("unauthorized", 401), ("raise", 500), ("nothing", 500), ("object", 500), ("large", 500)],
)
def test_authorizer_refusals_have_api_gateways_statuses(open_socket: Any, auth: str, status: int) -> None:
    with pytest.raises(InvalidStatus, match=str(status)):
        open_socket(auth=auth)


@pytest.mark.parametrize("status", ["400", "403", "418", "429"])
def test_connect_can_refuse_with_its_own_status(open_socket: Any, status: str) -> None:
    with pytest.raises(InvalidStatus, match=status):
        open_socket(refuse=status)


def test_a_failing_connect_function_refuses_the_connection(open_socket: Any) -> None:
    with pytest.raises(InvalidStatus) as refused:
        open_socket(fail="1")
    assert refused.value.response.status_code >= 500


def test_only_the_subprotocol_named_by_connect_is_echoed(open_socket: Any) -> None:
    client = open_socket(subprotocols=["token.secret", "chat"])
    assert client.socket.response.headers.get_all("Sec-WebSocket-Protocol") == ["chat"]
    assert open_socket().socket.response.headers.get_all("Sec-WebSocket-Protocol") == []


def test_compression_is_not_negotiated(client: Any) -> None:
    assert "Sec-WebSocket-Extensions" not in client.socket.response.headers


def test_posts_fail_before_connect_has_returned(open_socket: Any) -> None:
    client = open_socket(post="1")
    assert client.do("recorded", kind="connect", name=client.id)["early"] == "GoneException"


def test_disconnect_has_the_close_code_and_reason(open_socket: Any) -> None:
    client = open_socket()
    connection_id = client.id
    client.socket.close(4001, "bye")
    event = open_socket().do("recorded", kind="disconnect", name=connection_id)
    context = event["requestContext"]
    assert (context["eventType"], context["routeKey"]) == ("DISCONNECT", "$disconnect")
    assert (context["disconnectStatusCode"], context["disconnectReason"]) == (4001, "bye")
    assert "queryStringParameters" not in event


def test_disconnect_is_sent_when_a_client_vanishes(open_socket: Any) -> None:
    client = open_socket()
    connection_id = client.id
    with contextlib.suppress(OSError):
        client.socket.socket.shutdown(2)
    event = open_socket().do("recorded", kind="disconnect", name=connection_id)
    assert event["requestContext"]["disconnectStatusCode"] == 1006
