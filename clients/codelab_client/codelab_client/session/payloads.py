"""Frames that are too large for a WebSocket message travel over HTTP: one PUT, or one GET."""

import json
from collections.abc import Mapping
from typing import Any

from codelab_client.session import http

#: Frames above this size (bytes of JSON) are sent by reference (docs/protocol.md, "Large frames").
INLINE_BYTES = 30_000
#: The largest frame, in either direction.
MOST_BYTES = http.MOST_BYTES


class TransferError(Exception):
    """A transfer failed. The text says why."""


async def fetch(url: str, size: int | None, *, secure: bool) -> Any:
    """GET the JSON at `url`; secure: only over TLS. Raises TransferError."""
    answer = await _send("GET", url, None, {}, secure)
    if answer.status != 200:
        raise TransferError(f"the download was answered with HTTP {answer.status}")
    if size is not None and len(answer.body) != size:
        raise TransferError(f"the download has {len(answer.body)} bytes instead of {size}")
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise TransferError("the download is not JSON") from None


async def put(url: str, body: bytes, headers: Mapping[str, Any], *, secure: bool) -> None:
    """PUT a frame; secure: only over TLS. The server answers a repeated PUT with 412. Raises TransferError."""
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    answer = await _send("PUT", url, body, texts, secure)
    if answer.status not in (200, 201, 204, 412):
        raise TransferError(f"the upload was answered with HTTP {answer.status}")


async def _send(method: str, url: str, body: bytes | None, headers: dict[str, str], secure: bool) -> http.Answer:
    if secure and not url.startswith("https://"):
        raise TransferError("the server names an address without TLS")
    try:
        return await http.send(method, url, body, headers)
    except http.HttpError as error:
        raise TransferError(str(error)) from None
