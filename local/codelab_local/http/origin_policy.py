"""Decides which requests the public port accepts: those to a name of this machine, and from trusted origins.

A browser lets any page send requests to any address, including this machine's loopback interface. Three headers tell
such requests apart: `Origin` is the page's origin, `Sec-Fetch-Site` its relation to us, and `Host` the name under which
the page found us, which is the attacker's after DNS rebinding. Only settings decide what is trusted, never a request.
IDEs, curl and wscat send no `Origin`.

Fetch standard, "CORS protocol"; W3C, "Fetch Metadata Request Headers".
"""

import re
from collections.abc import Awaitable, Iterable
from ipaddress import IPv6Address, ip_address

from codelab_local.host.notices import notice
from codelab_local.http.protocol import Answer, Application, Request, Response

#: Stands for every origin but `null`.
ANY_ORIGIN = "*"

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_-][a-z0-9._-]*)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(rf"([a-z][a-z0-9+.-]*)://{_HOST.pattern}")
_DEFAULT_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443"}

# The same as the template's CORS settings of the HTTP API, the function URL and the bucket.
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "authorization, content-type, idempotency-key, if-none-match, last-event-id",
    "Access-Control-Max-Age": "3600",
}
_EXPOSED = {"Access-Control-Expose-Headers": "etag, retry-after"}
_MAX_NOTICES = 20
_MAX_QUOTED = 200


def normal_host(text: str) -> str | None:
    """Normalize a host name or address without port: `LOCALHOST.` becomes `localhost`. None if it is invalid."""
    match = _HOST.fullmatch(text.strip().lower())
    if match is None and ":" in text:
        match = _HOST.fullmatch(f"[{text.strip().lower()}]")
    return None if match is None or match[2] is not None else _bare(match[1])


def normal_origin(text: str) -> str | None:
    """Normalize an origin, without its scheme's default port. None if it is invalid or `null`."""
    parts = _origin_parts(text.strip())
    return None if parts is None else _joined(*parts)


class OriginPolicy:
    """Checks each request to the public port, which listens on `host` and `port`.

    `hosts` and `origins` are the normalized ALLOWED_HOSTS and ALLOWED_ORIGINS.
    """

    def __init__(self, host: str, port: int, hosts: Iterable[str], origins: Iterable[str]) -> None:
        self._port = str(port)
        self._hosts = frozenset({normal_host(host) or host, *hosts})
        self._origins = frozenset(origins)
        self._logged_messages: set[str] = set()

    def refusal(self, host: str, authority: str, origin: str | None, site: str) -> Response | None:
        """403 (400 without a Host) with an explanation for the developer; None if the request is allowed.

        `authority` is the host of a request target in absolute form; it is checked like `Host`. Repeated headers are
        joined with a comma, which no valid host or origin contains.
        """
        if not host:
            return _refused("A request must have a Host header", 400)
        for name in (host, authority):
            if name and not self._is_own_host(name):
                match = _HOST.fullmatch(name.lower())
                hint = f"; to allow it, start with ALLOWED_HOSTS={_bare(match[1])}" if match else ""
                return self._refuse(f"Host {_quoted(name)} is not allowed{hint}")
        if origin is not None:
            if self._allows(origin):
                return None
            if origin == "null":
                return self._refuse("Pages with an opaque origin (Origin: null) are never allowed")
            origin_name = normal_origin(origin)
            hint = f"; to allow them, start with ALLOWED_ORIGINS={origin_name}" if origin_name else ""
            return self._refuse(f"Pages of {_quoted(origin)} are not allowed{hint}")
        if site.strip().lower() == "cross-site":
            return self._refuse(
                "Cross-site requests without an Origin (Sec-Fetch-Site: cross-site) are not allowed: enter the address "
                "in the browser, or use fetch() in a page whose origin is in ALLOWED_ORIGINS"
            )
        return None

    def protect(self, application: Application) -> Application:
        """Wrap `application`: check its requests, and add CORS headers for allowed pages."""

        def answer(request: Request) -> Response | Awaitable[Answer]:
            headers = request.headers
            origin = headers.get("origin")
            refusal = self.refusal(
                headers.get("host", ""), request.authority, origin, headers.get("sec-fetch-site", "")
            )
            if refusal is not None or origin is None:
                return refusal or application(request)
            cors = {"Access-Control-Allow-Origin": origin, "Vary": "Origin", **_EXPOSED}
            if request.method == "OPTIONS" and "access-control-request-method" in headers:
                return Response(204, headers={**cors, **_PREFLIGHT})
            response = application(request)
            return _with_cors(response, cors) if isinstance(response, Response) else _later(response, cors)

        return answer

    def _is_own_host(self, text: str) -> bool:
        match = _HOST.fullmatch(text.lower())
        return match is not None and (_is_loopback(name := _bare(match[1])) or name in self._hosts)

    def _allows(self, origin: str) -> bool:
        parts = _origin_parts(origin)
        if parts is None:
            return False
        scheme, host, port = parts
        if _joined(*parts) in self._origins or ANY_ORIGIN in self._origins:
            return True
        if scheme in ("http", "https") and _is_loopback(host):
            return True
        return scheme == "http" and host in self._hosts and port == self._port

    def _refuse(self, message: str) -> Response:
        # Browsers show a page's developer almost nothing of a refusal, so log each one once.
        if message not in self._logged_messages and len(self._logged_messages) < _MAX_NOTICES:
            self._logged_messages.add(message)
            notice(message)
        return _refused(message, 403)


def _origin_parts(text: str) -> tuple[str, str, str] | None:
    """Scheme, host and port, by default the scheme's."""
    match = _ORIGIN.fullmatch(text.lower())
    if match is None:
        return None
    scheme, host, port = match.groups()
    return scheme, _bare(host), port or _DEFAULT_PORTS.get(scheme, "")


def _joined(scheme: str, host: str, port: str) -> str:
    place = f"[{host}]" if ":" in host else host
    return f"{scheme}://{place}" + (f":{port}" if port not in ("", _DEFAULT_PORTS.get(scheme)) else "")


def _bare(host: str) -> str:
    """The host without brackets or a trailing dot, and addresses in canonical form."""
    name = host.strip("[]").removesuffix(".")
    try:
        return str(ip_address(name))
    except ValueError:
        return name


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return host == "::1" if isinstance(address, IPv6Address) else address.is_loopback


def _quoted(text: str) -> str:
    return ascii(text[:_MAX_QUOTED]).strip("'\"")


def _refused(message: str, status: int) -> Response:
    return Response.json({"message": message}, status, X_Content_Type_Options="nosniff")


def _with_cors(answer: Response, cors: dict[str, str]) -> Response:
    """Replace the application's own CORS headers, as API Gateway does."""
    own = {name: value for name, value in answer.headers.items() if not name.lower().startswith("access-control-")}
    answer.headers = own | cors
    return answer


async def _later(answer: Awaitable[Answer], cors: dict[str, str]) -> Answer:
    response = await answer
    if isinstance(response, Response):
        return _with_cors(response, cors)
    response.headers |= cors
    return response
