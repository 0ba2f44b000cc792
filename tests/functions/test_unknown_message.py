"""$default: whatever no route takes is answered by an error frame that names its fault."""

import pytest

from tests.fakes.aws.recorder import POST
from tests.functions.system import System

BAD = [
    (None, "INVALID_FORMAT"),
    ("", "INVALID_FORMAT"),
    ("not json", "INVALID_FORMAT"),
    ('{"type": "user_message"', "INVALID_FORMAT"),
    ("[]", "INVALID_FORMAT"),
    ('["user_message"]', "INVALID_FORMAT"),
    ("5", "INVALID_FORMAT"),
    ("null", "INVALID_FORMAT"),
    ('"user_message"', "INVALID_FORMAT"),
    ('{"type": "user_message", "content": NaN}', "INVALID_FORMAT"),
    ("[" * 5_000, "INVALID_FORMAT"),
    ("{}", "INVALID_TYPE"),
    ('{"type": null}', "INVALID_TYPE"),
    ('{"type": 5}', "INVALID_TYPE"),
    ('{"type": ["user_message"]}', "INVALID_TYPE"),
    ('{"type": ""}', "INVALID_TYPE"),
    ('{"type": "nonsense"}', "INVALID_TYPE"),
    ('{"type": "USER_MESSAGE", "content": "x"}', "INVALID_TYPE"),
    ('{"type": "$connect"}', "INVALID_TYPE"),
    ('{"type": "' + "x" * 20_000 + '"}', "INVALID_TYPE"),
    ('{"type": "user_message", "content": "on the wrong route"}', "INVALID_TYPE"),
]


@pytest.mark.parametrize(("body", "code"), BAD, ids=[f"{n}-{code}" for n, (_, code) in enumerate(BAD)])
def test_the_sender_alone_is_told_in_one_post(connected: System, body: str | None, code: str) -> None:
    connected.connect("c2")
    before = connected.all_keys(), connected.item("REGISTER")
    assert connected.send_raw("c1", "unknown_message", body) == {"statusCode": 200}
    assert connected.aws.calls == [POST]
    ((connection, error),) = connected.aws.posts
    assert connection == "c1"
    assert (error["type"], error["error_code"]) == ("error", code)
    assert error["content"] == error["message"] != ""
    assert error["retryable"] is False
    assert "seq" not in error
    assert len(error["message"]) < 500, "a refusal does not repeat what it refuses"
    assert (connected.all_keys(), connected.item("REGISTER")) == before


def test_a_sender_who_is_gone_disturbs_nobody(connected: System) -> None:
    connected.function("unknown_message")
    connected.aws.refuse(POST, 410, "GoneException")
    assert connected.send_raw("c1", "unknown_message", "nonsense") == {"statusCode": 200}
    assert connected.aws.posts == []
