"""An OpenID provider with a user who always agrees, and a server that names it."""

import base64
import hashlib
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt

from tests.fakes.http import Exchange, HttpServer, response

SECRET = "s" * 32


class SignIn(HttpServer):
    """Both, on one port. Tests change what they say.

    discovery, token, answer: fields in place of those of the discovery document, of the token endpoint's answer, and of
    the redirect. auth: of `/client-config`. seconds: a token's life. headers: of every answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.discovery: dict[str, Any] = {}
        self.token: dict[str, Any] = {}
        self.answer: dict[str, str] = {}
        self.identity: dict[str, Any] = {}
        self.seconds = 600
        self.status = 200
        self.pending = 0
        self.asked: list[dict[str, str]] = []
        self.bearers: list[str] = []
        self.revoked: list[str] = []
        self.headers: dict[str, str] = {}
        self.referers: list[str] = []
        self.refresh_tokens = ["refresh-1"]
        self._challenges: dict[str, dict[str, str]] = {}
        self.auth: dict[str, Any] = {"mode": "jwt", "issuer": self.url, "client_id": "codelab-cli"}

    def handle(self, exchange: Exchange) -> None:
        if "referer" in exchange.headers:
            self.referers.append(exchange.headers["referer"])
        if exchange.method == "POST":
            status, found = self.post(exchange.path, dict(parse_qsl(exchange.content.decode())))
        else:
            self.bearers.append(exchange.headers.get("authorization", ""))
            parts = urlsplit(exchange.path)
            status, found = self.get(parts.path, dict(parse_qsl(parts.query)))
        leads = {"Location": found} if status == 302 else {}
        exchange.send(response(status, found, {**leads, **self.headers}))

    def get(self, path: str, query: Mapping[str, str]) -> tuple[int, Any]:
        if path == "/client-config":
            return 200, {"websocket": "/ws/{session_id}", "auth": self.auth, "protocol_version": "1.0"}
        if path == "/.well-known/openid-configuration":
            names = {"authorization": "authorize", "token": "token", "device_authorization": "device"}
            endpoints = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in names.items()}
            endpoints["revocation_endpoint"] = f"{self.url}/revoke"
            return 200, {"issuer": self.url, **endpoints, "scopes_supported": ["offline_access"], **self.discovery}
        if path == "/authorize":
            self.asked.append(dict(query))
            code = f"code-{len(self.asked)}"
            self._challenges[code] = dict(query)
            answer = {"code": code, "state": query["state"], **self.answer}
            return 302, f"{query['redirect_uri']}?{urlencode(answer)}"
        return self.status, {"sessions": []} if self.status == 200 else {"error": {"message": "no"}}

    def post(self, path: str, form: Mapping[str, str]) -> tuple[int, Any]:
        self.asked.append(dict(form))
        if path == "/device":
            return 200, {
                "device_code": "d",
                "user_code": "AB-CD",
                "verification_uri": f"{self.url}/go",
                "interval": 1,
                "expires_in": 20,
            }
        if path == "/revoke":
            self.revoked.append(form["token"])
            return 200, {}
        nonce = None
        if form["grant_type"] == "authorization_code":
            begun = self._challenges.pop(form.get("code", ""), None)
            if begun is None:
                return 400, {"error": "invalid_grant"}
            hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(hashed).rstrip(b"=").decode() != begun["code_challenge"]:
                return 400, {"error": "invalid_grant"}
            if form["redirect_uri"] != begun["redirect_uri"]:
                return 400, {"error": "invalid_grant"}
            nonce = begun["nonce"]
        elif form["grant_type"] == "refresh_token":
            if form["refresh_token"] != self.refresh_tokens[-1]:
                return 400, {"error": "invalid_grant"}
            self.refresh_tokens.append(f"refresh-{len(self.refresh_tokens) + 1}")
        elif self.pending:
            self.pending -= 1
            return 400, {"error": "authorization_pending"}
        identity = self.signed(**{"aud": "codelab-cli", "nonce": nonce, **self.identity})
        given = {"access_token": self.signed(), "id_token": identity, "refresh_token": self.refresh_tokens[-1]}
        return 200, {**given, **self.token}

    def signed(self, **claims: Any) -> str:
        now = int(time.time())
        body = {"sub": "ann", "iss": self.url, "iat": now, "exp": now + self.seconds, **claims}
        return jwt.encode(body, SECRET, algorithm="HS256")
