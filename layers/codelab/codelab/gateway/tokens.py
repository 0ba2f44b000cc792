"""Verifies tokens (JWT). Only functions that see a token import this, because it needs PyJWT.

A deployment uses one of two methods: a shared secret (HS256), or the public keys of an identity provider (JWKS). Each
has a fixed list of algorithms. The token's header does not choose one, so `none` is refused, and a public key cannot
pass for a secret. Every token must say when it was issued and when it expires, so that no token lasts forever and a
user's tokens can be revoked.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from codelab import aws
from codelab.config import ConfigurationError, settings
from codelab.gateway.identity import USER_ID, Identity, token_of
from codelab.observability import logger
from codelab.process_start import import_pyjwt
from codelab.secret import Secret, secret
from codelab.sessions.dynamodb.revocations import DynamoDBRevocations

_SHARED_ALGORITHMS = ["HS256"]
_PUBLISHED = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

#: How long keys and the shared secret are used before they are read again, in seconds.
_KEYS_LIVE_S = 600
#: Keys rotate, so a token with an unknown key makes us fetch them again, but not more often than this, in seconds.
_FETCH_AT_MOST_EVERY_S = 10
#: The most characters of a plan's name.
_PLAN_CHARS = 64
#: How far the issuer's clock may be ahead of ours, in seconds.
_LEEWAY_S = 60


class InvalidToken(Exception):
    """The token is missing, malformed, expired, or not signed with an accepted key."""


class _WrongSignature(InvalidToken):
    def __init__(self, message: str, key: Any) -> None:
        super().__init__(message)
        self.key = key


class Keys(Protocol):
    """Finds the key that must have signed a token."""

    algorithms: list[str]

    def find(self, token: str) -> Any:
        """The key for a token. Raises InvalidToken."""

    def renew(self, key: Any) -> bool:
        """Look for another key after a signature did not match `key`. Returns whether there is one."""


class SharedSecret:
    """One secret that both sides know. After a rotation, only the new one is accepted."""

    algorithms = _SHARED_ALGORITHMS

    def __init__(self, secret: Secret | str) -> None:
        self._secret = Secret(lambda: secret) if isinstance(secret, str) else secret

    def find(self, token: str) -> Any:
        return self._secret()

    def renew(self, key: Any) -> bool:
        return self._secret.renew(key)


class PublishedKeys:
    """The keys at a JWKS address. They are fetched when needed and kept; an unknown `kid` fetches them again."""

    algorithms = _PUBLISHED

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self._jwt = import_pyjwt(with_keys=True)
        self._client = self._jwt.PyJWKClient(url, cache_keys=False, cache_jwk_set=False, timeout=3)
        self._clock = clock
        self._keys: dict[str, Any] = {}
        self._fetched_at: float | None = None

    def find(self, token: str) -> Any:
        try:
            kid = self._jwt.get_unverified_header(token).get("kid", "")
        except Exception as error:  # as in `verify`
            raise InvalidToken(str(error)) from None
        age = None if self._fetched_at is None else self._clock() - self._fetched_at
        if age is None or age > _KEYS_LIVE_S or (kid not in self._keys and age > _FETCH_AT_MOST_EVERY_S):
            self._fetch()
        if kid not in self._keys:
            raise InvalidToken("the token is signed with an unknown key")
        return self._keys[kid]

    def renew(self, key: Any) -> bool:
        return False  # a rotated key has another `kid`

    def _fetch(self) -> None:
        self._fetched_at = self._clock()
        try:
            signing_keys = self._client.get_signing_keys()
        except self._jwt.PyJWKClientError as error:
            if not self._keys:
                raise InvalidToken(f"the signing keys cannot be fetched: {error}") from None
            logger().warning("the signing keys cannot be fetched; the old ones are kept", extra={"error": str(error)})
            return
        self._keys = {key.key_id or "": key.key for key in signing_keys}


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
        self._jwt = import_pyjwt(with_keys=isinstance(keys, PublishedKeys))
        self._keys = keys
        self._issuer = issuer or None
        self._audience = audience or None
        self._max_age_s = max_age_s
        self._clock = clock

    def verify(self, token: str) -> Identity:
        """The identity of the token's subject. Raises InvalidToken."""
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
            claims = self._jwt.decode(
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
        except self._jwt.InvalidSignatureError as error:
            raise _WrongSignature(str(error), key) from None
        except Exception as error:  # such as an infinite nbf or a header nested too deeply
            raise InvalidToken(str(error)) from None
        user = claims["sub"]
        if not isinstance(user, str) or not USER_ID.fullmatch(user):
            raise InvalidToken("sub must be a string of 1 to 128 characters without '#'")
        plan = claims.get("codelab_plan", "")
        if not isinstance(plan, str) or len(plan) > _PLAN_CHARS:
            raise InvalidToken(f"codelab_plan must be a string of at most {_PLAN_CHARS} characters")
        issued_at, expires = self._times(claims["iat"], claims["exp"])
        return Identity(user, issued_at, expires, plan)

    def _times(self, issued_at: Any, expires: Any) -> tuple[int, int]:
        """`iat` and `exp`, if the token is valid now. PyJWT would accept "1e9", true and 1.5 as times."""
        if type(issued_at) is not int or type(expires) is not int or issued_at < 0:
            raise InvalidToken("iat and exp must be whole numbers of seconds since the epoch")
        now = self._clock()
        if expires <= now:
            raise InvalidToken("the token has expired")
        if issued_at > now + _LEEWAY_S:
            raise InvalidToken("the token was issued in the future")
        if expires - issued_at > self._max_age_s + _LEEWAY_S:
            raise InvalidToken(f"exp and iat may be at most {self._max_age_s} seconds apart")
        return issued_at, expires


def bearer_of() -> Callable[[dict[str, Any]], Identity]:
    """A function that returns the identity in an event's token. Without tokens, everyone is the user `local`.

    The function raises InvalidToken. Only for a valid token does it read, by key, whether the token was revoked. If the
    read fails, its error is raised, and nobody gets in.
    """
    if settings().auth_mode == "none":
        return lambda event: Identity("local")
    verifier = token_verifier()
    revocations = DynamoDBRevocations(aws.dynamodb_client(), settings().table_name)

    def bearer(event: dict[str, Any]) -> Identity:
        identity = verifier.verify(token_of(event))
        if identity.issued <= revocations.revoked_at(identity.user):
            raise InvalidToken("the token was revoked")
        return identity

    return bearer


def token_verifier() -> TokenVerifier:
    """The verifier for the environment's settings. Make it at init: it may read the secret from Secrets Manager.

    Raises ConfigurationError without a key, because anyone could sign with an empty one.
    """
    config = settings()
    keys: Keys
    if config.jwks_url:
        keys = PublishedKeys(config.jwks_url)
    else:
        shared_secret = secret(config.jwt_secret, config.jwt_secret_arn, keep_s=_KEYS_LIVE_S)
        if not shared_secret():
            raise ConfigurationError("AUTH_MODE=jwt needs a key to verify tokens with; set JWT_SECRET or JWKS_URL")
        keys = SharedSecret(shared_secret)
    return TokenVerifier(keys, config.jwt_issuer, config.jwt_audience, config.jwt_max_age_s)
