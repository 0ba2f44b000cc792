"""An identity provider, which publishes the public keys of the tokens that it signs."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.fakes.http import POLL_S


class Provider:
    """An identity provider that publishes its keys, and counts how often it is asked for them."""

    def __init__(self) -> None:
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.asked = 0
        self.away = False
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                body = b"gone" if provider.away else json.dumps(provider.published()).encode()
                self.send_response(503 if provider.away else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks.json"
        threading.Thread(target=self.server.serve_forever, args=(POLL_S,), daemon=True).start()

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
