"""S3 under `/s3`: on the public port for presigned URLs, on the internal port for functions.

The emulator does not check presigned URLs, so this module verifies the signature: method, path, signed headers, time.
The public port only allows GET, HEAD and PUT of objects under the project's prefixes, with the headers listed here. It
does not forward requests, but builds new ones from what it parsed. The emulator does the rest, including If-None-Match.
"""

import asyncio
import http.client
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from codelab_local.emulator.server import Emulator
from codelab_local.emulator.signatures import Refused, check_header, check_presigned, encoded, sign
from codelab_local.http.protocol import Request, Response

PREFIX = "/s3"
TIMEOUT = 60.0

_METHODS = ("GET", "HEAD", "PUT")
# `x-id` is the SDK's name for the operation, which the method already determines.
_PARAMETERS = frozenset({"x-id"})
_REQUEST_HEADERS = frozenset(
    {
        *("content-type", "content-encoding", "content-md5", "cache-control", "range"),
        *("if-match", "if-none-match", "if-modified-since", "if-unmodified-since"),
        *("x-amz-decoded-content-length", "x-amz-trailer", "x-amz-sdk-checksum-algorithm", "x-amz-checksum-mode"),
    }
)
#: Headers of a signature, which are replaced.
_SIGNATURE = frozenset({"authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"})
_RESPONSE_HEADERS = frozenset(
    {
        *("content-type", "content-length", "content-range", "content-encoding", "accept-ranges", "cache-control"),
        *("etag", "last-modified", "x-amz-request-id"),
    }
)
_CHECKSUM = "x-amz-checksum-"
#: An upload is data, whatever its type: a browser must not run it as a page of this origin.
_AS_DATA = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "date", "server", "keep-alive", "expect"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ObjectStore:
    """`handle` is the public port's HTTP application for `/s3`, `handle_function` the internal port's.

    `public` maps a bucket to the prefixes of the objects that clients may use.
    """

    def __init__(self, emulator: Emulator, region: str, public: Mapping[str, Sequence[str]]) -> None:
        self._emulator = emulator
        self._region = region
        self._public = public

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        try:
            target = self._check(request)
            headers = _passed_on(request.headers)
        except Refused as refusal:
            body = f"<Error><Code>{refusal.code}</Code><Message>{escape(str(refusal))}</Message></Error>"
            return Response(403, body.encode(), "application/xml")
        return self._serve_client(request, target, headers)

    def handle_function(self, request: Request) -> Awaitable[Response]:
        """All of S3, for callers that know the internal port's secret."""
        target = request.path.removeprefix(PREFIX) + (f"?{request.query}" if request.query else "")
        removed_names = _HOP_BY_HOP | _SIGNATURE | {"host"}
        headers = {name: value for name, value in request.headers.items() if name not in removed_names}
        return asyncio.to_thread(self._forward, request, target, headers)

    async def _serve_client(self, request: Request, target: str, headers: dict[str, str]) -> Response:
        answer = await asyncio.to_thread(self._forward, request, target, headers)
        public_headers = {
            name: value
            for name, value in answer.headers.items()
            if name.lower() in _RESPONSE_HEADERS or name.lower().startswith(_CHECKSUM)
        }
        answer.headers = {**public_headers, **_AS_DATA}
        return answer

    def _check(self, request: Request) -> str:
        """The object's path in the emulator. Raises :class:`Refused`."""
        now, path, query, headers = time.time(), request.path, request.query, request.headers
        if "X-Amz-Signature=" in query:
            parameters = check_presigned(self._emulator.credentials, request.method, path, query, headers, now)
        else:
            check_header(self._emulator.credentials, request.method, path, query, headers, request.body, now)
            parameters = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
        if request.method not in _METHODS or not parameters <= _PARAMETERS:
            raise Refused("AccessDenied", "Only reading and writing objects is allowed")
        bucket, _, key = unquote(path.removeprefix(f"{PREFIX}/")).partition("/")
        odd = _CONTROL.search(key) is not None or any(part in ("", ".", "..") for part in key.split("/"))
        if odd or not any(key.startswith(prefix) for prefix in self._public.get(bucket, ())):
            raise Refused("AccessDenied", "No access to an object of this name")
        return f"/{bucket}/{encoded(key, '/')}"

    def _forward(self, request: Request, target: str, headers: dict[str, str]) -> Response:
        port = self._emulator.port
        unsigned_headers = {"host": f"127.0.0.1:{port}", **headers}
        payload = request.headers.get("x-amz-content-sha256", "")
        if payload.startswith("STREAMING-"):  # The body has a chunked encoding.
            unsigned_headers["x-amz-content-sha256"] = payload
        signed_headers = sign(
            self._emulator.credentials, self._region, "s3", request.method, target, unsigned_headers, request.body
        )
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        try:
            connection.request(request.method, target, request.body, signed_headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        response_headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP}
        content_type = response_headers.pop("Content-Type", None) or response_headers.pop(
            "content-type", "application/octet-stream"
        )
        if request.method == "HEAD":
            response_headers |= {
                "Content-Length": answer.getheader("Content-Length") or "0",
                "Content-Type": content_type,
            }
        return Response(answer.status, body, content_type, response_headers)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers for the emulator. Raises :class:`Refused` for unsupported S3 headers."""
    headers_out = {}
    for name, value in headers.items():
        if name in _REQUEST_HEADERS or name.startswith(_CHECKSUM):
            headers_out[name] = value
        elif name.startswith("x-amz-") and name not in _SIGNATURE:
            raise Refused("AccessDenied", f"The header {name} is not allowed")
    return headers_out
