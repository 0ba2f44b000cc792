"""An identity provider, which publishes the public keys of the tokens that it signs."""

import time

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.fakes.http import Exchange, HttpServer, response


class Provider(HttpServer):
    """An identity provider that publishes its keys, and counts how often it is asked for them."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.away = False

    @property
    def url(self) -> str:
        return f"{super().url}/jwks.json"

    @property
    def asked(self) -> int:
        return len(self.received)

    def handle(self, exchange: Exchange) -> None:
        exchange.send(response(503, b"gone") if self.away else response(200, self.published()))

    def published(self) -> dict[str, object]:
        algorithm = jwt.algorithms.RSAAlgorithm
        keys = [{**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid} for kid, key in self.keys.items()]
        return {"keys": keys}

    def new_key(self, kid: str) -> None:
        self.keys[kid] = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, kid: str, **claims: object) -> str:
        now = int(time.time())
        body = {"sub": "ann", "iat": now, "exp": now + 600, **claims}
        return jwt.encode(body, self.keys[kid], algorithm="RS256", headers={"kid": kid})
