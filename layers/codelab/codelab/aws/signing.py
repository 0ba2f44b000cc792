"""Signature Version 4 for requests without a query ("Signing AWS API requests", IAM User Guide).

The SDK's signer comes with a fifth of all that a cold start imports.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

#: Headers that proxies and tracing may change on the way.
_UNSIGNED = frozenset({"user-agent", "x-amzn-trace-id"})


class Keys(NamedTuple):
    """What requests are signed with. token: None for the keys of a user, who has no session."""

    access_key: str
    secret_key: str
    token: str | None


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
    sent = {**headers, "X-Amz-Date": now}
    if keys.token:
        sent["X-Amz-Security-Token"] = keys.token
    lines = {name.lower(): " ".join(value.split()) for name, value in sent.items()}
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
    sent["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={signed}, Signature={signature}"
    )
    return sent


@lru_cache(16)
def _signing_key(secret_key: str, scope: str) -> bytes:
    """The same for all requests of a day to a service."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
