"""What kind of failure a provider's error is, by its status, its code and its words.

Providers do not even agree on HTTP's status: a filter is a 400 here and a finish reason there, and codes are numbers,
words or missing. So each kind has patterns, and the first that matches decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class FailureKind(StrEnum):
    """Why a provider gave no answer."""

    KEY = "key"
    ACCESS = "access"
    SIGN_IN = "sign_in"
    MODEL = "model"
    QUOTA = "quota"
    RATE = "rate"
    FILTER = "filter"
    WINDOW = "window"
    COMPILING = "compiling"
    BUSY = "busy"
    UNREACHABLE = "unreachable"
    PROTOCOL = "protocol"
    OTHER = "other"


def _any(*patterns: str) -> str:
    return "|".join(patterns)


#: Patterns are compiled by `re` when they are first needed: all functions import this module, and few meet an error.
_FLAGS = re.IGNORECASE | re.DOTALL
#: The words of each kind, the first that match count.
_WORDS: tuple[tuple[FailureKind, str], ...] = (
    (
        FailureKind.FILTER,
        _any(
            r"content_?filter|content.management.policy|content_policy|responsible.?ai|data_inspection_failed",
            r"sensitive.(content|information)|moderation|safety.(system|filter|check)|(blocked|flagged) by",
        ),
    ),
    (
        FailureKind.WINDOW,
        _any(
            r"context_length_exceeded|exceed_context_size|model_context_window",
            r"(maximum|available|exceeds?.{0,30}|larger than.{0,30}) context",
            r"context (length|window|size|limit)s?\b.{0,40}exceed",
            r"maximum (prompt|input|model) length|(prompt|input|request)( is|s are) too long",
            r"input token count|maximum number of (input )?tokens|range of input length|reduce the length of",
        ),
    ),
    (
        FailureKind.KEY,
        _any(
            r"invalid.{0,12}(api.?key|token|credential)|api.?key.{0,20}(invalid|not valid|incorrect|missing|expired)",
            r"incorrect api.?key|unauthori[sz]ed|authentication|unauthenticated|permission_?denied|access.?denied",
        ),
    ),
    (
        FailureKind.QUOTA,
        _any(r"insufficient.{0,12}(quota|balance|credit|funds)|billing|payment required|credit balance is too low"),
    ),
    (
        FailureKind.MODEL,
        _any(
            r"on.demand throughput|model identifier is invalid",
            r"model.{0,60}(not.found|not exist|not available|is not supported|no access|unknown|decommissioned)",
            r"(unknown|invalid|no such) model|deployment.{0,20}not.{0,5}(found|exist)",
        ),
    ),
    (FailureKind.COMPILING, _any(r"(schema|grammar).{0,60}(compil|warm|being prepared|not ready)")),
    (FailureKind.RATE, _any(r"rate.?limit|too many requests|throttl|resource_?exhausted|tokens? per (minute|day)")),
    (FailureKind.BUSY, _any(r"overloaded|unavailable|capacity|insufficient_system_resource|try again later")),
)
_STATUS: Mapping[int, FailureKind] = {
    401: FailureKind.KEY,
    402: FailureKind.QUOTA,
    403: FailureKind.KEY,
    404: FailureKind.MODEL,
    429: FailureKind.RATE,
    503: FailureKind.BUSY,
    529: FailureKind.BUSY,
}
#: AWS's names of errors that say more than their status.
_AWS_ERRORS: Mapping[str, FailureKind] = {
    "accessdeniedexception": FailureKind.ACCESS,
    "servicequotaexceededexception": FailureKind.QUOTA,
    "modelnotreadyexception": FailureKind.BUSY,
    "modeltimeoutexception": FailureKind.BUSY,
    "modelerrorexception": FailureKind.BUSY,
    "modelstreamerrorexception": FailureKind.BUSY,
}
#: The statuses of an error about the size of a request; None: it came within the answer. Some servers have only 500.
_WINDOW_STATUSES = frozenset({None, 400, 413, 422, 500})
#: The most digits of a status that is a text.
_STATUS_DIGITS = 9
#: A limit of a rate, which has other words for a request that is too large for it.
_RATE = _any(r"per (minute|second|hour|day)|rate.?limit|quota")
#: Kinds that words alone decide, whatever the status; of the others, the status decides if it says more than "bad".
_BY_WORDS = frozenset({FailureKind.FILTER, FailureKind.WINDOW, FailureKind.QUOTA})
_SECRETS = _any(
    r"\b(sk|pk|rk|gsk|xai|hf|r8|key|gh[oprsu]|github_pat|glpat|xox[a-z])[-_][A-Za-z0-9_\-*.]{6,}",
    r"(?<=://)[^/\s@]{1,200}@|\bBasic\s+[A-Za-z0-9+/]{8,}={0,2}",
    r"\bAIza[\w-]{10,}|\bA[KS]IA[A-Z0-9]{12,}|\bBearer\s+\S+|\bey[A-Za-z0-9_-]{10,}\.[\w.-]+",
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{13,}|\b(org|proj|req|user|acct|run)[-_][A-Za-z0-9]{8,}",
    r"arn:aws[\w-]*:\S+|\b[0-9]{12}\b|\b[A-Za-z0-9+/_-]{32,}={0,2}",
)
#: A value with a digit in it, after a name such as `token=`.
_NAMED_SECRET = (
    r"((?<![A-Za-z])(?:api_?key|key|token|secret|password|sig|signature)(?: provided)?['\"]?\s{0,3}[:=]\s{0,3}['\"]?)"
    r"(?=[^\s'\"&,;]{0,100}\d)[^\s'\"&,;]{6,}"
)


def kind_of(status: int | None, code: Any, message: str) -> FailureKind:
    """The kind of an error with this status, code and message."""
    words = f"{code if isinstance(code, str) else ''} {message}"
    kinds = [kind for kind, pattern in _WORDS if re.search(pattern, words, _FLAGS)]
    if FailureKind.WINDOW in kinds and (status not in _WINDOW_STATUSES or re.search(_RATE, words, _FLAGS)):
        kinds.remove(FailureKind.WINDOW)
    decisive_kind = next((kind for kind in kinds if kind in _BY_WORDS), None)
    if decisive_kind is FailureKind.WINDOW or (decisive_kind is not None and (status is None or status < 500)):
        return decisive_kind
    by_status = _AWS_ERRORS.get(str(code).lower()) or _STATUS.get(status or 0)
    if by_status is not None:
        return by_status
    return kinds[0] if kinds else FailureKind.OTHER


def status_of(code: Any) -> int | None:
    """The HTTP status that an error's code is or names, such as `429`, "429" or "RESOURCE_EXHAUSTED"."""
    if isinstance(code, bool):
        return None
    if isinstance(code, int):
        return code if 400 <= code <= 599 else None
    if isinstance(code, str) and len(code) <= _STATUS_DIGITS and code.isdecimal() and 400 <= int(code) <= 599:
        return int(code)
    return _STATUS_BY_NAME.get(str(code).lower())


#: google.rpc.Code and the codes of OpenAI, Anthropic, AWS and others.
_STATUS_BY_NAME: Mapping[str, int] = {
    "invalid_argument": 400,
    "invalid_request_error": 400,
    "failed_precondition": 400,
    "unauthenticated": 401,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_denied": 403,
    "permission_error": 403,
    "not_found": 404,
    "not_found_error": 404,
    "model_not_found": 404,
    "resource_exhausted": 429,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "too_many_requests": 429,
    "internal": 500,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "unavailable": 503,
    "service_unavailable": 503,
    "overloaded_error": 529,
    "deadline_exceeded": 504,
    "validationexception": 400,
    "throttlingexception": 429,
    "internalserverexception": 500,
    "serviceunavailableexception": 503,
}


def masked(words: str) -> str:
    """A provider's words without keys, tokens, account numbers and ids."""
    without_named_secrets = re.sub(_NAMED_SECRET, r"\1…", words, flags=re.IGNORECASE)
    return re.sub(_SECRETS, "…", without_named_secrets, flags=_FLAGS)
