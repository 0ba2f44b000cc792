"""What the answers to one post mean, and how long a refused one is tried again."""

from typing import Any

import pytest
from codelab.aws.errors import AwsTimeout, AwsUnreachable
from codelab.delivery import post as module
from codelab.delivery.post import Poster, PostResult, pauses

from tests.cases import cases


class Api:
    """Gives each answer in turn, a status or an error, and then is content."""

    def __init__(self, *answers: int | Exception) -> None:
        self._answers = list(answers)
        self.posts: list[bytes] = []

    def post(self, connection_id: str, data: bytes) -> int:
        self.posts.append(data)
        answer = self._answers.pop(0) if self._answers else 200
        if isinstance(answer, Exception):
            raise answer
        return answer


def poster(api: Api) -> Poster:
    return Poster(lambda: api, None)  # type: ignore[arg-type, return-value]


@cases(
    ("answer", "outcome"),
    [
        (200, PostResult.DONE),
        (410, PostResult.GONE),
        (429, PostResult.REFUSED),
        (AwsUnreachable("refused", never_arrived=True), PostResult.REFUSED),
        (AwsTimeout("no answer"), PostResult.UNKNOWN),
        (AwsUnreachable("the connection was closed"), PostResult.UNKNOWN),
        (500, PostResult.UNKNOWN),
        (403, PostResult.DONE),
        (413, PostResult.DONE),
    ],
    ids=str,
)
def test_an_answer_says_whether_the_frame_is_there(answer: Any, outcome: Any) -> None:
    assert poster(Api(answer)).attempt("c1", {"type": "pong"}) is outcome


def test_a_frame_is_compact_json_in_utf8() -> None:
    api = Api()
    assert poster(api).attempt("c1", {"type": "pong", "text": "Привет"}) is PostResult.DONE
    assert api.posts == ['{"type":"pong","text":"Привет"}'.encode()]


def test_only_what_is_surely_not_there_is_repeated_to_a_client_that_shows_repeats() -> None:
    assert PostResult.REFUSED.may_repeat(drops_repeats=False)
    assert not PostResult.UNKNOWN.may_repeat(drops_repeats=False)
    assert PostResult.UNKNOWN.may_repeat(drops_repeats=True)
    assert not any(outcome.may_repeat(drops_repeats=True) for outcome in (PostResult.DONE, PostResult.GONE))


def test_a_reply_that_is_throttled_is_posted_again() -> None:
    api = Api(429, 429)
    assert poster(api).post("c1", {"type": "pong"}) is PostResult.DONE
    assert len(api.posts) == 3


def test_who_is_gone_is_not_posted_to_again() -> None:
    api = Api(429, 410)
    assert poster(api).post("c1", {"type": "pong"}) is PostResult.GONE
    assert len(api.posts) == 2


def test_patience_has_an_end_and_the_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
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
