"""Signed requests over kept connections, to one service.

The SDK's clients resolve an endpoint, serialise, emit a dozen events and parse by the service's description at every
call, which is most of its CPU time, and their import is a third of a cold start.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from http.client import HTTPException, RemoteDisconnected
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from codelab.aws.errors import AwsTimeout, AwsUnreachable
from codelab.aws.session import certificates
from codelab.aws.signing import Request, Signer
from codelab.http.pool import Pool
from codelab.http.responses import read_answer
from codelab.http.route import Route
from codelab.snapshot import before_snapshot

#: Lambda freezes a process between two events. The other end of a kept connection may close or forget it meanwhile, and
#: the next request would be lost or wait for its time-out. Connections idle for so many seconds are not used again.
STALE_S = 20.0

#: Seconds; well below the integration time-out of API Gateway (29 s). The second one is for each read of an answer.
CONNECT_S, READ_S = 1.0, 2.0
#: The most bytes that are read at once.
_PIECE = 64 << 10

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


class Connections:
    """Connections to one service. Used by several threads; after a fork, each process has its own.

    service: as signatures name it. url: of the service, or of an API's stage. read_s: seconds. clock: the wall clock in
    seconds; the monotonic one may stand still while a process is frozen. signer: signs the service's requests.
    """

    def __init__(
        self, service: str, url: str, *, read_s: float = READ_S, clock: Callable[[], float] = time.time
    ) -> None:
        url = url.rstrip("/")
        self._route = Route(url)
        self._origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        self.signer = Signer(service, url, self._route.authority)
        self._tls_context = trusted() if self._route.is_secure else None  # At init: it takes as long as ten calls.
        self._read_s = read_s
        self._pool = Pool(STALE_S, clock)
        before_snapshot(self.close)

    def send(self, request: Request, on_wait: Callable[[], object] | None = None) -> Answer:
        """Send a signed request once; follow no redirect. Raises AwsUnreachable.

        on_wait: called when the request has been sent, before its answer is read. It must not raise.
        """
        connection = self._pool.take() or self._connect()
        try:
            answer, reusable = _exchange(connection, request, request.url.removeprefix(self._origin), on_wait)
        except BaseException:
            connection.close()
            raise
        if reusable:
            self._pool.keep(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def _connect(self) -> socket.socket:
        """A new connection. Raises AwsUnreachable."""
        try:
            try:
                connection = self._route.connect(CONNECT_S, self._tls_context)
            except ssl.SSLCertVerificationError:
                if self._tls_context is trusted(whole=True):
                    raise
                self._tls_context = trusted(whole=True)
                connection = self._route.connect(CONNECT_S, self._tls_context)
        except (OSError, HTTPException) as error:
            raise AwsUnreachable(f"{self._route.authority}: {error!r}", never_arrived=True) from error
        connection.settimeout(self._read_s)
        return connection


@cache
def trusted(*, whole: bool = False) -> ssl.SSLContext:
    """Whose certificates are accepted: those of AWS_CA_BUNDLE, else those that come with the SDK.

    Unless `whole`, only Amazon's own of the SDK's hundred, if it has any: all of them take a twelfth of a cold start.
    """
    bundle, is_sdks = certificates()
    amazons = _AMAZONS.findall(Path(bundle).read_text("utf-8")) if is_sdks and not whole else []
    context = ssl.create_default_context(
        cafile=None if amazons else bundle, cadata="\n".join(amazons) if amazons else None
    )
    context.verify_flags &= (
        ~ssl.VERIFY_X509_STRICT
    )  # companies' proxies do not pass it, and the SDK does not ask for it
    return context


def _exchange(
    connection: socket.socket, request: Request, target: str, on_wait: Callable[[], object] | None
) -> tuple[Answer, bool]:
    """Send the request and read the answer. Returns it, and whether the connection can be used again."""
    lines = [f"{request.method} {target} HTTP/1.1", "Accept-Encoding: identity", f"Content-Length: {len(request.body)}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    cut: OSError | None = None
    try:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + request.body)
    except OSError as error:
        cut = error  # It may have been answered already, for example that it is too large.
    if on_wait is not None:
        on_wait()
    beginning = b""
    try:
        beginning = connection.recv(_PIECE)
        head, body = read_answer(partial(connection.recv, _PIECE), beginning)
    except (OSError, HTTPException) as error:
        if cut is None and isinstance(error, TimeoutError):
            raise AwsTimeout(f"{request.url}: no answer in time") from error
        # A server that forgot the connection resets it when data arrives that nobody will read. One that ends it after
        # reading the request closes it instead, although RemoteDisconnected is called a reset.
        reset = isinstance(error, ConnectionResetError) and not isinstance(error, RemoteDisconnected)
        never_arrived = cut is not None or (reset and not beginning)
        raise AwsUnreachable(f"{request.url}: {cut or error!r}", never_arrived=never_arrived) from error
    return Answer(head.status, head.headers, body), cut is None and head.keeps_alive
