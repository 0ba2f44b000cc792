"""What the answers to one post mean, and how long a refused one is tried again."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from codelab.delivery import post as module
from codelab.delivery.post import Outcome, Poster, pauses

URL = "https://connections.invalid"


def refusal(status: int) -> ClientError:
    answer: Any = {"Error": {"Code": str(status), "Message": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "PostToConnection")


class Client:
    """Gives each answer in turn, and then is content."""

    def __init__(self, *answers: Exception) -> None:
        self._answers = list(answers)
        self.posts: list[bytes] = []

    def post_to_connection(self, **parameters: Any) -> None:
        self.posts.append(parameters["Data"])
        if self._answers:
            raise self._answers.pop(0)


def poster(client: Client) -> Poster:
    return Poster(lambda: client, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (refusal(410), Outcome.GONE),
        (refusal(429), Outcome.REFUSED),
        (EndpointConnectionError(endpoint_url=URL), Outcome.REFUSED),
        (ConnectTimeoutError(endpoint_url=URL), Outcome.REFUSED),
        (ReadTimeoutError(endpoint_url=URL), Outcome.UNKNOWN),
        (refusal(500), Outcome.UNKNOWN),
        (refusal(403), Outcome.DONE),
        (refusal(413), Outcome.DONE),
    ],
    ids=["gone", "throttled", "not reached", "no connection in time", "no answer in time", "failed", "403", "413"],
)
def test_an_answer_says_whether_the_frame_is_there(answer, outcome):
    assert poster(Client(answer)).attempt("c1", {"type": "pong"}) is outcome


def test_a_frame_is_compact_json_in_utf8():
    client = Client()
    assert poster(client).attempt("c1", {"type": "pong", "text": "Привет"}) is Outcome.DONE
    assert client.posts == ['{"type":"pong","text":"Привет"}'.encode()]


def test_only_what_is_surely_not_there_is_repeated_to_a_client_that_shows_repeats():
    assert Outcome.REFUSED.may_repeat(drops_repeats=False)
    assert not Outcome.UNKNOWN.may_repeat(drops_repeats=False)
    assert Outcome.UNKNOWN.may_repeat(drops_repeats=True)
    assert not any(outcome.may_repeat(drops_repeats=True) for outcome in (Outcome.DONE, Outcome.GONE))


def test_a_reply_that_is_throttled_is_posted_again():
    client = Client(refusal(429), refusal(429))
    assert poster(client).post("c1", {"type": "pong"}) is Outcome.DONE
    assert len(client.posts) == 3


def test_who_is_gone_is_not_posted_to_again():
    client = Client(refusal(429), refusal(410))
    assert poster(client).post("c1", {"type": "pong"}) is Outcome.GONE
    assert len(client.posts) == 2


def test_patience_has_an_end_and_the_pauses_grow(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    found = []
    for pause in pauses(4.0):
        found.append(pause)
        now[0] += pause
    assert sum(found) == pytest.approx(4.0)
    assert max(found) <= 1.0
    assert sum(found[:3]) < 0.4
    assert 6 <= len(found) <= 20
    assert list(pauses(0.0)) == []
