"""Verification of tokens (JWT). Imported by the functions that see a token, for it needs PyJWT.

Two ways, and never both: one shared secret (HS256), or the public keys that an identity provider publishes (JWKS). The
algorithms are pinned to the way: a token's header does not choose, so `none` and a public key taken for a secret
cannot pass. Every token says when it was issued and when it ends, so that none is good for ever and a user's tokens can
be revoked.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

import jwt

from codelab import aws
from codelab.config import ConfigurationError, settings
from codelab.gateway.identity import USER_ID, Identity, token_of
from codelab.observability import logger
from codelab.secret import Secret, secret
from codelab.sessions.dynamodb.revocations import DynamoDBRevocations

_SHARED = ["HS256"]
_PUBLISHED = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

#: How long keys and the shared secret are used before they are read again, in seconds.
_KEYS_LIVE_S = 600
#: A token may name a key that we do not know, for keys are rotated; but it may not have us fetch them more often.
_FETCH_AT_MOST_EVERY_S = 10
#: What names a plan.
_PLAN_CHARS = 64
#: How far the issuer's clock may be ahead of ours, in seconds.
_LEEWAY_S = 60


class InvalidToken(Exception):
    """The token is missing, malformed, expired, or not signed by who should have."""


class _WrongSignature(InvalidToken):
    def __init__(self, message: str, key: Any) -> None:
        super().__init__(message)
        self.key = key


class Keys(Protocol):
    """Finds the key that a token must be signed with."""

    algorithms: list[str]

    def find(self, token: str) -> Any:
        """Raises InvalidToken."""

    def renew(self, key: Any) -> bool:
        """A token was not signed with `key`: whether there is another key for it now."""


class SharedSecret:
    """One secret that both sides know. Once it is rotated, only the new one counts."""

    algorithms = _SHARED

    def __init__(self, secret: Secret | str) -> None:
        self._secret = Secret(lambda: secret) if isinstance(secret, str) else secret

    def find(self, token: str) -> Any:
        return self._secret()

    def renew(self, key: Any) -> bool:
        return self._secret.renew(key)


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
        except Exception as error:  # as in `verify`
            raise InvalidToken(str(error)) from None
        age = None if self._fetched is None else self._clock() - self._fetched
        if age is None or age > _KEYS_LIVE_S or (kid not in self._keys and age > _FETCH_AT_MOST_EVERY_S):
            self._fetch()
        if kid not in self._keys:
            raise InvalidToken("the token is signed with an unknown key")
        return self._keys[kid]

    def renew(self, key: Any) -> bool:
        return False  # a rotated key has another `kid`

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
    """Verifies a token's signature, time, and, where they are set, its issuer and audience.

    `exp` and `iat` may be at most `max_age_s` apart. clock: seconds since the epoch.
    """

    def __init__(
        self,
        keys: Keys,
        issuer: str = "",
        audience: str = "",
        max_age_s: int = 86_400,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._issuer = issuer or None
        self._audience = audience or None
        self._max_age_s = max_age_s
        self._clock = clock

    def verify(self, token: str) -> Identity:
        """Who the token speaks for. Raises InvalidToken."""
        try:
            return self._verified(token)
        except _WrongSignature as error:
            if not self._keys.renew(error.key):
                raise
        return self._verified(token)

    def _verified(self, token: str) -> Identity:
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
                options={
                    "require": ["sub", "exp", "iat"],
                    "verify_aud": self._audience is not None,
                    "verify_exp": False,  # both are checked below, as whole numbers
                    "verify_iat": False,
                },
            )
        except jwt.InvalidSignatureError as error:
            raise _WrongSignature(str(error), key) from None
        except Exception as error:  # an infinite nbf, a header nested too deeply: whatever fails here, the token is bad
            raise InvalidToken(str(error)) from None
        user = claims["sub"]
        if not isinstance(user, str) or not USER_ID.fullmatch(user):
            raise InvalidToken("sub must be a string of 1 to 128 characters without '#'")
        plan = claims.get("codelab_plan", "")
        if not isinstance(plan, str) or len(plan) > _PLAN_CHARS:
            raise InvalidToken(f"codelab_plan must be a string of at most {_PLAN_CHARS} characters")
        issued, expires = self._times(claims["iat"], claims["exp"])
        return Identity(user, issued, expires, plan)

    def _times(self, issued: Any, expires: Any) -> tuple[int, int]:
        """`iat` and `exp`, if the token is good now. PyJWT would take "1e9", true and 1.5 for times."""
        if type(issued) is not int or type(expires) is not int or issued < 0:
            raise InvalidToken("iat and exp must be whole numbers of seconds since the epoch")
        now = self._clock()
        if expires <= now:
            raise InvalidToken("the token has expired")
        if issued > now + _LEEWAY_S:
            raise InvalidToken("the token was issued in the future")
        if expires - issued > self._max_age_s + _LEEWAY_S:
            raise InvalidToken(f"exp and iat may be at most {self._max_age_s} seconds apart")
        return issued, expires


def bearer_of() -> Callable[[dict[str, Any]], Identity]:
    """Who sent an event, by its token; raises InvalidToken. Where no tokens are used everyone is the user `local`.

    Whether a token was revoked is one read by key, made when it is known to be good in itself: who has no token causes
    none. A read that fails is raised, and nobody is let in.
    """
    if settings().auth_mode == "none":
        return lambda event: Identity("local")
    verifier = token_verifier()
    client = aws.client("dynamodb")
    aws.warm(client, "get_item", TableName="warm", Key={"pk": {"S": "warm"}})
    revocations = DynamoDBRevocations(client, settings().table_name)

    def bearer(event: dict[str, Any]) -> Identity:
        identity = verifier.verify(token_of(event))
        if identity.issued <= revocations.revoked_at(identity.user):
            raise InvalidToken("the token was revoked")
        return identity

    return bearer


def token_verifier() -> TokenVerifier:
    """The verifier that the environment asks for. Made at init: it may read the secret from Secrets Manager.

    Raises ConfigurationError without a key: an empty one would let everybody sign.
    """
    configured = settings()
    keys: Keys
    if configured.jwks_url:
        keys = PublishedKeys(configured.jwks_url)
    else:
        shared = secret(configured.jwt_secret, configured.jwt_secret_arn, keep_s=_KEYS_LIVE_S)
        if not shared():
            raise ConfigurationError("AUTH_MODE=jwt needs a key to verify tokens with; set JWT_SECRET or JWKS_URL")
        keys = SharedSecret(shared)
    return TokenVerifier(keys, configured.jwt_issuer, configured.jwt_audience, configured.jwt_max_age_s)
