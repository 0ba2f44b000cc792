"""The web page: its files, as `make deploy` has put them beside this handler, each compressed.

It uses nothing of the library and has no permission but to log, because anybody may call it. The page has the API's
origin, so its policy lets it run its own scripts only, and send what it knows to this system and its identity provider
only. The local cloud serves it with the same headers.
"""

import base64
import gzip
import hashlib
import mimetypes
import os
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_ROOT = Path(__file__).parent / "files"
#: By path in the address. What is not listed here does not exist, however the path is written.
_FILES = {f"/{file.relative_to(_ROOT).as_posix().removesuffix('.gz')}": file for file in _ROOT.rglob("*.gz")}
_INDEX = "/index.html"
_HASHED = "/assets/"  # the bundler puts a digest of the content into these files' names

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Strict-Transport-Security": "max-age=31536000",
}
# Trusted Types: a string becomes HTML only through the sanitizer, and names a script only where the service worker is.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self' {addresses}; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify push"
)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The file of a request to the HTTP API; 404 if there is none."""
    path = event["rawPath"]
    file = _FILES.get(_INDEX if path == "/" else path)
    if file is None:
        body = '{"message": "Not Found"}'
        return {"statusCode": 404, "headers": {**_headers(), "Content-Type": "application/json"}, "body": body}
    content, tag, kind = _read(file)
    caching = "public, max-age=31536000, immutable" if path.startswith(_HASHED) else "no-cache"
    headers = {**_headers(), "ETag": tag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    request_headers = {name.lower(): value for name, value in event["headers"].items()}
    if request_headers.get("if-none-match") == tag:
        return {"statusCode": 304, "headers": headers}
    headers["Content-Type"] = kind
    if "gzip" in [
        coding.strip() for coding in request_headers.get("accept-encoding", "").split(",")
    ]:  # as browsers ask
        headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    body = base64.b64encode(content).decode()
    return {"statusCode": 200, "headers": headers, "body": body, "isBase64Encoded": True}


@cache
def _read(file: Path) -> tuple[bytes, str, str]:
    """A file's compressed content, its tag and its type."""
    content = file.read_bytes()
    kind = mimetypes.guess_type(file.name.removesuffix(".gz"))[0] or "application/octet-stream"
    if kind.startswith("text/") or kind in ("application/javascript", "image/svg+xml"):
        kind = f"{kind.replace('application/j', 'text/j')}; charset=utf-8"
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"', kind


@cache
def _headers() -> dict[str, str]:
    """The headers of every answer. `connect-src` has the WebSocket, the bucket and who signs users in."""
    value = os.environ
    addresses = [f"wss://{urlsplit(value['WEBSOCKET_ADDRESS']).netloc}", value["PAYLOAD_ORIGIN"]]
    if value["JWKS_URL"] and value["JWT_CLIENT_ID"]:
        issuer = urlsplit(value["JWT_ISSUER"])
        addresses += [f"{issuer.scheme}://{issuer.netloc}", *value["SIGN_IN_ORIGINS"].split(",")]
    return {**_HEADERS, "Content-Security-Policy": _POLICY.format(addresses=" ".join(filter(None, addresses)))}
