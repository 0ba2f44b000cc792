"""S3 on the public port, under `/s3`: what the emulator has, for clients too, with the checks that it does not make.

A presigned URL is a contract that S3 enforces: the method, the path, the headers that were signed, and the time. Here
signatures are computed anew (SigV4, "Authenticating Requests" in the S3 API reference), so that a client which changes
any of these is refused as S3 refuses it. The rest, If-None-Match included, is the emulator's business.
"""

import asyncio
import hashlib
import hmac
import http.client
import re
import time
from collections.abc import Awaitable
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape

from codelab_local.http_protocol import Request, Response

PREFIX = "/s3"
#: The one identity there is; the functions sign with it.
ACCESS_KEY, SECRET_KEY = "local", "local"
MAX_URL_LIFE = 604_800
TIMEOUT = 60.0

_AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})")
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "date", "server", "keep-alive"})


class Refused(Exception):
    """An answer of S3's own: 403 with its error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ObjectStore:
    """`handle` is the HTTP application for all paths under `/s3`."""

    def __init__(self, emulator_port: int, region: str) -> None:
        self._port = emulator_port
        self._region = region
        self._clock = time.time

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        try:  # a browser asks without a signature what it may ask with one
            query = request.query if request.method == "OPTIONS" else self._check(request)
        except Refused as refused:
            body = f"<Error><Code>{refused.code}</Code><Message>{escape(str(refused))}</Message></Error>"
            return Response(403, body.encode(), "application/xml")
        return asyncio.to_thread(self._forward, request, query)

    def _check(self, request: Request) -> str:
        """The query for the emulator: without the signature, which was made for this address."""
        parameters = parse_qsl(request.query, keep_blank_values=True)
        signed = {name: value for name, value in parameters if name.startswith("X-Amz-")}
        if "X-Amz-Signature" in signed:
            self._check_time(signed.get("X-Amz-Date", ""), signed.get("X-Amz-Expires", ""))
            given, headers = signed["X-Amz-Signature"], signed.get("X-Amz-SignedHeaders", "")
            scope, payload, date = signed.get("X-Amz-Credential", ""), "UNSIGNED-PAYLOAD", signed["X-Amz-Date"]
            canonical = [(name, value) for name, value in parameters if name != "X-Amz-Signature"]
        else:
            found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
            if found is None:
                raise Refused("AccessDenied", "Access Denied")
            scope, headers, given = found.groups()
            payload, date = request.headers.get("x-amz-content-sha256", ""), request.headers.get("x-amz-date", "")
            canonical = parameters
        if scope.split("/")[0] != ACCESS_KEY:
            raise Refused("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        names = headers.split(";")
        lines = [
            request.method,
            _encoded(unquote(request.path), "/"),
            "&".join(sorted(f"{_encoded(name)}={_encoded(value)}" for name, value in canonical)),
            *(f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in names),
            "",
            headers,
            payload,
        ]
        if "host" not in names or not hmac.compare_digest(_signature(date, scope, "\n".join(lines)), given):
            message = "The request signature we calculated does not match the signature you provided."
            raise Refused("SignatureDoesNotMatch", message)
        return "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in parameters if name not in signed)

    def _check_time(self, date: str, expires: str) -> None:
        try:
            begin = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
            life = int(expires)
        except ValueError:
            raise Refused("AuthorizationQueryParametersError", "X-Amz-Date or X-Amz-Expires is malformed") from None
        if not 0 < life <= MAX_URL_LIFE or self._clock() > begin + life:
            raise Refused("AccessDenied", "Request has expired")

    def _forward(self, request: Request, query: str) -> Response:
        path = request.path.removeprefix(PREFIX) + (f"?{query}" if query else "")
        sent = {name: value for name, value in request.headers.items() if name not in ("connection", "expect", "host")}
        scope = f"{ACCESS_KEY}/20260101/{self._region}/s3/aws4_request"
        sent["authorization"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        try:
            connection.request(request.method, path, request.body, sent)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP}
        content_type = headers.pop("Content-Type", None) or headers.pop("content-type", "application/octet-stream")
        if request.method == "HEAD":
            headers |= {"Content-Length": answer.getheader("Content-Length") or "0", "Content-Type": content_type}
        return Response(answer.status, body, content_type, headers)


def _encoded(text: str, safe: str = "") -> str:
    return quote(text, safe=f"{safe}-_.~")


def _signature(date: str, scope: str, canonical_request: str) -> str:
    credential = scope.split("/")[1:]
    digest = hashlib.sha256(canonical_request.encode()).hexdigest()
    key = f"AWS4{SECRET_KEY}".encode()
    for part in credential:
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", date, "/".join(credential), digest])
    return hmac.digest(key, text.encode(), "sha256").hex()
