"""$connect and $disconnect."""

import pytest

from tests.fakes.aws.recorder import POST, READ, READ_MANY, TRANSACTION, UPDATE
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import System


def test_connecting_creates_the_session_in_one_read_and_one_update(system: System) -> None:
    assert system.connect("c1") == {"statusCode": 200}
    assert system.aws.calls == [READ, UPDATE]
    assert system.all_keys() == [("SESSION#ann#s1", "REGISTER")]
    register = system.item("REGISTER")
    assert (register["owner"], register["session_id"], register["agent"]) == ("ann", "s1", "universal")
    assert (register["status"], register["version"]) == ("idle", 1)


def test_connecting_to_a_session_joins_it_in_one_read_and_one_update(system: System) -> None:
    system.connect("c1")
    created = system.item("REGISTER")
    system.connect("c2", extensions=True)
    assert system.aws.calls == [READ, UPDATE]
    assert system.all_keys() == [("SESSION#ann#s1", "REGISTER")]
    register = system.item("REGISTER")
    assert register["created_at"] == created["created_at"]
    assert register["conn#c1"] == created["conn#c1"]
    assert register["conn#c1"]["generation"] < register["conn#c2"]["generation"]
    assert (register["conn#c1"]["extensions"], register["conn#c2"]["extensions"]) == (False, True)


def test_the_authorizers_context_is_what_the_session_knows_of_a_connection(system: System) -> None:
    system.connect("c1", viewer=True, profile="args", expires=1_900_000_000)
    joined = system.item("REGISTER")["conn#c1"]
    assert (joined["viewer"], joined["args_profile"], joined["expires"]) == (True, True, 1_900_000_000)


def test_one_session_id_of_two_users_is_two_sessions(system: System) -> None:
    system.connect("c1", user="ann")
    system.connect("c2", user="bob")
    assert system.all_keys() == [("SESSION#ann#s1", "REGISTER"), ("SESSION#bob#s1", "REGISTER")]


@pytest.mark.parametrize("offered", ["codelab", "codelab, token.abc", "token.abc,codelab", "graphql-ws, codelab"])
@pytest.mark.parametrize("header", ["Sec-WebSocket-Protocol", "sec-websocket-protocol"])
def test_of_the_offered_subprotocols_exactly_one_is_echoed(system: System, header: str, offered: str) -> None:
    event = events.connect("c1", events.authorizer_context("s1"), headers={header: offered})
    answer = system.function("connect")(event)
    assert answer == {"statusCode": 200, "headers": {"Sec-WebSocket-Protocol": "codelab"}}


def test_no_subprotocol_is_echoed_that_was_not_offered(system: System) -> None:
    event = events.connect("c1", events.authorizer_context("s1"), headers={"Sec-WebSocket-Protocol": "graphql-ws"})
    assert system.function("connect")(event) == {"statusCode": 200}


def test_who_loses_the_race_to_join_reads_again_and_joins(system: System) -> None:
    system.connect("c1")
    other = system.load("connect")
    context = events.authorizer_context("s1")

    def another_joins() -> None:
        other(events.connect("c2", context))

    system.aws.once(UPDATE, another_joins)
    system.connect("c3")
    assert system.aws.calls == [READ, UPDATE, READ, UPDATE, READ, UPDATE]
    assert system.connections() == {"c1", "c2", "c3"}


def test_disconnecting_forgets_the_connection_in_one_read_and_one_update(system: System) -> None:
    system.connect("c1")
    system.connect("c2")
    assert system.disconnect("c1") == {"statusCode": 200}
    assert system.aws.calls == [READ, UPDATE]
    assert system.connections() == {"c2"}


def test_a_repeated_disconnect_changes_nothing(system: System) -> None:
    system.connect("c1")
    system.disconnect("c1")
    before = system.item("REGISTER")
    system.disconnect("c1")
    assert system.aws.calls == [READ]
    assert system.item("REGISTER") == before


def test_the_disconnect_of_an_unknown_connection_changes_nothing(system: System) -> None:
    system.connect("c1")
    before = system.item("REGISTER")
    assert system.function("disconnect")(events.disconnect("c9", events.authorizer_context("s1"))) == {
        "statusCode": 200
    }
    assert system.item("REGISTER") == before


def test_a_late_disconnect_does_not_detach_who_has_come_back(system: System) -> None:
    system.connect("c1")
    system.connect("c2")
    system.disconnect("c1")
    system.disconnect("c1")
    assert system.connections() == {"c2"}


def test_when_the_executor_leaves_who_spoke_last_is_sent_the_open_calls(system: System) -> None:
    system.connect("c1")
    system.connect("c2")
    (call_id,) = system.ask("c1", "", call("read_file", path="a.py"))
    assert "tool_call" not in [frame["type"] for frame in system.aws.frames("c2")]
    system.send("c2", "user_message", content="meanwhile")
    system.disconnect("c1")
    assert system.aws.calls == [READ, TRANSACTION, READ_MANY, POST, UPDATE]
    ((connection, frame),) = system.aws.posts
    assert (connection, frame["type"], frame["call_id"]) == ("c2", "tool_call", call_id)


def test_who_comes_back_is_sent_the_open_calls_with_the_first_frame(system: System) -> None:
    system.connect("c1")
    (call_id,) = system.ask("c1", "", call("write_file", path="a.py", content="1"))
    system.disconnect("c1")
    system.connect("c2")
    assert system.aws.calls == [READ, UPDATE], "inside $connect nothing can be posted"
    system.send("c2", "user_message", content="I am back")
    assert system.aws.calls == [READ, TRANSACTION, READ_MANY, POST, UPDATE]
    ((connection, frame),) = system.aws.posts
    assert (connection, frame["call_id"], frame["requires_approval"]) == ("c2", call_id, True)
