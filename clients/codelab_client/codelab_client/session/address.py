"""Addresses: of the WebSocket for a session, and of the REST API beside it."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from codelab_client.session.errors import InsecureAddress, InvalidAddress

#: Where `make run` listens.
DEFAULT_URL = "ws://localhost:8000"

_SESSION_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.:-]{1,128}")
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


@dataclass(frozen=True)
class Address:
    """A server. `rest_url` is the address of its REST API, up to and including `/api/v1`; empty if it is not known.

    insecure_token: a token may also be sent where others can read it on the way.
    """

    url: str
    rest_url: str
    insecure_token: bool = False

    @classmethod
    def parse(cls, url: str, rest_url: str = "", *, insecure_token: bool = False) -> "Address":
        """Read what a user typed.

        url: `ws://host[:port]` (the local cloud), any address with `{session_id}` in it, or the stack's output
        `wss://…/stage`. `http` and `https` mean `ws` and `wss`.
        rest_url: the stack's output `RestUrl`; not needed with the local cloud.
        Raises InvalidAddress.
        """
        try:
            parts = urlsplit(url.strip())
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise InvalidAddress(f"{url} is not an address: {error}") from None
        scheme = _SCHEMES.get(parts.scheme)
        if scheme is None or not host:
            raise InvalidAddress(f"{url} is not an address: it must look like {DEFAULT_URL} or wss://host/stage")
        if parts.username is not None:
            raise InvalidAddress("An address must not contain a user name or a password; pass a token instead")
        path, query, has_slot = parts.path, parts.query, "{session_id}" in url
        if not has_slot and path in ("", "/"):
            path = "/ws/{session_id}"
        elif not has_slot:
            query = f"{query}&session_id={{session_id}}" if query else "session_id={session_id}"
        is_local = path.endswith("/ws/{session_id}")
        if not rest_url and is_local:
            rest_url = urlunsplit(("https" if scheme == "wss" else "http", parts.netloc, "/api/v1", "", ""))
        elif rest_url and not rest_url.rstrip("/").endswith("/api/v1"):
            rest_url = f"{rest_url.rstrip('/')}/api/v1"
        return cls(urlunsplit((scheme, parts.netloc, path, query, "")), rest_url.rstrip("/"), insecure_token)

    def of(self, session_id: str, **query: object) -> str:
        """The WebSocket's address for a session. Raises InvalidAddress for an invalid session id."""
        url = self.url.replace("{session_id}", quote(checked_session_id(session_id), safe=""))
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}" if query else url

    @property
    def origin(self) -> str:
        """The server without the session, which tells servers apart."""
        return self.url.replace("{session_id}", "").rstrip("/?")

    @property
    def shown(self) -> str:
        """The server as a user reads it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def headers(self, token: str, url: str) -> dict[str, str]:
        """The headers that authenticate a request to `url`, which is this server's.

        Raises InsecureAddress if others could read the token on the way, unless `insecure_token` allows that.
        """
        if not token:
            return {}
        if not (is_secure(url) or self.insecure_token):
            host = urlsplit(url).hostname
            raise InsecureAddress(
                f"The token is not sent to {host}, because the connection is not encrypted and anybody on the way "
                "could read it: use wss:// or https://, or allow it with --insecure-token"
            )
        return {"Authorization": f"Bearer {token}"}


def is_secure(url: str) -> bool:
    """Whether nobody on the way can read what is sent: TLS, or this very machine."""
    parts = urlsplit(url)
    return parts.scheme in ("wss", "https") or is_loopback(parts.hostname)


def is_loopback(host: str | None) -> bool:
    """Whether a host name or an address is this very machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def checked_session_id(session_id: str) -> str:
    """The id itself. Raises InvalidAddress if the server would refuse it."""
    if not _SESSION_ID.fullmatch(session_id):
        raise InvalidAddress(
            f"{session_id!r} is not a session id: 1 to 128 characters of A-Z a-z 0-9 _ . : -, but not . or .."
        )
    return session_id
