"""Who may speak, and to what: the system with real tokens."""

import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from codelab_local import LocalCloud
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.conftest import TEMPLATE, Open, opener
from tests.ide import Ide
from tests.scripted_model import Says, ScriptedModel, call

SECRET = "a secret that is long enough for the purpose"


@pytest.fixture(scope="module")
def guarded_cloud(model: ScriptedModel) -> Iterator[LocalCloud]:
    names = {"AUTH_MODE": "jwt", "JWT_SECRET": SECRET, "JWT_ISSUER": "us", "JWT_AUDIENCE": "ide"}
    with LocalCloud(TEMPLATE, environment={**model.environment, **names}) as running:
        yield running


@pytest.fixture
def guarded(guarded_cloud: LocalCloud) -> Iterator[Open]:
    yield from opener(guarded_cloud)


def token(user: str = "ann", key: str = SECRET, **claims: Any) -> str:
    body = {"sub": user, "iss": "us", "aud": "ide", "exp": int(time.time()) + 600, **claims}
    return jwt.encode({name: value for name, value in body.items() if value is not None}, key, algorithm="HS256")


def bearing(value: str) -> dict[str, Any]:
    return {"additional_headers": {"Authorization": f"Bearer {value}"}}


def test_a_token_is_taken_from_the_header_the_subprotocol_or_the_query(guarded, model):
    ways: list[dict[str, Any]] = [
        {"options": bearing(token())},
        {"options": {"subprotocols": ["codelab", f"token.{token()}"]}},
        {"token": token()},
    ]
    for way in ways:
        session = guarded(**way)
        session.say(model.script("in", Says("Welcome")))
        session.idle()
        assert session.text() == "Welcome"


def test_the_server_echoes_its_subprotocol_and_never_the_token(guarded):
    session = guarded(options={"subprotocols": ["codelab", f"token.{token()}"]})
    assert session.socket.subprotocol == "codelab"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        token(exp=int(time.time()) - 10),
        token(iss="somebody"),
        token(aud="somebody"),
        token(aud=None),
        token(user="ann#eve"),
        token(key="another secret that is long enough too"),
        jwt.encode({"sub": "ann", "iss": "us", "aud": "ide"}, None, algorithm="none"),
        token()[:-3] + "abc",
    ],
    ids=["none", "nonsense", "expired", "issuer", "audience", "no audience", "user", "key", "unsigned", "tampered"],
)
def test_who_cannot_prove_who_they_are_is_refused_at_the_door(guarded, value):
    with pytest.raises(InvalidStatus) as refused:
        guarded(options=bearing(value))
    assert refused.value.response.status_code == 401


def test_a_bad_session_id_is_refused(guarded):
    with pytest.raises(InvalidStatus) as refused:
        guarded("no spaces", options=bearing(token()))
    assert refused.value.response.status_code == 403


def shape(frame: dict[str, Any]) -> dict[str, Any]:
    """A frame without what must differ: ids and times."""
    return {name: value for name, value in frame.items() if name not in ("session_id", "turn_id")}


def test_anothers_session_is_one_that_does_not_exist(guarded, model):
    """The answers for a foreign session id and for one that nobody has are the same, byte for byte but ids."""
    ann = guarded("private", options=bearing(token("ann")))
    ann.say(model.script("secret", Says("The secret", [call("write_file", path="a", content="b")]), Says("done")))
    asked = ann.expect("tool_call")

    def probe(session: str) -> list[dict[str, Any]]:
        eve: Ide = guarded(session, options=bearing(token("eve")))
        eve.send("hello")
        eve.expect("session_info")
        eve.send("resume", last_seq=0)
        eve.expect("resumed")
        eve.send("resume", last_seq=3)
        eve.expect("resync_required")
        eve.result(asked, {"success": True})
        eve.expect("error")
        eve.decide(asked, "approve")
        eve.expect("error")
        return [shape(frame) for frame in eve.frames]

    foreign, absent = probe("private"), probe("nobody-has-this")
    assert foreign == absent
    ann.decide(asked, "reject")
    ann.idle()
    assert ann.text() == "The secretdone"


def test_an_expired_token_ends_the_talk_until_it_is_refreshed(guarded, model):
    session = guarded(options=bearing(token(exp=int(time.time()) + 2)))
    session.say(model.script("before", Says("Before")))
    session.idle()
    time.sleep(2.1)
    session.say(model.script("after", Says("After")))
    assert session.expect("error")["error_code"] == "SESSION_EXPIRED"
    for wrong in (token("eve"), token(key="another secret that is long enough too")):
        session.send("refresh_token", token=wrong)
        assert session.expect("error")["error_code"] == "UNAUTHORIZED"
    session.send("refresh_token", token=token())
    session.expect("session_info")
    session.say("[[after]]")
    session.expect("agent_status", status="idle")
    assert session.text() == "BeforeAfter"


def test_the_ninth_window_takes_the_place_of_the_oldest(guarded, model):
    windows = [guarded("crowded", options=bearing(token())) for _ in range(9)]
    assert windows[0].expect("error")["error_code"] == "RATE_LIMITED"
    with pytest.raises(ConnectionClosed):
        windows[0].receive()
    windows[8].say(model.script("room", Says("Room for eight")))
    for window in windows[1:]:
        window.idle()
        assert window.text() == "Room for eight"
