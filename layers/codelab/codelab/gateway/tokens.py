"""Verification of tokens (JWT, HS256). Imported by the functions that see a token, for it needs PyJWT."""

from dataclasses import dataclass

import jwt

from codelab.gateway.identity import USER_ID


class InvalidToken(Exception):
    """The token is missing, malformed, expired, or not signed by us."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The subject of a valid token, and when it ends (seconds since the epoch, 0 never)."""

    user: str
    expires: int


class TokenVerifier:
    """Verifies with one shared secret. The algorithm is pinned: the token's header does not choose it."""

    def __init__(self, secret: str, issuer: str = "", audience: str = "") -> None:
        self._secret = secret
        self._issuer = issuer or None
        self._audience = audience or None

    def verify(self, token: str) -> Identity:
        """Who the token speaks for. Raises InvalidToken."""
        if not token:
            raise InvalidToken("no token")
        if not self._secret:
            raise InvalidToken("no JWT_SECRET is configured")
        try:
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                issuer=self._issuer,
                audience=self._audience,
                options={"require": ["sub"], "verify_aud": self._audience is not None},
            )
        except jwt.InvalidTokenError as error:
            raise InvalidToken(str(error)) from None
        user = claims["sub"]
        if not isinstance(user, str) or not USER_ID.fullmatch(user):
            raise InvalidToken("sub must be a string of 1 to 128 characters without '#'")
        return Identity(user=user, expires=int(claims.get("exp", 0)))
