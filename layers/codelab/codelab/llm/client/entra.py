"""Tokens of Microsoft Entra for Azure OpenAI, for organisations that allow no API keys.

The application proves itself with its secret (the client credentials flow of OAuth 2.0), and the token lives about an
hour. https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from codelab.llm.client.answers import RETRYABLE_STATUS, read_object, unreachable
from codelab.llm.client.connections import ConnectionFailed, Connections
from codelab.llm.client.transport import Call
from codelab.llm.errors import DeadlineExceeded, InvalidRequest, TransportError
from codelab.llm.failures import FailureKind

#: The public cloud's.
AUTHORITY = "https://login.microsoftonline.com"
#: What the token is for, by the domain of the authority: the clouds of the United States' government and of China.
_SCOPE = "https://cognitiveservices.azure.{domain}/.default"
_DOMAINS = {"us": "us", "cn": "cn"}
_ON_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
#: Seconds: before its end that a token is replaced, for one question, and between two replacements of refused tokens.
_MARGIN_S, _ANSWER_S, _RENEW_EVERY_S = 300, 10.0, 60
#: The most characters of the words of a refusal.
_WORDS = 500


class EntraToken:
    """A function that returns the current token, for `DirectTransport(api_key=…)`.

    tenant: its id or domain. client_secret: returns the application's current secret; it may have a method `renew` as
    `ApiKey`. clock: returns seconds. Raises InvalidRequest for an authority to which the secret must not be sent.
    """

    def __init__(
        self,
        tenant: str,
        client_id: str,
        client_secret: Callable[[], str],
        *,
        authority: str = AUTHORITY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(authority)
        if parts.scheme != "https" and parts.hostname not in _ON_THIS_MACHINE:
            raise InvalidRequest("the secret would be sent in the open: LLM_ENTRA_AUTHORITY must be https", "/config")
        domain = _DOMAINS.get((parts.hostname or "").rpartition(".")[2], "com")
        self._path = f"/{quote(tenant, safe='')}/oauth2/v2.0/token"
        self._fields = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "scope": _SCOPE.format(domain=domain),
        }
        self._client_secret = client_secret
        self._authority = authority.rstrip("/")
        self._connections = Connections(self._authority, silence_s=_ANSWER_S)
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._expires = 0.0
        self._renewed_at: float | None = None

    def __call__(self) -> str:
        """The token. Raises TransportError if there is none, and none can be had."""
        with self._lock:
            now = self._clock()
            if now >= self._expires - _MARGIN_S:
                try:
                    self._fetch(now)
                except TransportError as error:
                    if not error.retryable or now >= self._expires:
                        raise
            return self._token

    def renew(self, rejected_token: str) -> bool:
        """Replace a token that Azure rejected; return whether a different one is available now."""
        with self._lock:
            now = self._clock()
            if self._token == rejected_token and (self._renewed_at is None or now - self._renewed_at >= _RENEW_EVERY_S):
                self._renewed_at = now
                self._fetch(now)
            return self._token != rejected_token

    def _fetch(self, now: float) -> None:
        secret = self._client_secret()
        try:
            answer = self._asked(secret)
        except TransportError as error:
            renew: Callable[[str], bool] | None = getattr(self._client_secret, "renew", None)
            if error.kind is not FailureKind.SIGN_IN or renew is None or not renew(secret):
                raise
            answer = self._asked(self._client_secret())
        token, seconds = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token or not isinstance(seconds, (int, float)):
            raise TransportError("the sign-in gave no token", retryable=True, kind=FailureKind.SIGN_IN)
        self._token, self._expires = token, now + seconds

    def _asked(self, secret: str) -> dict[str, Any]:
        """The sign-in's answer. Raises TransportError, in whose words the secret is not."""
        body = urlencode({**self._fields, "client_secret": secret}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        call = Call(deadline=time.monotonic() + _ANSWER_S)
        try:
            response = self._connections.open("POST", self._path, headers, body, call)
            try:
                data = b"".join(response.pieces())
            finally:
                response.close()
        except (*ConnectionFailed, DeadlineExceeded) as error:
            raise unreachable(self._authority, f"{type(error).__name__}: {error}") from None
        if response.status == HTTPStatus.OK:
            return read_object(iter((data,)))
        raise _refusal(response.status, data, secret)


def _refusal(status: int, data: bytes, secret: str) -> TransportError:
    try:
        error = json.loads(data)
    except (ValueError, RecursionError):
        error = None
    words = f"{error.get('error')}: {error.get('error_description')}" if isinstance(error, dict) else ""
    is_transient = status in RETRYABLE_STATUS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return TransportError(
        f"the sign-in refused the application ({status}) {words.replace(secret, '…') if secret else words}"[:_WORDS],
        status=status,
        retryable=is_transient,
        kind=FailureKind.BUSY if is_transient else FailureKind.SIGN_IN,
    )
