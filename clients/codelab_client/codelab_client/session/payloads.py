"""Frames that are too large for a WebSocket message travel over HTTP: one PUT, or one GET."""

import json
import re
from collections.abc import Mapping
from typing import Any

from codelab_client.session import http
from codelab_client.session.payload_hosts import PayloadHosts, RefusedHost

#: Frames above this size (bytes of JSON) are sent by reference (docs/protocol.md, "Large frames").
INLINE_BYTES = 30_000
#: The largest frame, in either direction.
MOST_BYTES = http.MOST_BYTES


#: The length is that of the body, whatever a ticket says.
_HEADER = re.compile(
    r"content-(?:type|md5|encoding|disposition|language)|if-(?:none-)?match|cache-control|x-amz-[a-z0-9-]+",
    re.IGNORECASE,
)


class TransferError(Exception):
    """A transfer failed. The text says why."""


async def fetch(url: str, size: int | None, hosts: PayloadHosts) -> Any:
    """GET the JSON at `url`, if it is one of the server's hosts. Raises TransferError."""
    answer = await _send("GET", url, None, {}, hosts)
    if answer.status != 200:
        raise TransferError(f"the download was answered with HTTP {answer.status}")
    if size is not None and len(answer.body) != size:
        raise TransferError(f"the download has {len(answer.body)} bytes instead of {size}")
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise TransferError("the download is not JSON") from None


async def put(url: str, body: bytes, headers: Mapping[str, Any], hosts: PayloadHosts) -> None:
    """PUT a frame to one of the server's hosts, which answers a repeated PUT with 412. Raises TransferError.

    headers: the ticket's, of which only those are sent that describe the object.
    """
    texts = {name: value for name, value in headers.items() if isinstance(value, str) and _HEADER.fullmatch(name)}
    answer = await _send("PUT", url, body, texts, hosts)
    if answer.status not in (200, 201, 204, 412):
        raise TransferError(f"the upload was answered with HTTP {answer.status}")


async def _send(
    method: str, url: str, body: bytes | None, headers: dict[str, str], hosts: PayloadHosts
) -> http.Response:
    try:
        may_reach = await hosts.check(url)
        return await http.send(method, url, body, headers, may_reach=may_reach)
    except (http.HttpError, RefusedHost) as error:
        raise TransferError(str(error)) from None
