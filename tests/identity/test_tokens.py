"""Tokens: who may speak, and every way to pretend."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from codelab.gateway.tokens import InvalidToken, PublishedKeys, SharedSecret, TokenVerifier
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.cases import cases
from tests.identity.provider import Provider

SECRET = "a secret that is long enough for the purpose"


def claims(**others: object) -> dict[str, object]:
    """Those of a good token; None leaves one out."""
    now = int(time.time())
    found = {"sub": "ann", "iat": now, "exp": now + 600, **others}
    return {name: value for name, value in found.items() if value is not None}


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        running.new_key("first")
        yield running


def test_published_keys_are_fetched_once_and_kept(provider: Provider) -> None:
    verifier = TokenVerifier(PublishedKeys(provider.url, Clock()))
    for _ in range(5):
        assert verifier.verify(provider.token("first")).user == "ann"
    assert provider.asked == 1


def test_a_rotated_key_is_found(provider: Provider) -> None:
    clock = Clock()
    verifier = TokenVerifier(PublishedKeys(provider.url, clock))
    verifier.verify(provider.token("first"))
    provider.new_key("second")
    clock.now += 11
    assert verifier.verify(provider.token("second")).user == "ann"


def test_a_key_that_was_taken_back_ends_with_the_kept_ones(provider: Provider) -> None:
    clock = Clock()
    verifier = TokenVerifier(PublishedKeys(provider.url, clock))
    token = provider.token("first")
    verifier.verify(token)
    provider.keys.clear()
    provider.new_key("second")
    clock.now += 601
    with pytest.raises(InvalidToken, match="unknown key"):
        verifier.verify(token)


def test_tokens_with_invented_keys_do_not_have_the_provider_asked_each_time(provider: Provider) -> None:
    verifier = TokenVerifier(PublishedKeys(provider.url, Clock()))
    forged = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for n in range(20):
        with pytest.raises(InvalidToken):
            verifier.verify(jwt.encode(claims(), forged, algorithm="RS256", headers={"kid": f"invented{n}"}))
    assert provider.asked == 1


def test_a_provider_that_is_away_for_a_moment_locks_nobody_out(provider: Provider) -> None:
    clock = Clock()
    verifier = TokenVerifier(PublishedKeys(provider.url, clock))
    verifier.verify(provider.token("first"))
    provider.away = True
    clock.now += 601
    assert verifier.verify(provider.token("first")).user == "ann"


def test_a_public_key_is_not_taken_for_a_shared_secret(provider: Provider) -> None:
    verifier = TokenVerifier(PublishedKeys(provider.url, Clock()))
    public = provider.keys["first"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = _part({"alg": "HS256", "typ": "JWT", "kid": "first"})
    body = _part(claims())
    signature = hmac.new(public, f"{header}.{body}".encode(), hashlib.sha256).digest()
    forged = f"{header}.{body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    with pytest.raises(InvalidToken):
        verifier.verify(forged)


@pytest.mark.parametrize("published", [False, True])
def test_an_unsigned_token_is_refused(provider: Provider, published: Any) -> None:
    keys = PublishedKeys(provider.url, Clock()) if published else SharedSecret(SECRET)
    unsigned = f"{_part({'alg': 'none', 'typ': 'JWT', 'kid': 'first'})}.{_part(claims())}."
    with pytest.raises(InvalidToken):
        TokenVerifier(keys).verify(unsigned)


def test_a_token_of_another_kind_of_key_is_refused() -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(InvalidToken):
        TokenVerifier(SharedSecret(SECRET)).verify(jwt.encode(claims(), other, algorithm="ES256"))


@cases(
    "wrong",
    [
        {"sub": None},
        {"sub": ""},
        {"sub": "ann#eve"},
        {"exp": int(time.time()) - 1},
        {"nbf": int(time.time()) + 86_400},
        {"iss": "somebody"},
        {"iss": None},
        {"aud": "somebody"},
        {"aud": None},
    ],
    ids=["no sub", "empty sub", "sub of two", "expired", "not yet", "other iss", "no iss", "other aud", "no aud"],
)
def test_claims_that_do_not_fit_are_refused(wrong: str) -> None:
    verifier = TokenVerifier(SharedSecret(SECRET), issuer="issuer", audience="us")
    good = claims(iss="issuer", aud="us")
    assert verifier.verify(jwt.encode(good, SECRET, algorithm="HS256")).user == "ann"
    with pytest.raises(InvalidToken):
        verifier.verify(jwt.encode(claims(**{**good, **wrong}), SECRET, algorithm="HS256"))


def test_a_tampered_token_is_refused() -> None:
    header, body, signature = jwt.encode(claims(), SECRET, algorithm="HS256").split(".")
    with pytest.raises(InvalidToken):
        TokenVerifier(SharedSecret(SECRET)).verify(f"{header}.{_part(claims(sub='eve'))}.{signature}")
    with pytest.raises(InvalidToken):
        TokenVerifier(SharedSecret(SECRET)).verify(f"{header}.{body}")


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
