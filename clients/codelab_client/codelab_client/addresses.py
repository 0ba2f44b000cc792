"""Addresses of the network: which are public, and connections to checked ones only.

A name is resolved once, and the connection is made to an address that was checked, so that a second answer of the name
server does not matter.
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence

#: Prefixes that embed IPv4 addresses: 6to4, Teredo and NAT64, which lead wherever the embedded address does.
_EMBEDDING = tuple(map(ipaddress.IPv6Network, ("2002::/16", "2001::/32", "64:ff9b::/96", "64:ff9b:1::/48")))
#: All of IPv6 that the public internet uses. `is_global` takes site-local addresses, outside of it, for public.
_UNICAST = ipaddress.IPv6Network("2000::/3")

Address = tuple[str, int]
#: Resolves a host and a port to addresses. Raises OSError.
Resolve = Callable[[str, int], Sequence[Address]]


def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, as the system resolves it."""
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(str(address[0]), port) for *_, address in results]


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip not in _UNICAST or any(ip in network for network in _EMBEDDING):
            return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


class ForbiddenAddress(Exception):
    """A host has an address that may not be reached. The text says so."""


def open_socket(
    host: str, port: int, may_reach: Callable[[str], bool], seconds: float, resolving: Resolve = resolve
) -> socket.socket:
    """Connect to a checked address of a host. seconds: for each attempt. Raises ForbiddenAddress or OSError."""
    addresses = resolving(host, port)
    if not addresses or not all(may_reach(address) for address, _ in addresses):
        raise ForbiddenAddress(f"{host} is not on the public internet")
    failure: OSError = OSError("no address")
    for address in addresses[:4]:
        try:
            return socket.create_connection(address, timeout=seconds)
        except OSError as error:
            failure = error
    raise failure
