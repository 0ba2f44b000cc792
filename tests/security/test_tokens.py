"""Tokens that would be valid forever, or that try to crash their reader."""

import json
import time

import pytest

from tests.cases import cases
from tests.fakes.aws.recorder import QUERY
from tests.fakes.model.script import call
from tests.functions import events
from tests.functions.system import System
from tests.security.signing import bearing, raw, signed

DAY = 86_400
SESSION = {"session_id": "s1"}

#: Values in place of a whole number of seconds in a token that are invalid.
ABSURD = {
    "huge": "1" + "0" * 400,
    "far away": "99999999999999999999",
    "negative": "-5",
    "a float": "SOON.5",
    "infinite": "Infinity",
    "too large for a float": "1e999",
    "not a number": "NaN",
    "true": "true",
    "a string": '"SOON"',
    "null": "null",
    "a list": "[1]",
    "deep": "[" * 5_000 + "]" * 5_000,
}


def from_now(seconds: int) -> int:
    """The time in so many seconds."""
    return int(time.time()) + seconds


def assert_refused(system: System, token: str) -> None:
    """401 on connecting, for which API Gateway needs exactly this text, and over HTTP."""
    with pytest.raises(Exception, match=r"\AUnauthorized\Z"):
        system.function("authorize")(events.authorize(query=SESSION, headers=bearing(token)))
    if any("\ud800" <= character <= "\udfff" for character in token):
        return  # no header can carry it
    status, refused = system.http("GET", "/usage", user="", headers=bearing(token))
    assert (status, refused["error"]["code"]) == (401, "UNAUTHORIZED")


def assert_taken(system: System, token: str) -> None:
    assert system.function("authorize")(events.authorize(query=SESSION, headers=bearing(token)))["principalId"] == "ann"
    assert system.http("GET", "/usage", user="", headers=bearing(token))[0] == 200


@pytest.mark.parametrize("claim", ["exp", "iat"])
def test_tokens_without_iat_or_exp_are_refused(system: System, claim: str) -> None:
    assert_refused(system, signed(**{claim: None}))


def test_tokens_that_live_longer_than_a_day_are_refused(system: System) -> None:
    now = from_now(0)
    assert_taken(system, signed(iat=now, exp=now + DAY))
    assert_taken(system, signed(iat=now, exp=now + DAY + 60))
    assert_refused(system, signed(iat=now, exp=now + DAY + 61))
    assert_refused(system, signed(iat=now - 30 * DAY, exp=now + 60))


def test_the_operator_sets_the_maximum_lifetime_of_tokens(system: System) -> None:
    system.environment = {"JWT_MAX_AGE_S": "900"}
    now = from_now(0)
    assert_taken(system, signed(iat=now, exp=now + 900))
    assert_refused(system, signed(iat=now, exp=now + 1_000))


def test_tokens_from_the_future_are_refused(system: System) -> None:
    """It would outlive a revocation."""
    assert_taken(system, signed(iat=from_now(30), exp=from_now(600)))
    assert_refused(system, signed(iat=from_now(120), exp=from_now(600)))


@cases(
    ("claim", "absurd"),
    [*((claim, absurd) for claim in ("exp", "iat") for absurd in ABSURD), ("nbf", "infinite"), ("nbf", "deep")],
)
def test_absurd_times_are_a_401(system: System, claim: str, absurd: str) -> None:
    now = int(time.time())
    good = {"iat": str(now), "exp": str(now + 600)}
    times = good | {claim: ABSURD[absurd].replace("SOON", good.get(claim, str(now)))}
    body = '{"sub":"ann",' + ",".join(f'"{name}":{value}' for name, value in times.items()) + "}"
    assert_refused(system, raw(body))


@cases(
    "token",
    [
        raw("[" * 7_000),
        raw('{"sub":"ann"}', header="[" * 7_000),
        raw('{"sub":"ann"}', header='{"alg":["HS256"]}'),
        raw('{"sub":"ann"}', header='{"alg":"HS256","crit":"exp"}'),
        raw("null"),
        raw('"ann"'),
        "." * 8_000,
        "\ud800.\udfff.ü",
    ],
    ids=["a deep body", "a deep header", "algorithms", "crit", "null", "a string", "dots", "no text"],
)
def test_malformed_tokens_are_a_401(system: System, token: str) -> None:
    assert_refused(system, token)


@pytest.mark.parametrize(
    "claims",
    [{"exp": None}, {"iat": None}, {"exp": from_now(3 * DAY)}, {"iat": from_now(3_600)}],
    ids=["no end", "no beginning", "too long", "from the future"],
)
def test_refresh_refuses_tokens_that_could_not_connect(system: System, claims: dict[str, int | None]) -> None:
    system.connect("c1", extensions=True)
    system.send_raw("c1", "control", json.dumps({"type": "refresh_token", "token": signed(**claims)}))
    assert [frame.get("error_code") for frame in system.aws.frames("c1")] == ["UNAUTHORIZED"]
    system.send_raw("c1", "control", json.dumps({"type": "refresh_token", "token": signed()}))
    assert [frame["type"] for frame in system.aws.frames("c1")] == ["session_info"]


# -- a connection with an expired token ------------------------------------------------------------------------------


def test_an_expired_connection_gets_nothing_of_the_session(system: System) -> None:
    system.connect("c1", expires=from_now(3_600))
    system.connect("thief", expires=from_now(-1))
    system.ask("c1", "The secret")
    assert "The secret" in json.dumps(system.aws.frames("c1"))
    assert system.aws.frames("thief") == []
    system.sweep(later_s=11)
    assert system.aws.frames("thief") == []


def test_frames_waiting_for_an_expired_connection_are_not_sent(system: System) -> None:
    """A replay, and frames that the sweep posts again."""
    system.connect("c1", extensions=True, expires=from_now(3_600))
    system.ask("c1", "The secret")
    system.connect("c2", extensions=True, expires=from_now(30))
    control = system.function("control")
    control.clock_ms = 31_000
    system.send_raw("c2", "control", json.dumps({"type": "resume", "last_seq": 0}))
    assert [frame.get("error_code") for frame in system.aws.frames("c2")] == ["SESSION_EXPIRED"]
    caller = {"user": "ann", "session_id": "s1", "connection_id": "c2", "extensions": True}
    system.aws.reset()
    control({"kind": "resume", "caller": caller | {"expires": from_now(30), "issued": from_now(0)}, "last_seq": 0})
    assert system.aws.frames("c2") == []


def test_an_expired_connection_is_closed_without_a_frame(system: System) -> None:
    system.connect("c1", expires=from_now(30))
    system.connect("c2", expires=from_now(3_600))
    system.sweep(later_s=60)
    assert system.connections() == {"c1", "c2"}, "it may still be refreshed"
    system.sweep(later_s=91)
    assert system.aws.calls.count("DeleteConnection") == 1
    assert system.aws.posts == []
    assert system.connections() == {"c2"}
    system.sweep(later_s=92)
    assert set(system.aws.calls) == {QUERY}, "nothing is due until the other one's end"


def test_a_refreshed_connection_is_not_closed(system: System) -> None:
    system.connect("c1", extensions=True, expires=from_now(30))
    control = system.function("control")
    control.clock_ms = 45_000
    system.send_raw("c1", "control", json.dumps({"type": "refresh_token", "token": signed()}))
    assert [frame["type"] for frame in system.aws.frames("c1")] == ["session_info"]
    system.sweep(later_s=91)
    assert system.connections() == {"c1"}


def test_calls_of_an_expired_connection_are_handed_on(system: System) -> None:
    system.connect("c1", expires=from_now(30))
    system.connect("c2", expires=from_now(3_600))
    system.ask("c1", "", call("read_file", path="a.py"))
    system.send("c2", "user_message", content="I am here")
    assert system.item("REGISTER")["executor"] == "c1"
    system.sweep(later_s=91)
    assert system.item("REGISTER")["executor"] == "c2"
    assert [frame["tool_name"] for frame in system.aws.frames("c2") if frame["type"] == "tool_call"] == ["read_file"]
    assert system.aws.frames("c1") == []
