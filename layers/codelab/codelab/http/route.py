"""The way to the host of a URL: its addresses, the proxy before it, TLS.

A host has several addresses, and some may lead nowhere: a network without IPv6 to a host that has it, or one of three
servers that is down. So the next address is tried before the one before it has failed (RFC 8305, "Happy Eyeballs").
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import time
from http import HTTPStatus
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import urlsplit

from codelab.http.cancellation import Cancellation
from codelab.http.proxies import proxy_for
from codelab.http.responses import read_head

#: Seconds after which the next address is tried too. Within them a cancellation is noticed.
_NEXT_ADDRESS_S = 0.25
#: A host may have hundreds of addresses.
_ADDRESSES = 8
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)

#: It needs no file of its own; Windows does not have it.
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.DefaultSelector)

#: What getaddrinfo returns: family, type, protocol, canonical name, address.
_Address = tuple[Any, Any, int, str, Any]


class Route:
    """The way to the host of a URL: directly, or for `https` through the proxy that the environment names.

    authority: the host as a Host header gives it. Raises ValueError for what is no http or https URL, and ProxyRefused.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.is_secure = parts.scheme == "https"
        default = 443 if self.is_secure else 80
        self.host, self._port = parts.hostname or "", parts.port or default
        self.host.encode("idna")
        if parts.scheme not in ("http", "https") or not self.host or not self.host.isascii():
            raise ValueError("it is no http or https URL")
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.authority = host if self._port == default else f"{host}:{self._port}"
        self._tunnel_target = f"{host}:{self._port}"
        self._proxy = proxy_for(self.host, self._port) if self.is_secure else None

    def connect(
        self, seconds: float, context: ssl.SSLContext | None, cancellation: Cancellation | None = None
    ) -> socket.socket:
        """A new connection, with TLS if there is a context. Raises OSError or HTTPException.

        seconds: for the connection and, again, for the proxy and for TLS.
        """
        cancellation = cancellation or Cancellation()
        host, port, headers = self._proxy or (self.host, self._port, {})
        connection = connect(host, port, seconds, cancellation)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._proxy:
                with cancellation.interrupting(connection):
                    self._tunnel(connection, headers, time.monotonic() + seconds)
            connection.settimeout(seconds)
            if context is not None:
                connection = context.wrap_socket(connection, server_hostname=self.host, do_handshake_on_connect=False)
                with cancellation.interrupting(connection):
                    connection.do_handshake()
        except BaseException:
            connection.close()
            raise
        return connection

    def _tunnel(self, connection: socket.socket, headers: dict[str, str], ends_at: float) -> None:
        """Have the proxy connect (RFC 9110, section 9.3.6)."""
        lines = [f"CONNECT {self._tunnel_target} HTTP/1.1", f"Host: {self._tunnel_target}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        connection.settimeout(max(0.001, ends_at - time.monotonic()))
        connection.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))

        def read() -> bytes:
            connection.settimeout(max(0.001, ends_at - time.monotonic()))
            return connection.recv(1 << 10)

        head, extra_bytes = read_head(read)
        if not HTTPStatus.OK <= head.status < HTTPStatus.MULTIPLE_CHOICES:
            raise OSError(f"the proxy refused the connection: {head.status}")
        if extra_bytes:
            raise OSError("the proxy sent data before it was asked for")


def connect(host: str, port: int, seconds: float, cancellation: Cancellation) -> socket.socket:
    """The first connection that comes to be with one of the host's addresses; it does not block. Raises OSError."""
    addresses = _in_turn(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    now = time.monotonic()
    ends_at, next_at, error = now + seconds, now, OSError(f"{host} has no address")
    with _Selector() as attempts:
        try:
            while addresses or attempts.get_map():
                if cancellation.cancelled:
                    raise ConnectionAbortedError("the call was cancelled")
                if now >= ends_at:
                    raise TimeoutError(f"no connection in {seconds:g} s")
                if addresses and (now >= next_at or not attempts.get_map()):
                    next_at = now + _NEXT_ADDRESS_S
                    error = _begin(attempts, addresses.pop(0)) or error
                    continue
                for key, _ in attempts.select(min(ends_at - now, _NEXT_ADDRESS_S)):
                    connection: Any = key.fileobj
                    attempts.unregister(connection)
                    code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not code:
                        return connection  # type: ignore[no-any-return]
                    connection.close()
                    error, next_at = OSError(code, os.strerror(code)), now
                now = time.monotonic()
            raise error
        finally:
            del error  # The error that is raised keeps this frame, which would keep the error.
            for key in list(attempts.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]


def _in_turn(addresses: list[_Address]) -> list[_Address]:
    """The addresses, those of IPv6 and of IPv4 by turns; the resolver's first one stays the first."""
    first_family = [address for address in addresses if address[0] == addresses[0][0]]
    other_family = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for address in chain(*zip_longest(first_family, other_family)) if address][:_ADDRESSES]


def _begin(attempts: selectors.BaseSelector, address: _Address) -> OSError | None:
    """Begin to connect to an address. Returns what failed at once."""
    family, kind, protocol, _, place = address
    try:
        connection = socket.socket(family, kind, protocol)
    except OSError as error:  # This machine has no addresses of that family.
        return error
    connection.setblocking(False)
    code = connection.connect_ex(place)
    if code not in _UNDER_WAY:
        connection.close()
        return OSError(code, os.strerror(code))
    attempts.register(connection, selectors.EVENT_WRITE)
    return None
