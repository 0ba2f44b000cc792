"""One HTTP request, with the standard library: imported and connected only when it is needed."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from codelab_client.session.address import is_loopback

#: Bytes of the largest answer.
MOST_BYTES = 10_000_000


class HttpError(Exception):
    """There is no answer. The text says why."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    body: bytes


async def send(
    method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, timeout_s: float = 60.0
) -> Answer:
    """Send a request to an `http` or `https` address, through the proxy of the environment if there is one.

    It follows no redirect, so that neither a token nor a body reaches another server. Raises HttpError.
    """
    return await asyncio.to_thread(_send, method, url, body, dict(headers or {}), timeout_s)


def _send(method: str, url: str, body: bytes | None, headers: dict[str, str], timeout_s: float) -> Answer:
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
        direct = [urllib.request.ProxyHandler({})] if is_loopback(parts.hostname) else []
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        opener = urllib.request.build_opener(NoRedirect, *direct)
        try:
            response = opener.open(request, timeout=timeout_s)
        except urllib.error.HTTPError as refusal:
            response = refusal
        with response:
            content = response.read(MOST_BYTES + 1)
            status = response.status
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise HttpError(str(reason) or type(error).__name__) from None
    if len(content) > MOST_BYTES:
        raise HttpError(f"the answer has more than {MOST_BYTES:,} bytes")
    return Answer(status, content)
