"""A push service that holds senders to the documents: RFC 8030 (pushes), RFC 8292 (who pushes), RFC 8291 (4096 bytes).

It stands for those of browsers, which nobody can reach from here. It is stricter than some of them: it wants a contact,
as Apple's and Mozilla's do.
"""

import base64
import re
import ssl
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes.http import Exchange, HttpServer

_AUTHORIZATION = re.compile(r"vapid t=([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+), k=([A-Za-z0-9_-]+)")
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")
_URGENCIES = {"very-low", "low", "normal", "high"}
_DAY_S = 86_400


def verified(authorization: str) -> tuple[dict[str, Any], str]:
    """The claims and the key of a header `Authorization`. Raises ValueError or jwt.PyJWTError."""
    parsed = _AUTHORIZATION.fullmatch(authorization)
    if parsed is None:
        raise ValueError("it is not of the scheme vapid")
    token, key = parsed.groups()
    point = base64.urlsafe_b64decode(key + "=" * (-len(key) % 4))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    claims: dict[str, Any] = jwt.decode(token, public, algorithms=["ES256"], options={"verify_aud": False})
    return claims, key


class PushService(HttpServer):
    """`with PushService(folder of a certificate)`. `pushed` are the paths of the pushes that it took.

    `ended`, `unknown`, `busy`, `moved`: names of subscriptions that it answers so. `key`: the only one that it takes.
    """

    def __init__(self, certificate: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        super().__init__(tls=context)
        self.key = ""
        self.pushed: list[str] = []
        self.ended: set[str] = set()
        self.unknown: set[str] = set()
        self.busy: set[str] = set()
        self.moved: set[str] = set()
        #: What it has answered, in order.
        self.answers: list[int] = []

    @property
    def host(self) -> str:
        return f"localhost:{self.port}"

    def endpoint(self, name: str) -> str:
        return f"https://{self.host}/push/{name}"

    def handle(self, exchange: Exchange) -> None:
        exchange.closes = True
        status, headers = self._answer_of(exchange)
        self.answers.append(status)
        if status == 201:
            self.pushed.append(exchange.path)
        exchange.answer(status, b"", {"connection": "close", **headers})

    def _answer_of(self, exchange: Exchange) -> tuple[int, dict[str, str]]:
        headers = exchange.headers
        if exchange.method != "POST":
            return 405, {}
        try:
            claims, key = verified(headers.get("authorization", ""))
        except (ValueError, jwt.PyJWTError):
            return 401, {"www-authenticate": "vapid"}
        contact, expires = str(claims.get("sub")), claims.get("exp", 0)
        is_right = claims.get("aud") == f"https://{self.host}" and time.time() < expires <= time.time() + _DAY_S
        if not is_right or not contact.startswith(("https://", "mailto:")) or key != self.key:
            return 403, {}
        if not headers.get("ttl", "").isdigit() or headers.get("urgency", "normal") not in _URGENCIES:
            return 400, {}
        if "topic" in headers and not _TOPIC.fullmatch(headers["topic"]):
            return 400, {}
        if len(exchange.content) > 4096:
            return 413, {}
        return self._outcome(exchange.path)

    def _outcome(self, path: str) -> tuple[int, dict[str, str]]:
        name = path.rpartition("/")[2]
        if name in self.busy:
            return 429, {"retry-after": "60"}
        if name in self.moved:
            return 307, {"location": f"https://{self.host}/push/elsewhere"}
        if name in self.ended:
            return 410, {}
        return (404, {}) if name in self.unknown else (201, {"location": f"https://{self.host}/message/1"})
