"""Addresses: of the WebSocket for a session, and of the REST API beside it."""

import re
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from codelab_client.session.errors import InvalidAddress

#: Where `make run` listens.
DEFAULT_URL = "ws://localhost:8000"

_SESSION_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Address:
    """A server. `rest` is the address of its REST API, up to and including `/api/v1`; empty if it is not known."""

    url: str
    rest: str

    @classmethod
    def parse(cls, url: str, rest: str = "") -> "Address":
        """Read what a user typed.

        url: `ws://host[:port]` (the local cloud), any address with `{session_id}` in it, or the stack's output
        `wss://…/stage`. `http` and `https` mean `ws` and `wss`.
        rest: the stack's output `RestUrl`; not needed with the local cloud.
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
        if not rest and is_local:
            rest = urlunsplit(("https" if scheme == "wss" else "http", parts.netloc, "/api/v1", "", ""))
        elif rest and not rest.rstrip("/").endswith("/api/v1"):
            rest = f"{rest.rstrip('/')}/api/v1"
        return cls(urlunsplit((scheme, parts.netloc, path, query, "")), rest.rstrip("/"))

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

    @property
    def is_secure(self) -> bool:
        """Whether nobody on the way can read what is sent: TLS, or this very machine."""
        parts = urlsplit(self.url)
        return parts.scheme == "wss" or parts.hostname in _LOOPBACK


def checked_session_id(session_id: str) -> str:
    """The id itself. Raises InvalidAddress if the server would refuse it."""
    if not _SESSION_ID.fullmatch(session_id):
        raise InvalidAddress(f"{session_id!r} is not a session id: 1 to 128 characters of A-Z a-z 0-9 _ . : -")
    return session_id
