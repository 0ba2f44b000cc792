"""`@connections`, used with boto3 inside a function."""

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed


def test_a_post_reaches_another_connection(open_socket: Any) -> None:
    receiver, sender = open_socket(), open_socket()
    assert sender.do("manage", call="post", connection=receiver.id)["status"] == 200
    assert receiver.socket.recv(30) == "x"


@pytest.mark.parametrize("call", ["post", "get", "delete"])
def test_posts_to_a_closed_connection_get_410(open_socket: Any, call: str) -> None:
    other, client = open_socket(), open_socket()
    connection_id = other.id
    other.socket.close()
    answer = client.do("manage", call=call, connection=connection_id)
    assert (answer["status"], answer["error"]) == (410, "GoneException")


def test_get_describes_a_connection(open_socket: Any) -> None:
    other, client = open_socket(headers={"User-Agent": "tester"}), open_socket()
    answer = client.do("manage", call="get", connection=other.id)
    assert answer["status"] == 200
    assert answer["Identity"]["SourceIp"]
    assert answer["ConnectedAt"] <= answer["LastActiveAt"]


def test_delete_closes_a_connection_and_runs_disconnect(open_socket: Any) -> None:
    other, client = open_socket(), open_socket()
    connection_id = other.id
    assert client.do("manage", call="delete", connection=connection_id)["status"] == 204
    with pytest.raises(ConnectionClosed):
        other.socket.recv(30)
    event = client.do("recorded", kind="disconnect", name=connection_id)
    assert event["requestContext"]["eventType"] == "DISCONNECT"


def test_posts_of_one_writer_arrive_in_order(client: Any) -> None:
    client.send({"type": "command", "do": "send", "times": 50})
    assert [client.receive()["n"] for _ in range(50)] == list(range(50))
