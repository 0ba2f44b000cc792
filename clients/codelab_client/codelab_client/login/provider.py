"""An OpenID provider: what it says of itself, and the tokens that it gives.

OpenID Connect Core and Discovery 1.0, OAuth 2.0 (RFC 6749) with PKCE (RFC 7636) and the device flow (RFC 8628).
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from codelab_client.login.errors import LoginError
from codelab_client.login.kept import Login
from codelab_client.safe_text import safe_line
from codelab_client.session import http
from codelab_client.session.address import is_loopback
from codelab_client.session.tokens import claims

#: Plain ASCII without a user name, so that the host that a user reads is the host that is asked.
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~%/:+,-]*)?(\?[A-Za-z0-9._~%/:+,=&-]*)?")
_TIMEOUT_S = 15.0


class Refusal(LoginError):
    """The provider refused. code: of OAuth, such as `access_denied`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Client:
    """The OAuth client that a user signs in with, and its issuer. audience: the server's; may be empty."""

    issuer: str
    client_id: str
    audience: str = ""

    @property
    def host(self) -> str:
        """The issuer's host and port."""
        return urlsplit(self.issuer).netloc


def checked_issuer(issuer: object) -> str:
    """The issuer itself. Raises LoginError if it is not an `https` address that a user can read."""
    if not isinstance(issuer, str) or not _ADDRESS.fullmatch(issuer) or "?" in issuer:
        raise LoginError(f"The server names an issuer that is no address: {safe_line(issuer)}")
    if not _is_safe(issuer):
        raise LoginError(f"The server names an issuer without https, which anybody can imitate: {safe_line(issuer)}")
    return issuer


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname)


class Provider:
    """The provider of a client, by its discovery document."""

    def __init__(self, client: Client, metadata: Mapping[str, Any]) -> None:
        self.client, self._metadata = client, metadata

    @classmethod
    async def discover(cls, client: Client) -> "Provider":
        """Ask the issuer about itself. Raises LoginError, also if the answer is another issuer's."""
        checked_issuer(client.issuer)
        url = f"{client.issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = await _ask("GET", url)
        if metadata.get("issuer") != client.issuer:
            raise LoginError(
                f"{client.host} says that it is {safe_line(metadata.get('issuer'))}, but the server names "
                f"{client.issuer}: one of them is wrong, so nobody is signed in"
            )
        return cls(client, metadata)

    def has(self, endpoint: str) -> bool:
        """Whether the provider has an endpoint, such as `device_authorization_endpoint`."""
        return isinstance(self._metadata.get(endpoint), str)

    def endpoint(self, name: str) -> str:
        """The address of an endpoint. Raises LoginError.

        Only a provider on this machine may name an address on this machine: another one has no business there.
        """
        if not self.has(name):
            raise LoginError(f"{self.client.host} has no {name}")
        return self.checked(self._metadata[name], name)

    def checked(self, url: object, name: str) -> str:
        """An address that the provider names. Raises LoginError if it is not safe to ask, or to show to a user."""
        if isinstance(url, str) and _ADDRESS.fullmatch(url) and _is_safe(url):
            may_be_local = is_loopback(urlsplit(self.client.issuer).hostname)
            if may_be_local or not is_loopback(urlsplit(url).hostname):
                return url
        raise LoginError(f"{self.client.host} names a {name} that is not safe: {safe_line(url)}")

    @property
    def names_itself(self) -> bool:
        """Whether it puts its name into every answer that comes by redirect (RFC 9207)."""
        return self._metadata.get("authorization_response_iss_parameter_supported") is True

    @property
    def scope(self) -> str:
        """What to ask for: also a refresh token, if it says that it knows that scope."""
        scopes = self._metadata.get("scopes_supported")
        return "openid offline_access" if isinstance(scopes, list) and "offline_access" in scopes else "openid"

    async def post(self, endpoint: str, **form: str) -> dict[str, Any]:
        """Send a form. Raises Refusal or LoginError."""
        body = urlencode({"client_id": self.client.client_id, **form}).encode()
        return await _ask("POST", self.endpoint(endpoint), body)

    def login(self, token_response: Mapping[str, Any], nonce: str | None = None, old: Login | None = None) -> Login:
        """The login that the answer of the token endpoint gives.

        nonce: what the ID token must repeat. Raises LoginError if the answer is not meant for this client.
        """
        identity = token_response.get("id_token")
        if identity is not None or nonce is not None:
            self._check_identity(claims(identity if isinstance(identity, str) else ""), nonce)
        refresh = token_response.get("refresh_token")
        if not isinstance(refresh, str):
            refresh = old.refresh_token if old is not None else ""
        for token in (token_response.get("access_token"), identity):
            if isinstance(token, str) and self._is_for_server(claims(token)):
                client = self.client
                return Login(token, client.issuer, client.client_id, client.audience, refresh)
        audience = f" with the audience {safe_line(self.client.audience)}" if self.client.audience else ""
        raise LoginError(f"{self.client.host} gave no token that the server takes: a JWT of this issuer{audience}")

    def _is_for_server(self, claims: Mapping[str, Any]) -> bool:
        audience = self.client.audience
        return claims.get("iss") == self.client.issuer and (not audience or audience in _listed(claims.get("aud")))

    def _check_identity(self, claims: Mapping[str, Any], nonce: str | None) -> None:
        """OpenID Connect Core, 3.1.3.7. It came over TLS from the provider itself, which stands for the signature."""
        wrong = ""
        if claims.get("iss") != self.client.issuer:
            wrong = "of another issuer"
        elif self.client.client_id not in _listed(claims.get("aud")):
            wrong = "for another client"
        elif claims.get("azp", self.client.client_id) != self.client.client_id:
            wrong = "for another party"
        elif not isinstance(claims.get("exp"), int | float) or claims["exp"] < time.time() - 60:
            wrong = "that has expired"
        elif nonce is not None and claims.get("nonce") != nonce:
            wrong = "of another login"
        if wrong:
            raise LoginError(f"{self.client.host} gave an ID token {wrong}, or none")


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


async def _ask(method: str, url: str, body: bytes | None = None) -> dict[str, Any]:
    """A request to a provider, which has to answer with a JSON object. Raises Refusal or LoginError."""
    host = urlsplit(url).netloc
    headers = {"Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        answer = await http.send(method, url, body, headers, timeout_s=_TIMEOUT_S)
        content = json.loads(answer.body)
    except http.HttpError as error:
        raise LoginError(f"{host} does not answer: {safe_line(error)}") from None
    except (ValueError, RecursionError):
        raise LoginError(f"{url} does not answer with JSON (HTTP {answer.status})") from None
    if not isinstance(content, dict):
        raise LoginError(f"{url} does not answer as documented")
    if answer.status != 200:
        code = safe_line(content.get("error") or f"HTTP {answer.status}")
        raise Refusal(code, f"{host} refused: {code} {safe_line(content.get('error_description') or '')}".rstrip())
    return content
