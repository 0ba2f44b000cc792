"""A secret that is rotated while processes live: no redeployment, and no call of AWS for each wrong token."""

import threading
import time

import jwt
import pytest
from codelab.gateway.tokens import InvalidToken, SharedSecret, TokenVerifier
from codelab.secret import Secret

OLD = "the old secret, which is long enough for HS256"
NEW = "the new secret, which is long enough for HS256"


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Kept:
    """What Secrets Manager keeps, and how often it was asked."""

    def __init__(self) -> None:
        self.value = OLD
        self.asked = 0
        self.away = False

    def __call__(self) -> str:
        self.asked += 1
        if self.away:
            raise ConnectionError("Secrets Manager is away")
        return self.value


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def verifier(kept: Kept, clock: Clock) -> TokenVerifier:
    return TokenVerifier(SharedSecret(Secret(kept, keep_s=600, clock=clock)))


def token(secret: str) -> str:
    return jwt.encode({"sub": "ann", "iat": int(time.time()), "exp": int(time.time()) + 600}, secret, algorithm="HS256")


def test_a_token_signed_with_the_new_secret_is_accepted_at_once(verifier: TokenVerifier, kept: Kept) -> None:
    assert verifier.verify(token(OLD)).user == "ann"
    kept.value = NEW
    assert verifier.verify(token(NEW)).user == "ann"
    assert kept.asked == 2


def test_a_token_signed_with_the_old_secret_ends_with_it(verifier: TokenVerifier, kept: Kept, clock: Clock) -> None:
    kept.value = NEW
    assert verifier.verify(token(OLD)).user == "ann", "nobody has told this process yet"
    clock.now += 601
    with pytest.raises(InvalidToken):
        verifier.verify(token(OLD))
    assert verifier.verify(token(NEW)).user == "ann"


def test_forged_tokens_have_the_secret_read_once_a_minute(verifier: TokenVerifier, kept: Kept, clock: Clock) -> None:
    for _ in range(100):
        with pytest.raises(InvalidToken, match="Signature"):
            verifier.verify(token("a guess that is long enough for HS256 as well"))
    assert kept.asked == 2
    clock.now += 59
    with pytest.raises(InvalidToken):
        verifier.verify(token("another guess, long enough for HS256 as well"))
    assert kept.asked == 2
    clock.now += 1
    kept.value = NEW
    assert verifier.verify(token(NEW)).user == "ann"
    assert kept.asked == 3


@pytest.mark.parametrize("bad", ["", "not.a.token", jwt.encode({"sub": "a", "exp": 1}, OLD, algorithm="HS256")])
def test_a_token_that_is_wrong_in_another_way_has_nothing_read(verifier: TokenVerifier, kept: Kept, bad: str) -> None:
    with pytest.raises(InvalidToken):
        verifier.verify(bad)
    assert kept.asked == 1


def test_nobody_is_locked_out_while_the_secret_cannot_be_read(
    verifier: TokenVerifier, kept: Kept, clock: Clock
) -> None:
    kept.away = True
    with pytest.raises(InvalidToken):
        verifier.verify(token(NEW))
    clock.now += 601
    assert verifier.verify(token(OLD)).user == "ann"


def test_requests_that_meet_the_rotation_at_once_are_all_accepted(verifier: TokenVerifier, kept: Kept) -> None:
    kept.value = NEW
    users: list[str] = []
    good = token(NEW)
    threads = [threading.Thread(target=lambda: users.append(verifier.verify(good).user)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert users == ["ann"] * 8
    assert kept.asked == 2
