"""Who may look: only the browser of whoever reads the terminal.

Cookies do not know ports, and every local server has the name `localhost`: a cookie of `127.0.0.1` would be sent to all
of them. So the view has a host name of this run below `localhost`, which browsers resolve to the loopback interface
(RFC 6761, "localhost."), and answers to no other, which also ends DNS rebinding.

The terminal prints the address with a secret in its fragment, which browsers send to nobody. The page's script
exchanges it for a cookie that no script can read.
"""

import hmac
import secrets

from codelab_local.http.protocol import Request, Response, loads

_COOKIE = "view"


class Door:
    """Checks the requests to the view, which listens on `port`."""

    def __init__(self, port: int) -> None:
        self.host = f"inspect-{secrets.token_hex(8)}.localhost:{port}"
        self.secret = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    @property
    def address(self) -> str:
        """For the user's browser, with the secret."""
        return f"{self.origin}/#{self.secret}"

    def refusal(self, request: Request) -> Response | None:
        """An answer to requests that do not come from the view's own page, or from the address bar."""
        headers = request.headers
        if headers.get("host", "").lower() != self.host or request.authority not in ("", self.host):
            return refused(403, "Open the address that the local cloud has printed")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return refused(403, "Requests of other sites are not allowed")
        origin = headers.get("origin")
        needs_origin = request.method not in ("GET", "HEAD")
        if (origin is not None or needs_origin) and origin != self.origin:
            return refused(403, "Requests of other origins are not allowed")
        return None

    def exchange(self, request: Request) -> Response:
        """The cookie for the secret."""
        document = loads(request.body)
        secret = document.get("secret") if isinstance(document, dict) else None
        if not isinstance(secret, str) or not _is_same_secret(secret, self.secret):
            return refused(403, "This is not the secret of this run: open the address that the local cloud has printed")
        return Response(204, cookies=(f"{_COOKIE}={self._cookie}; Path=/; HttpOnly; SameSite=Strict",))

    def knows(self, request: Request) -> bool:
        """Whether the request has the cookie."""
        pairs = (pair.strip().partition("=") for pair in request.headers.get("cookie", "").split(";"))
        return any(name == _COOKIE and _is_same_secret(value, self._cookie) for name, _, value in pairs)


def refused(status: int, message: str) -> Response:
    return Response.json({"message": message}, status)


def _is_same_secret(secret: str, expected: str) -> bool:
    return hmac.compare_digest(secret.encode("utf-8", "replace"), expected.encode())
