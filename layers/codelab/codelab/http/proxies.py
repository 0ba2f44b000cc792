"""Which proxy leads to a host: HTTPS_PROXY or ALL_PROXY, unless NO_PROXY names the host."""

from __future__ import annotations

import base64
import os
import sys
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class ProxyRefused(ValueError):
    """The environment names a proxy that cannot be used."""


class Proxy(NamedTuple):
    """A proxy that is spoken to in plain HTTP, and the headers that it needs."""

    host: str
    port: int
    headers: dict[str, str]


def proxy_for(host: str, port: int) -> Proxy | None:
    """The proxy for TLS connections to a host; None: connect to it directly. Raises ProxyRefused.

    Variables in lower case win, as in curl. On macOS and Windows the system's settings count if no variable is set.
    """
    proxies = _variables()
    if not proxies:
        return _systems_proxy(host) if sys.platform in ("darwin", "win32") else None
    variable = "HTTPS_PROXY" if proxies.get("https") else "ALL_PROXY"
    url = proxies.get("https") or proxies.get("all")
    return None if not url or is_direct(host, port, proxies.get("no", "")) else _parsed(variable, url)


def is_direct(host: str, port: int, no_proxy: str) -> bool:
    """Is the host among those that NO_PROXY names?

    It names them by commas: a domain (with those below it, whether or not it begins with a dot), an IP address, a range
    of addresses (10.0.0.0/8), or `*` for all. A domain and an address may have a port (internal:8443, [::1]:443).
    """
    host = host.strip("[]").lower().rstrip(".")
    return any(_names(entry.strip().lower(), host, port) for entry in no_proxy.split(","))


def _names(entry: str, host: str, port: int) -> bool:
    if entry in ("", "*"):
        return entry == "*"
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdecimal() and (":" not in name or name.endswith("]")):
        if int(digits) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:  # One of them is a name.
        domain = entry.removeprefix("*").strip(".")
        return domain != "" and (host == domain or host.endswith(f".{domain}"))


def _variables() -> dict[str, str]:
    """The variables that end with `_PROXY`, by what stands before that."""
    names = sorted(name for name in os.environ if name.lower().endswith("_proxy"))  # Lower case comes last, and wins.
    return {name.lower().removesuffix("_proxy"): os.environ[name].strip() for name in names}


def _systems_proxy(host: str) -> Proxy | None:
    from urllib.request import getproxies, proxy_bypass

    url = getproxies().get("https")
    return None if not url or proxy_bypass(host) else _parsed("the system's settings", url)


def _parsed(source: str, url: str) -> Proxy:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host = None
    if not host or parts.scheme != "http":
        raise ProxyRefused(f"{source} does not name an http:// proxy, and others cannot be used")
    headers = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
    return Proxy(host, port, headers)
