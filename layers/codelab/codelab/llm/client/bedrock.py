"""Amazon Bedrock's addresses, its two APIs, and keys for the OpenAI-compatible one, made with the role of the process.

Bedrock takes short-lived bearer tokens. A token is an encoded presigned call of `CallWithBearerToken`: making one
needs the role's credentials but no network. The role needs `bedrock:CallWithBearerToken` as well as the invoke actions.
https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys-generate.html

The first token imports botocore.
"""

from __future__ import annotations

import base64
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from codelab.llm.client.transport import Call
from codelab.llm.errors import InvalidRequest
from codelab.llm.profiles import profile_of

if TYPE_CHECKING:
    from codelab.llm.client.direct import DirectTransport
    from codelab.llm.client.openai_sdk import SdkTransport

_HOST = "bedrock.amazonaws.com"
_PREFIX = "bedrock-api-key-"
# botocore renews a role's credentials at least ten minutes before they expire, so a token that lives ten minutes never
# outlives the credentials that signed it. It is replaced a minute before its end. Both in seconds.
_LIFETIME_S, _MARGIN_S = 600, 60
#: The domain of AWS by how the name of a region begins (the SDK's partitions.json).
_DOMAINS = {"cn-": "amazonaws.com.cn", "eusc-": "amazonaws.eu"}
_ISOLATED = ("us-iso", "eu-iso")
#: Where, below the runtime's address, the OpenAI-compatible endpoint is.
_CHAT = "/openai/v1"
#: The regions of AWS in China, of its European Sovereign Cloud, and the isolated ones.
_UNDOCUMENTED = (*_DOMAINS, *_ISOLATED)
#: Where the region stands in the runtime's address, also in that of a VPC's endpoint.
_REGION = re.compile(r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
#: The shortest time between two tokens that replace a rejected one, in seconds.
_RENEW_EVERY_S = 60


class BedrockKey:
    """A function that returns the current token, for `DirectTransport(api_key=…)`.

    region: of the model; by default the environment's AWS_REGION. credentials: a function that returns botocore
    credentials; by default those of the process. clock: returns seconds.
    """

    def __init__(
        self,
        region: str | None = None,
        *,
        credentials: Callable[[], Any] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._region = region_of(region)
        self._credentials = credentials
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._expires = 0.0
        self._renewed_at: float | None = None

    def __call__(self) -> str:
        with self._lock:
            now = self._clock()
            if now >= self._expires - _MARGIN_S:
                self._make(now)
            return self._token

    def renew(self, rejected_token: str) -> bool:
        """Replace a token that Bedrock rejected; return whether a different one is available now."""
        with self._lock:
            now = self._clock()
            if self._token == rejected_token and (self._renewed_at is None or now - self._renewed_at >= _RENEW_EVERY_S):
                self._renewed_at = now
                self._make(now)
            return self._token != rejected_token

    def _make(self, now: float) -> None:
        self._token = self._presigned()
        self._expires = now + _LIFETIME_S

    def _presigned(self) -> str:
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest

        if self._credentials is None:
            import botocore.session

            session = botocore.session.get_session()
            self._credentials = session.get_credentials
        credentials = self._credentials()
        if credentials is None:
            raise InvalidRequest("there are no AWS credentials to call Bedrock with", "/config/provider")
        request = AWSRequest(
            method="POST", url=f"https://{_HOST}/", headers={"host": _HOST}, params={"Action": "CallWithBearerToken"}
        )
        frozen_credentials = (
            credentials.get_frozen_credentials() if hasattr(credentials, "get_frozen_credentials") else credentials
        )
        SigV4QueryAuth(frozen_credentials, "bedrock", self._region, expires=_LIFETIME_S).add_auth(request)
        presigned_url = str(request.url).removeprefix("https://") + "&Version=1"
        return _PREFIX + base64.b64encode(presigned_url.encode()).decode()


def region_in(url: str) -> str | None:
    """The region of an address of Bedrock's runtime; None if it does not tell."""
    match = _REGION.search(urlsplit(url).hostname or "")
    return match[1] if match else None


def region_of(region: str | None = None) -> str:
    """The region, by default the environment's. Raises InvalidRequest without one."""
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise InvalidRequest("no AWS region is set for Bedrock", "/config/provider")
    return region


def bedrock_base_url() -> str:
    """The OpenAI-compatible endpoint of the environment's region, that of FIPS if AWS_USE_FIPS_ENDPOINT says so.

    Raises InvalidRequest without a region, and in partitions of AWS for which no such endpoint is documented.
    """
    region = region_of()
    if region.startswith(_UNDOCUMENTED):
        raise InvalidRequest(
            f"no OpenAI-compatible endpoint of Amazon Bedrock is known in {region}: set LLM_BASE_URL (LlmBaseUrl)",
            "/config/provider",
        )
    return converse_url() + _CHAT


def converse_url(base_url: str = "") -> str:
    """The address below which Converse is: of the environment's region, as `bedrock_base_url`, or beside `base_url`.

    Raises InvalidRequest without a region, and in regions whose domain is not public.
    """
    if base_url:
        return base_url.rstrip("/").removesuffix(_CHAT)
    region = region_of()
    if region.startswith(_ISOLATED):
        raise InvalidRequest(
            f"no address of Amazon Bedrock is known in {region}: set LLM_BASE_URL (LlmBaseUrl)", "/config/provider"
        )
    domain = next((domain for prefix, domain in _DOMAINS.items() if region.startswith(prefix)), "amazonaws.com")
    service = "bedrock-runtime-fips" if os.environ.get("AWS_USE_FIPS_ENDPOINT") == "true" else "bedrock-runtime"
    return f"https://{service}.{region}.{domain}"


class BothApis:
    """Asks each model through the API that Bedrock serves it with. It is a Transport.

    transports: by the name of the profile. model: the one that `base_url` is about.
    """

    def __init__(self, transports: Mapping[str, DirectTransport | SdkTransport], model: str) -> None:
        self._transports = transports
        self.base_url = self._of(model).base_url

    def send(self, body: Mapping[str, Any], call: Call) -> Iterator[list[dict[str, Any]]]:
        """See `Transport.send`."""
        return self._of(body["model"]).send(body, call)

    def is_available(self, timeout_s: float, model: str) -> bool:
        """See `DirectTransport.is_available`."""
        return self._of(model).is_available(timeout_s, model)

    def close(self) -> None:
        """Close the idle connections."""
        for transport in self._transports.values():
            transport.close()

    def _of(self, model: str) -> DirectTransport | SdkTransport:
        return self._transports[profile_of("bedrock", model).name]
