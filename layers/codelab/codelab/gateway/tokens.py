"""Verification of tokens (JWT). Imported by the functions that see a token, for it needs PyJWT.

Two ways, and never both: one shared secret (HS256), or the public keys that an identity provider publishes (JWKS). The
algorithms are pinned to the way: a token's header does not choose, so `none` and a public key taken for a secret
cannot pass.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jwt

from codelab.config import ConfigurationError, secret, settings
from codelab.gateway.identity import USER_ID, token_of
from codelab.observability import logger

_SHARED = ["HS256"]
_PUBLISHED = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

#: How long published keys are used before they are fetched again, in seconds.
_KEYS_LIVE_S = 600
#: A token may name a key that we do not know, for keys are rotated; but it may not have us fetch them more often.
_FETCH_AT_MOST_EVERY_S = 10


class InvalidToken(Exception):
    """The token is missing, malformed, expired, or not signed by who should have."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The subject of a valid token, and when it ends (seconds since the epoch, 0 never)."""

    user: str
    expires: int


class Keys(Protocol):
    """Finds the key that a token must be signed with."""

    algorithms: list[str]

    def find(self, token: str) -> Any:
        """Raises InvalidToken."""


class SharedSecret:
    """One secret that both sides know."""

    algorithms = _SHARED

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def find(self, token: str) -> Any:
        return self._secret


class PublishedKeys:
    """The keys at a JWKS address, fetched when they are needed and kept; a new `kid` has them fetched anew."""

    algorithms = _PUBLISHED

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = jwt.PyJWKClient(url, cache_keys=False, cache_jwk_set=False, timeout=3)
        self._clock = clock
        self._keys: dict[str, Any] = {}
        self._fetched: float | None = None

    def find(self, token: str) -> Any:
        try:
            kid = jwt.get_unverified_header(token).get("kid", "")
        except jwt.InvalidTokenError as error:
            raise InvalidToken(str(error)) from None
        age = None if self._fetched is None else self._clock() - self._fetched
        if age is None or age > _KEYS_LIVE_S or (kid not in self._keys and age > _FETCH_AT_MOST_EVERY_S):
            self._fetch()
        if kid not in self._keys:
            raise InvalidToken("the token is signed with an unknown key")
        return self._keys[kid]

    def _fetch(self) -> None:
        self._fetched = self._clock()
        try:
            found = self._client.get_signing_keys()
        except jwt.PyJWKClientError as error:
            if not self._keys:
                raise InvalidToken(f"the signing keys cannot be fetched: {error}") from None
            logger().warning("no new signing keys, going on with the old", extra={"error": str(error)})
            return
        self._keys = {key.key_id or "": key.key for key in found}


class TokenVerifier:
    """Verifies a token's signature, time, and, where they are set, its issuer and audience."""

    def __init__(self, keys: Keys, issuer: str = "", audience: str = "") -> None:
        self._keys = keys
        self._issuer = issuer or None
        self._audience = audience or None

    def verify(self, token: str) -> Identity:
        """Who the token speaks for. Raises InvalidToken."""
        if not token:
            raise InvalidToken("no token")
        key = self._keys.find(token)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=self._keys.algorithms,
                issuer=self._issuer,
                audience=self._audience,
                options={"require": ["sub"], "verify_aud": self._audience is not None},
            )
        except (jwt.InvalidTokenError, TypeError, ValueError) as error:
            raise InvalidToken(str(error)) from None
        user = claims["sub"]
        if not isinstance(user, str) or not USER_ID.fullmatch(user):
            raise InvalidToken("sub must be a string of 1 to 128 characters without '#'")
        return Identity(user=user, expires=int(claims.get("exp", 0)))


def bearer_of() -> Callable[[dict[str, Any]], Identity]:
    """Who sent an event, by its token; raises InvalidToken. Where no tokens are used everyone is the user `local`."""
    if settings().auth_mode == "none":
        return lambda event: Identity("local", 0)
    verifier = token_verifier()
    return lambda event: verifier.verify(token_of(event))


def token_verifier() -> TokenVerifier:
    """The verifier that the environment asks for. Made at init: it may read the secret from Secrets Manager.

    Raises ConfigurationError without a key: an empty one would let everybody sign.
    """
    configured = settings()
    keys: Keys
    if configured.jwks_url:
        keys = PublishedKeys(configured.jwks_url)
    else:
        shared = secret(configured.jwt_secret, configured.jwt_secret_arn)
        if not shared:
            raise ConfigurationError("AUTH_MODE=jwt needs a key to verify tokens with; set JWT_SECRET or JWKS_URL")
        keys = SharedSecret(shared)
    return TokenVerifier(keys, configured.jwt_issuer, configured.jwt_audience)
