"""How a server identifies itself to a push service: a signed token and the key that signed it (RFC 8292, "VAPID").

The key is one of KMS's, for P-256. It gives keys and signatures as DER, where the RFC has the numbers themselves.
"""

import base64
import json
from collections.abc import Callable
from urllib.parse import urlsplit

#: How long a token is valid, in seconds: RFC 8292 allows 24 hours, and a clock may be wrong.
LIFE_S = 12 * 3600
#: How long before its end a new one is made.
_MARGIN_S = 3600
#: What is before the point in a SubjectPublicKeyInfo of P-256 with an uncompressed point (RFC 5480).
_P256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
_POINT_BYTES, _NUMBER_BYTES = 65, 32


class Vapid:
    """Authorizes pushes. A token is made once for each push service, and used for half a day.

    public_key: as DER. sign: gives the signature of a message's SHA-256, as DER. contact: an https or mailto address of
    who operates the server, which some push services insist on. clock: seconds since the epoch. Raises ValueError for a
    key that is not of P-256.
    """

    def __init__(
        self, public_key: bytes, sign: Callable[[bytes], bytes], contact: str, clock: Callable[[], float]
    ) -> None:
        self.key = application_server_key(public_key)
        self._sign, self._contact, self._clock = sign, contact, clock
        self._tokens: dict[str, tuple[str, int]] = {}

    def authorization(self, endpoint: str) -> str:
        """The header `Authorization` of a push to an endpoint. Raises what `sign` raises."""
        parts = urlsplit(endpoint)
        audience, now = f"{parts.scheme}://{parts.netloc}", int(self._clock())
        token, expires = self._tokens.get(audience, ("", 0))
        if expires < now + _MARGIN_S:
            token, expires = self._token(audience, now + LIFE_S), now + LIFE_S
            self._tokens[audience] = token, expires
        return f"vapid t={token}, k={self.key}"

    def _token(self, audience: str, expires: int) -> str:
        claims = {"aud": audience, "exp": expires, "sub": self._contact}
        signing_input = f"{_encoded({'typ': 'JWT', 'alg': 'ES256'})}.{_encoded(claims)}"
        return f"{signing_input}.{_base64url(raw_signature(self._sign(signing_input.encode())))}"


def application_server_key(public_key: bytes) -> str:
    """The key as a browser takes it, and as `k`: the uncompressed point. Raises ValueError if it is not of P-256."""
    if not public_key.startswith(_P256 + b"\x04") or len(public_key) != len(_P256) + _POINT_BYTES:
        raise ValueError("the key is not one of P-256")
    return _base64url(public_key[len(_P256) :])


def raw_signature(der: bytes) -> bytes:
    """R and S, 32 bytes each (RFC 7518, section 3.4), of an ECDSA signature as DER. Raises ValueError."""
    try:
        if der[0] != 0x30 or der[1] != len(der) - 2:
            raise ValueError("no sequence")
        r, remainder = _number(der[2:])
        s, remainder = _number(remainder)
        if remainder:
            raise ValueError("more than two numbers")
        return r.to_bytes(_NUMBER_BYTES) + s.to_bytes(_NUMBER_BYTES)
    except (IndexError, OverflowError) as error:
        raise ValueError(f"the signature is not one of P-256: {error}") from None


def _number(der: bytes) -> tuple[int, bytes]:
    """The first INTEGER, and what follows it."""
    size = der[1]
    if der[0] != 0x02 or not 0 < size <= len(der) - 2:
        raise ValueError("no number")
    return int.from_bytes(der[2 : 2 + size]), der[2 + size :]


def _encoded(part: dict[str, object]) -> str:
    return _base64url(json.dumps(part, separators=(",", ":")).encode())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
