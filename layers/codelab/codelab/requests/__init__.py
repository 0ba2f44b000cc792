"""The Request: `Request(config, schema, context)` gives a `solution` that validates against the schema.

    transport = openai_transport(base_url=..., api_key=...)
    request = Request(RequestConfig(model="gpt-5-mini"), schema, [{"role": "user", "content": "Hello"}])
    for event in request.stream(transport, deadline=time.monotonic() + 60):
        ...

The package stands alone: it knows no AWS and nothing else of this project. Importing it imports neither the openai SDK
nor an HTTP client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bare import parse_bare, run_bare
    from .bedrock import BedrockKey, bedrock_transport
    from .caller import CallerBounds
    from .codec import Codec, NotExpressible, encode
    from .config import RequestConfig
    from .content import BUILT_IN
    from .downgrade import Memory, Store
    from .errors import (
        CallError,
        Cancelled,
        ContentFilter,
        ContextTooLarge,
        DeadlineExceeded,
        Empty,
        InvalidAnswer,
        InvalidJson,
        InvalidRequest,
        Length,
        Refusal,
        RequestError,
        TransportError,
        Truncated,
    )
    from .openai_sdk import OpenAITransport
    from .outcome import Done, Event, ItemDone, Result, TextDelta, ThinkingDelta, Usage
    from .pipeline import ContentError, Registry
    from .profiles import PROFILES, Profile
    from .request import Request
    from .retry import RetryPolicy
    from .scanner import Scanner
    from .tokens import estimate_context, estimate_tokens
    from .transport import Call, Cancellation, Transport

__all__ = [
    "BUILT_IN",
    "PROFILES",
    "BedrockKey",
    "Call",
    "CallError",
    "CallerBounds",
    "Cancellation",
    "Cancelled",
    "Codec",
    "ContentError",
    "ContentFilter",
    "ContextTooLarge",
    "DeadlineExceeded",
    "Done",
    "Empty",
    "Event",
    "InvalidAnswer",
    "InvalidJson",
    "InvalidRequest",
    "ItemDone",
    "Length",
    "Memory",
    "NotExpressible",
    "Profile",
    "Refusal",
    "Registry",
    "Request",
    "RequestConfig",
    "RequestError",
    "Result",
    "RetryPolicy",
    "Scanner",
    "Store",
    "TextDelta",
    "ThinkingDelta",
    "Transport",
    "TransportError",
    "Truncated",
    "Usage",
    "bedrock_transport",
    "encode",
    "estimate_context",
    "estimate_tokens",
    "openai_transport",
    "parse_bare",
    "run_bare",
]

#: Names by the module that has them. Each module is imported with the first of its names that is asked for: most
#: functions want no more than an estimate of tokens, and should not pay for codecs at every cold start.
_MODULES = {
    "bare": ("parse_bare", "run_bare"),
    "bedrock": ("BedrockKey", "bedrock_transport"),
    "caller": ("CallerBounds",),
    "codec": ("Codec", "NotExpressible", "encode"),
    "config": ("RequestConfig",),
    "content": ("BUILT_IN",),
    "downgrade": ("Memory", "Store"),
    "errors": (
        "CallError",
        "Cancelled",
        "ContentFilter",
        "ContextTooLarge",
        "DeadlineExceeded",
        "Empty",
        "InvalidAnswer",
        "InvalidJson",
        "InvalidRequest",
        "Length",
        "Refusal",
        "RequestError",
        "TransportError",
        "Truncated",
    ),
    "outcome": ("Done", "Event", "ItemDone", "Result", "TextDelta", "ThinkingDelta", "Usage"),
    "pipeline": ("ContentError", "Registry"),
    "profiles": ("PROFILES", "Profile"),
    "request": ("Request",),
    "retry": ("RetryPolicy",),
    "scanner": ("Scanner",),
    "tokens": ("estimate_context", "estimate_tokens"),
    "transport": ("Call", "Cancellation", "Transport"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_PLACES[name]}", __name__), name)
    globals()[name] = found
    return found


def openai_transport(
    *,
    base_url: str,
    api_key: str | Callable[[], str],
    timeout: float = 600.0,
    connect_timeout: float = 5.0,
    headers: Mapping[str, str] | None = None,
    warm: bool = True,
) -> OpenAITransport:
    """A transport on the openai SDK, imported here and not before; make it once, at init.

    `api_key` may be a function that gives the current key. `timeout` bounds the provider's silence in seconds. `warm`
    pays for the SDK's first call now, without touching the network.
    """
    from .openai_sdk import OpenAITransport

    transport = OpenAITransport(
        base_url=base_url, api_key=api_key, timeout=timeout, connect_timeout=connect_timeout, headers=headers
    )
    if warm:
        transport.warm()
    return transport
