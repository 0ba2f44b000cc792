"""One HTTP request, with the standard library: imported and connected only when it is needed."""

import asyncio
import contextlib
import ipaddress
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from codelab_client.addresses import ForbiddenAddress, open_socket
from codelab_client.session.address import is_loopback

if TYPE_CHECKING:
    import ssl
    import urllib.request

#: Bytes of the largest answer.
MOST_BYTES = 10_000_000


class HttpError(Exception):
    """There is no answer. The text says why."""


@dataclass(frozen=True)
class Response:
    """What a server answered to a request."""

    status: int
    body: bytes


async def send(
    method: str,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
    *,
    in_all_s: float | None = None,
    most_bytes: int = MOST_BYTES,
    may_reach: Callable[[str], bool] | None = None,
) -> Response:
    """Send a request to an `http` or `https` address, through the proxy of the environment if there is one.

    may_reach: whether an address may be connected to, unless a proxy resolves the host; None: any.

    It follows no redirect, so that neither a token nor a body reaches another server. timeout_s: how long the server
    may be silent. in_all_s: how long the request may take, even if the server sends a byte now and then. most_bytes: of
    the answer. Raises HttpError.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Response] = loop.create_future()

    def settle(answer: Response | BaseException) -> None:
        if result.done():
            return
        if isinstance(answer, Response):
            result.set_result(answer)
        else:
            result.set_exception(answer)

    def work() -> None:
        try:
            answer: Response | BaseException = _send(
                method, url, body, dict(headers or {}), timeout_s, most_bytes, may_reach
            )
        except BaseException as error:
            answer = error
        with contextlib.suppress(RuntimeError):  # the program has not waited for it
            loop.call_soon_threadsafe(settle, answer)

    # Not in the loop's executor, for whose threads a program waits before it ends.
    threading.Thread(target=work, daemon=True).start()
    try:
        async with asyncio.timeout(in_all_s):
            return await result
    except TimeoutError:
        raise HttpError(f"no complete answer within {in_all_s:.0f} seconds") from None


def _send(
    method: str,
    url: str,
    body: bytes | None,
    headers: dict[str, str],
    timeout_s: float,
    most_bytes: int,
    may_reach: Callable[[str], bool] | None,
) -> Response:
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HttpError(f"not an http address: {url[:200]}")
        direct: list[urllib.request.BaseHandler] = []
        if is_loopback(parts.hostname) or (may_reach is not None and not has_proxy(parts.scheme, parts.hostname)):
            direct = [urllib.request.ProxyHandler({}), *_checked(may_reach)]
            if parts.scheme == "http" and may_reach is None:
                direct.append(urllib.request.HTTPSHandler(context=_unused()))
        elif may_reach is not None and is_address(parts.hostname) and not may_reach(parts.hostname):
            raise HttpError(f"{parts.hostname} is not on the public internet")
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        opener = urllib.request.build_opener(NoRedirect, *direct)
        try:
            response = opener.open(request, timeout=timeout_s)
        except urllib.error.HTTPError as refusal:
            response = refusal
        with response:
            content = response.read(most_bytes + 1)
            status = response.status
    except ForbiddenAddress as error:
        raise HttpError(str(error)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        # Without the number that the system gives an error.
        words = reason.strerror if isinstance(reason, OSError) else None
        raise HttpError(words or str(reason) or type(error).__name__) from None
    if len(content) > most_bytes:
        raise HttpError(f"the answer has more than {most_bytes:,} bytes")
    return Response(status, content)


def has_proxy(scheme: str, host: str) -> bool:
    """Whether the environment names a proxy for a scheme (`https`, or `all`) that is used for this host.

    The proxy then resolves the name.
    """
    import urllib.request

    return scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)


def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _checked(may_reach: Callable[[str], bool] | None) -> "list[urllib.request.BaseHandler]":
    """Handlers that connect to checked addresses only; none if any may be reached."""
    import http.client
    import ssl
    import urllib.request

    if may_reach is None:
        return []
    may = may_reach

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            self.sock = open_socket(self.host, self.port, may, self.timeout or 60.0)

    class Encrypted(http.client.HTTPSConnection):
        def connect(self) -> None:
            plain_socket = open_socket(self.host, self.port, may, self.timeout or 60.0)
            self.sock = ssl.create_default_context().wrap_socket(plain_socket, server_hostname=self.host)

    class OverHttp(urllib.request.HTTPHandler):
        def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, request)

    class OverHttps(urllib.request.HTTPSHandler):
        def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Encrypted, request)

    return [OverHttp(), OverHttps(context=_unused())]


def _unused() -> "ssl.SSLContext":
    """For an opener's part that opens nothing: by itself it would read the system's certificates, which takes 20 ms."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
