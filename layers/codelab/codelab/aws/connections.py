"""Signed requests over kept connections, to one service.

The SDK's clients resolve an endpoint, serialise, emit a dozen events and parse by the service's description at every
call, which is most of its CPU time, and their import is a third of a cold start.
"""

import os
import re
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from codelab.aws.errors import AwsTimeout, AwsUnreachable
from codelab.aws.meanwhile import use_the_wait
from codelab.aws.session import certificates, credentials, region
from codelab.aws.signing import signed_headers
from codelab.http_answer import read_body, read_head
from codelab.snapshot import before_snapshot

#: Lambda freezes a process between two events. The other end of a kept connection may close or forget it meanwhile, and
#: the next request would be lost or wait for its time-out. Connections idle for so many seconds are not used again.
STALE_S = 20.0

#: Seconds; well below the integration time-out of API Gateway (29 s). The second one is for each read of an answer.
CONNECT_S, READ_S = 1.0, 2.0
#: The most connections that are kept, and the most bytes that are read at once.
_KEPT, _PIECE = 16, 64 << 10

#: The certificates that AWS's endpoints have descended from since 2018 ("Amazon Trust Services", repository).
_AMAZONS = re.compile(
    r'^# Label: "(?:Amazon Root CA|Starfield Services Root).*\n(?:#.*\n)*'
    r"(-----BEGIN [^-]+-----[^-]+-----END [^-]+-----)",
    re.MULTILINE,
)


class Answer(NamedTuple):
    """An HTTP response. The names in `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Request(NamedTuple):
    """A signed HTTP request, without its Content-Length."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """Connections to one service. Used by several threads; after a fork, each process has its own.

    service: as signatures name it. url: of the service, or of an API's stage. read_s: seconds. clock: the wall clock in
    seconds; the monotonic one may stand still while a process is frozen.
    """

    def __init__(
        self, service: str, url: str, *, read_s: float = READ_S, clock: Callable[[], float] = time.time
    ) -> None:
        self._service = service
        self._url = url.rstrip("/")
        self._region = region()
        self._credentials = credentials()
        self._route = _Route(self._url)
        self._read_s = read_s
        self._clock = clock
        #: The idle connections with the time of their last use; the one used last is at the end.
        self._idle: list[tuple[socket.socket, float]] = []
        self._process = os.getpid()
        before_snapshot(self.close)

    def signed(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Request:
        """A request with the credentials of now. `path` begins with a slash and is quoted.

        Raises AwsUnreachable if there are no credentials, or new ones cannot be had.
        """
        url = self._url + path
        signed = signed_headers(
            self._credentials(),
            self._service,
            self._region,
            method,
            self._route.target(url),
            {**headers, "Host": self._route.authority},
            body,
            time.time(),
        )
        return Request(method, url, signed, body)

    def send(self, request: Request) -> Answer:
        """Send a signed request once; follow no redirect. Raises AwsUnreachable."""
        connection = self._take() or self._route.connect(self._read_s)
        try:
            answer, reusable = _exchange(connection, request, self._route.target(request.url))
        except BaseException:
            connection.close()
            raise
        if reusable and len(self._idle) < _KEPT:
            self._idle.append((connection, self._clock()))
        else:
            connection.close()
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def _take(self) -> socket.socket | None:
        """A kept connection that is fresh and open."""
        if self._process != os.getpid():  # the others are the parent's
            self._idle, self._process = [], os.getpid()
        while True:
            try:
                connection, used_at = self._idle.pop()
            except IndexError:
                return None
            # All that can be read from an idle connection is its end.
            if 0 <= self._clock() - used_at <= STALE_S and not _is_readable(connection):
                return connection
            connection.close()


class _Route:
    """The way to the host of a URL: directly, or for `https` through the proxy that the environment names."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        default = 443 if self._secure else 80
        self._host, self._port = parts.hostname or "", parts.port or default
        host = f"[{self._host}]" if ":" in self._host else self._host
        #: As a Host header gives it.
        self.authority = host if self._port == default else f"{host}:{self._port}"
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._proxy, self._proxy_headers = _proxy_for(url) if self._secure else (None, {})
        self._context = trusted() if self._secure else None  # at init: it takes as long as ten calls

    def target(self, url: str) -> str:
        """The path and query of a URL."""
        return url.removeprefix(self._origin)

    def connect(self, read_s: float) -> socket.socket:
        """A new connection. Raises AwsUnreachable."""
        try:
            try:
                connected = self._connected()
            except ssl.SSLCertVerificationError:
                if self._context is trusted(whole=True):
                    raise
                self._context = trusted(whole=True)
                connected = self._connected()
        except (OSError, HTTPException) as error:
            raise AwsUnreachable(f"{self.authority}: {error!r}", never_arrived=True) from error
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.settimeout(read_s)
        return connected

    def _connected(self) -> socket.socket:
        proxy = urlsplit(self._proxy or "")
        host, port = (proxy.hostname or "", proxy.port or 80) if self._proxy else (self._host, self._port)
        if self._context is not None:
            connection: HTTPConnection = HTTPSConnection(host, port, timeout=CONNECT_S, context=self._context)
        else:
            connection = HTTPConnection(host, port, timeout=CONNECT_S)
        if self._proxy:
            connection.set_tunnel(self._host, self._port, self._proxy_headers)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connected: socket.socket = connection.sock
        return connected


def _proxy_for(url: str) -> tuple[str | None, dict[str, str]]:
    """The proxy that the environment names for a URL, and its headers."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None, {}
    from botocore.httpsession import ProxyConfiguration
    from botocore.utils import get_environ_proxies

    proxies = ProxyConfiguration(get_environ_proxies(url))
    proxy = proxies.proxy_url_for(url)
    return (proxy, proxies.proxy_headers_for(proxy)) if proxy else (None, {})


@cache
def trusted(*, whole: bool = False) -> ssl.SSLContext:
    """Whose certificates are accepted: those of AWS_CA_BUNDLE, else those that come with the SDK.

    Unless `whole`, only Amazon's own of the SDK's hundred, if it has any: all of them take a twelfth of a cold start.
    """
    found, is_sdks = certificates()
    amazons = _AMAZONS.findall(Path(found).read_text("utf-8")) if is_sdks and not whole else []
    context = ssl.create_default_context(
        cafile=None if amazons else found, cadata="\n".join(amazons) if amazons else None
    )
    context.verify_flags &= (
        ~ssl.VERIFY_X509_STRICT
    )  # companies' proxies do not pass it, and the SDK does not ask for it
    return context


def _is_readable(connection: socket.socket) -> bool:
    poll = select.poll()  # unlike `select.select`, for any number of open files
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _exchange(connection: socket.socket, request: Request, target: str) -> tuple[Answer, bool]:
    """Send the request and read the answer. Returns it, and whether the connection can be used again."""
    lines = [f"{request.method} {target} HTTP/1.1", "Accept-Encoding: identity", f"Content-Length: {len(request.body)}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    cut: OSError | None = None
    try:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + request.body)
    except OSError as error:
        cut = error  # It may have been answered already, for example that it is too large.
    use_the_wait()
    has_begun = False

    def read() -> bytes:
        nonlocal has_begun
        piece = connection.recv(_PIECE)
        has_begun = has_begun or piece != b""
        return piece

    try:
        head, arrived = read_head(read)
        answer = Answer(head.status, head.headers, b"".join(read_body(head, arrived, read)))
    except (OSError, HTTPException) as error:
        if cut is None and isinstance(error, TimeoutError):
            raise AwsTimeout(f"{request.url}: no answer in time") from error
        # A server that forgot the connection resets it when data arrives that nobody will read. One that ends it after
        # reading the request closes it instead, although RemoteDisconnected is called a reset.
        reset = isinstance(error, ConnectionResetError) and not isinstance(error, RemoteDisconnected)
        never_arrived = cut is not None or (reset and not has_begun)
        raise AwsUnreachable(f"{request.url}: {cut or error!r}", never_arrived=never_arrived) from error
    return answer, cut is None and head.keeps_alive
