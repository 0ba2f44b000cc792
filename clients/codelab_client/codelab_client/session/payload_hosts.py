"""Where large frames may come from and go to: what the server's frames name is not enough.

The server's own host, and those that its `/client-config` names. An older server names none: then also S3's hosts, to
which its presigned URLs lead. A private address only if the server has one itself.
"""

import json
import re
from collections.abc import Callable
from urllib.parse import SplitResult, urlsplit

from codelab_client.addresses import is_public
from codelab_client.session import http
from codelab_client.session.address import Address, is_loopback

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_MOST_HOSTS = 50
_CONFIG_S = 10.0
#: The domains of AWS's partitions.
_PARTITIONS = (
    *("amazonaws.com", "amazonaws.com.cn", "amazonaws.eu"),
    *("c2s.ic.gov", "sc2s.sgov.gov", "cloud.adc-e.uk", "csp.hci.ic.gov"),
)
#: S3's endpoints: of a region, dual-stack, and the first one of all. The bucket is before them, or in the path.
_S3 = re.compile(
    r"(?:[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\.)?"
    r"s3(?:\.dualstack)?(?:[.-][a-z]{2,4}(?:-[a-z]+){1,3}-[0-9]{1,2})?"
    rf"\.(?P<partition>{'|'.join(map(re.escape, _PARTITIONS))})"
)


class RefusedHost(Exception):
    """A frame may not be fetched from there or sent there. The text says why."""


class PayloadHosts:
    """The hosts of one server.

    get_peer: returns the address that its WebSocket is connected to; empty if that is not known.
    """

    def __init__(self, address: Address, get_peer: Callable[[], str]) -> None:
        self._address, self._get_peer = address, get_peer
        self._hosts: list[str] | None = None
        self._is_known = False

    async def check(self, url: str) -> Callable[[str], bool]:
        """Check an address that the server has sent. Returns which addresses of the network the host may have.

        Raises RefusedHost.
        """
        parts = _parts(url)
        is_own = any(_is_same(parts, urlsplit(own)) for own in (self._address.url, self._address.rest_url) if own)
        is_secure = parts.scheme == "https"
        if not is_secure and self._address.url.startswith("wss:"):
            raise RefusedHost("the server names an address without TLS")
        if not is_own and not await self._is_named(parts):
            raise RefusedHost(
                f"the server names {parts.hostname}, which is neither its own host nor one of its storage"
            )
        return _accepts_any if self._is_private() else is_public

    async def _is_named(self, parts: SplitResult) -> bool:
        hosts = await self._configured_hosts()
        if hosts is not None:
            return any(_is_same(parts, urlsplit(f"{parts.scheme}://{host}")) for host in hosts)
        endpoint = _S3.fullmatch(parts.hostname or "")
        return (
            endpoint is not None
            and parts.scheme == "https"
            and parts.port in (None, 443)
            and endpoint["partition"] in _partitions(urlsplit(self._address.url).hostname or "")
        )

    async def _configured_hosts(self) -> list[str] | None:
        """What `/client-config` names; None if the server does not say, which is asked again if it did not answer."""
        if self._is_known or not self._address.rest_url:
            return self._hosts
        url = f"{self._address.rest_url.removesuffix('/api/v1')}/client-config"
        try:
            answer = await http.send("GET", url, timeout_s=_CONFIG_S, in_all_s=_CONFIG_S, most_bytes=100_000)
            content = json.loads(answer.body)
        except (http.HttpError, ValueError, RecursionError):
            return None
        self._is_known = answer.status in (200, 404)
        hosts = content.get("payload_hosts") if isinstance(content, dict) else None
        if isinstance(hosts, list):
            self._hosts = [host for host in hosts[:_MOST_HOSTS] if isinstance(host, str) and "@" not in host]
        return self._hosts

    def _is_private(self) -> bool:
        """Whether the server itself is in a private network, or this very machine."""
        host = urlsplit(self._address.url).hostname or ""
        if is_loopback(host):
            return True
        # A WebSocket may go through any of the proxies, and is then connected to that.
        if http.is_address(host) or any(http.has_proxy(scheme, host) for scheme in ("http", "https", "socks", "all")):
            return http.is_address(host) and not is_public(host)
        peer = self._get_peer()
        return bool(peer) and not is_public(peer)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise RefusedHost("the server names no address") from None
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain or port == 0:
        raise RefusedHost("the server names an address that is not a plain http or https one")
    return parts


def _is_same(first: SplitResult, second: SplitResult) -> bool:
    """Whether two addresses are of one host and port. The names of this machine are one host."""
    try:
        ports = [parts.port or _PORTS.get(parts.scheme) for parts in (first, second)]
    except ValueError:
        return False
    hosts = [(parts.hostname or "").rstrip(".") for parts in (first, second)]
    return ports[0] == ports[1] and (hosts[0] == hosts[1] or all(map(is_loopback, hosts)))


def _partitions(host: str) -> tuple[str, ...]:
    """The partitions of AWS in which a server may be: its own, if it has one of AWS's names."""
    own = next((name for name in _PARTITIONS if host.endswith(f".{name}")), None)
    return _PARTITIONS if own is None else (own,)


def _accepts_any(address: str) -> bool:
    return True
