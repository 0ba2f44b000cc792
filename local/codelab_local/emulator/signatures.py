"""Signature Version 4: signs the local cloud's own calls, and verifies incoming ones.

IAM user guide, "Create a signed AWS API request"; for presigned URLs the S3 API reference, "Authenticating Requests:
Using Query Parameters".
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote

ALGORITHM = "AWS4-HMAC-SHA256"
MAX_URL_LIFE = 604_800
#: The largest allowed clock difference, in seconds.
MAX_SKEW = 900

_AUTHORIZATION = re.compile(rf"{ALGORITHM} Credential=([^, ]+), ?SignedHeaders=([^, ]+), ?Signature=([0-9a-f]{{64}})")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Credentials:
    """An access key. `key_id` is in every presigned URL; only the functions' processes get `secret`."""

    key_id: str
    secret: str = field(repr=False)

    @classmethod
    def random(cls) -> "Credentials":
        return cls(f"LOCAL{secrets.token_hex(8).upper()}", secrets.token_hex(32))


class Refused(Exception):
    """An invalid signature: 403 with S3's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def sign(
    credentials: Credentials,
    region: str,
    service: str,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
) -> dict[str, str]:
    """Sign a request: `headers` (including Host) plus the signature's. `target` is the path with its query."""
    date = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {**{name.lower(): value for name, value in headers.items()}, "x-amz-date": date}
    digest = signed.setdefault("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
    signed_headers = ";".join(sorted(signed))
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    path, _, query = target.partition("?")
    canonical = _canonical(service, method, path, _pairs(query), signed, signed_headers, digest)
    signature = _signature(credentials.secret, date, scope, canonical)
    signed["authorization"] = (
        f"{ALGORITHM} Credential={credentials.key_id}/{scope}, SignedHeaders={signed_headers}, Signature={signature}"
    )
    return signed


def key_id_of(headers: Mapping[str, str]) -> str:
    """The access key id in a request's Authorization, or an empty string."""
    match = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    return match[1].partition("/")[0] if match else ""


def check_header(
    credentials: Credentials,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    now: float | None = None,
) -> str:
    """Verify the signature in a request's Authorization header, and return the service that it was signed for.

    `headers` have lower-case names; `path` and `query` are unparsed. The date is checked if `now` is given.
    Raises :class:`Refused`.
    """
    match = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if match is None:
        raise Refused("AccessDenied", "Access Denied")
    credential, signed_headers, signature = match.groups()
    scope, service = _scope(credentials, credential)
    date = headers.get("x-amz-date", "")
    if now is not None and abs((_seconds(date) or 0) - now) > MAX_SKEW:
        raise Refused("RequestTimeTooSkewed", "The difference between the request time and the server's is too large.")
    digest = hashlib.sha256(body).hexdigest()
    payload = headers.get("x-amz-content-sha256", digest)
    if _DIGEST.fullmatch(payload) and payload != digest:
        raise Refused("XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match.")
    if service != "s3" and payload != digest:
        raise Refused("SignatureDoesNotMatch", "Only S3 accepts an unsigned body.")
    canonical = _canonical(service, method, path, _pairs(query), headers, signed_headers, payload)
    _compare(_signature(credentials.secret, date, scope, canonical), signature, signed_headers)
    return service


def check_presigned(
    credentials: Credentials, method: str, path: str, query: str, headers: Mapping[str, str], now: float
) -> set[str]:
    """Verify a presigned URL, and return its query parameters without the signature's. Raises :class:`Refused`."""
    parameters = _pairs(query)
    signed = {name: value for name, value in parameters if name.startswith("X-Amz-")}
    other_names = {name for name, _ in parameters if name not in signed}
    if len(parameters) != len(signed) + len(other_names) or signed.get("X-Amz-Algorithm") != ALGORITHM:
        raise Refused("AuthorizationQueryParametersError", "A parameter is repeated, or X-Amz-Algorithm is wrong")
    date, signed_headers = signed.get("X-Amz-Date", ""), signed.get("X-Amz-SignedHeaders", "")
    begin, life = _seconds(date), _number(signed.get("X-Amz-Expires", ""))
    if begin is None or life is None:
        raise Refused("AuthorizationQueryParametersError", "X-Amz-Date or X-Amz-Expires is malformed")
    if not 0 < life <= MAX_URL_LIFE or now > begin + life:
        raise Refused("AccessDenied", "Request has expired")
    scope, service = _scope(credentials, signed.get("X-Amz-Credential", ""))
    if service != "s3":
        raise Refused("AuthorizationQueryParametersError", "Only S3 URLs can be presigned")
    unsigned_parameters = [(name, value) for name, value in parameters if name != "X-Amz-Signature"]
    canonical = _canonical(service, method, path, unsigned_parameters, headers, signed_headers, "UNSIGNED-PAYLOAD")
    _compare(_signature(credentials.secret, date, scope, canonical), signed.get("X-Amz-Signature", ""), signed_headers)
    return other_names


def encoded(text: str, safe: str = "") -> str:
    """Percent-encode as SigV4 requires."""
    return quote(text, safe=f"{safe}-_.~")


def _canonical(
    service: str,
    method: str,
    path: str,
    parameters: Sequence[tuple[str, str]],
    headers: Mapping[str, str],
    signed_headers: str,
    payload: str,
) -> str:
    query = sorted((encoded(name), encoded(value)) for name, value in parameters)
    return "\n".join(
        (
            method,
            # S3 signs the path as it is; other services encode it twice.
            encoded(unquote(path) if service == "s3" else path, "/"),
            "&".join(f"{name}={value}" for name, value in query),
            *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in signed_headers.split(";")),
            "",
            signed_headers,
            payload,
        )
    )


def _signature(secret: str, date: str, scope: str, canonical: str) -> str:
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return hmac.digest(_key(secret, scope), f"{ALGORITHM}\n{date}\n{scope}\n{digest}".encode(), "sha256").hex()


@lru_cache(maxsize=64)
def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _scope(credentials: Credentials, credential: str) -> tuple[str, str]:
    """The credential's scope and service. Raises :class:`Refused` for another access key."""
    key_id, _, scope = credential.partition("/")
    if not hmac.compare_digest(key_id.encode(), credentials.key_id.encode()):
        raise Refused("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
    parts = scope.split("/")
    if len(parts) != 4 or parts[3] != "aws4_request":
        raise Refused("AuthorizationHeaderMalformed", "The credential's scope must be date/region/service/aws4_request")
    return scope, parts[2]


def _compare(expected: str, signature: str, signed_headers: str) -> None:
    if "host" not in signed_headers.split(";") or not hmac.compare_digest(expected.encode(), signature.encode()):
        message = "The request signature we calculated does not match the signature you provided."
        raise Refused("SignatureDoesNotMatch", message)


def _seconds(date: str) -> float | None:
    try:
        return datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)
