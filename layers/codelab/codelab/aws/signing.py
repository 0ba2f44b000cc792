"""Signature Version 4 for requests without a query ("Signing AWS API requests", IAM User Guide).

The SDK's signer comes with a fifth of all that a cold start imports.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from codelab.aws.session import Keys, credentials, region

#: Headers that proxies and tracing may change on the way.
_UNSIGNED = frozenset({"user-agent", "x-amzn-trace-id"})


#: AWS refuses a signature that is five minutes old, or not valid yet.
_SKEW_S = 240.0


class Request(NamedTuple):
    """A signed HTTP request, without its Content-Length."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class Signer:
    """Signs the requests to one service. Used by several threads.

    service: as signatures name it. url: of the service, or of an API's stage, without a slash at its end. authority:
    the host as a Host header gives it. region_name: of the service, by default that of the process.
    """

    def __init__(self, service: str, url: str, authority: str, region_name: str | None = None) -> None:
        self._service, self._region = service, region_name or region()
        self._url, self._path = url, urlsplit(url).path
        self._authority = authority
        self._credentials = credentials()
        #: What this machine's clock is behind AWS's, in seconds.
        self._behind_s = 0.0

    def signed(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Request:
        """A request that is signed with the current credentials. `path` begins with a slash and is quoted.

        Raises AwsUnreachable if there are no credentials, or new ones cannot be had.
        """
        signed = signed_headers(
            self._credentials(),
            self._service,
            self._region,
            method,
            self._path + path,
            {**headers, "Host": self._authority},
            body,
            time.time() + self._behind_s,
        )
        return Request(method, self._url + path, signed, body)

    def corrects_clock(self, request: Request, headers: Mapping[str, str]) -> bool:
        """Learn the time from the headers of a refusal. Returns False if the request was signed with the right one.

        Later requests are signed with the time that was learned.
        """
        now = _time_of(headers)
        signed_at = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%S%z").timestamp()
        if now is None or abs(now - signed_at) < _SKEW_S:
            return False
        self._behind_s = now - time.time()
        return True


def signed_headers(
    keys: Keys,
    service: str,
    region: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    clock: float,
) -> dict[str, str]:
    """The headers with the signature.

    service: as signatures name it. path: as it is sent, without `.` and `..`. headers: with the Host. clock: seconds
    since the epoch.
    """
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(clock))
    all_headers = {**headers, "X-Amz-Date": now}
    if keys.token:
        all_headers["X-Amz-Security-Token"] = keys.token
    lines = {name.lower(): " ".join(value.split()) for name, value in all_headers.items()}
    names = sorted(lines.keys() - _UNSIGNED)
    signed = ";".join(names)
    # Every service but S3 quotes the path once more.
    canonical = [
        method,
        quote(path, safe="/~"),
        "",
        *(f"{name}:{lines[name]}" for name in names),
        "",
        signed,
        _digest(body),
    ]
    scope = f"{now[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, _digest("\n".join(canonical).encode())])
    signature = hmac.digest(_signing_key(keys.secret_key, scope), text.encode(), "sha256").hex()
    all_headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={signed}, Signature={signature}"
    )
    return all_headers


def _time_of(headers: Mapping[str, str]) -> float | None:
    """When an answer was given, in seconds; None if it does not say so."""
    from email.utils import parsedate_to_datetime  # most processes never need it

    try:
        return parsedate_to_datetime(headers.get("date", "")).timestamp()
    except ValueError:
        return None


@lru_cache(16)
def _signing_key(secret_key: str, scope: str) -> bytes:
    """The same for all requests of a day to a service."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
