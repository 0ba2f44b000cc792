"""Posts to hosts of the internet that an operator or a user has named: never to a private network, by no proxy, once.

The address is checked of the connection that was made, so a name that leads elsewhere a moment later gains nothing.
"""

import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from ipaddress import ip_address
from socket import socket
from urllib.parse import quote, urlsplit

from codelab.http.cancellation import Cancellation
from codelab.http.responses import read_answer
from codelab.http.route import Route, connect

#: The most bytes of an answer.
_ANSWER_BYTES = 64 << 10


class NotPosted(Exception):
    """There is no answer. The message has no address, because the address may be a secret."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet, and none of a network of its own."""
    parsed = ip_address(address.partition("%")[0])
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return parsed.is_global and not parsed.is_multicast


def post(url: str, headers: Mapping[str, str], body: bytes, patience_s: float) -> int:
    """The status of the answer, within `patience_s` seconds. Follows no redirect. Raises NotPosted."""
    try:
        return _exchanged(url, headers, body, time.monotonic() + patience_s)
    except (OSError, ValueError, HTTPException) as error:
        raise NotPosted(f"it cannot be reached: {type(error).__name__}") from None


def _exchanged(url: str, headers: Mapping[str, str], body: bytes, ends_at: float) -> int:
    parts, route = urlsplit(url), Route(url)
    if not route.is_secure:
        raise NotPosted("its address must begin with https://")
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=") + (f"?{parts.query}" if parts.query else "")
    all_headers = {
        "Host": route.authority,
        "User-Agent": "codelab",
        **headers,
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {it}" for name, it in all_headers.items())]
    connection = connect(route.host, parts.port or 443, _left(ends_at), Cancellation())
    try:
        if not is_public(str(connection.getpeername()[0])):
            raise NotPosted("it is in a private network, where nothing is posted")
        connection.settimeout(_left(ends_at))
        connection = ssl.create_default_context().wrap_socket(connection, server_hostname=route.host)
        connection.sendall("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        head, _ = read_answer(lambda: _received(connection, ends_at))
        return head.status
    finally:
        connection.close()


def _received(connection: socket, ends_at: float) -> bytes:
    connection.settimeout(_left(ends_at))
    return connection.recv(_ANSWER_BYTES)


def _left(ends_at: float) -> float:
    return max(0.001, ends_at - time.monotonic())
