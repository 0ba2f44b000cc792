"""A bare Request: JSON in, JSON out, for functions, queues and HTTP routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codelab.llm.caller import CallerBounds
from codelab.llm.client.request import UNSUPPORTED, Request
from codelab.llm.client.transport import Transport
from codelab.llm.client.unsupported_cache import UnsupportedFeatures
from codelab.llm.config import RequestConfig
from codelab.llm.errors import InvalidRequest, json_pointer

_FIELDS = ("kind", "config", "schema", "context")


def parse_bare(
    payload: Any,
    *,
    defaults: Mapping[str, Any] | None = None,
    bounds: CallerBounds | None = None,
    unsupported: UnsupportedFeatures = UNSUPPORTED,
) -> Request:
    """Parse {"kind": "request", "context", "schema", "config"}.

    defaults: settings that the payload may leave out. bounds: limits on what the payload may choose; None for no
    limits. unsupported: the cache of features that models do not support; the Request adds none to it. Raises
    InvalidRequest with the pointer of the invalid value.
    """
    if not isinstance(payload, Mapping):
        raise InvalidRequest("the payload is not an object")
    if payload.get("kind", "request") != "request":
        raise InvalidRequest(f"the kind is {payload['kind']!r}, not 'request'", "/kind")
    for name in payload:
        if name not in _FIELDS:
            raise InvalidRequest(f"unknown field {name!r}", json_pointer(name))
    for name in ("schema", "context"):
        if name not in payload:
            raise InvalidRequest(f"the {name} is missing", f"/{name}")
    settings = payload.get("config", {})
    if isinstance(settings, Mapping):
        settings = {**(defaults or {}), **settings}
    config = RequestConfig.parse(settings)
    if bounds is None:
        return Request(config, payload["schema"], payload["context"], unsupported=unsupported, remember=False)
    bounds.check_settings(config)
    bounds.check_input(payload["schema"], payload["context"])
    return Request(
        config,
        payload["schema"],
        payload["context"],
        registry=bounds.registry(),
        unsupported=unsupported,
        remember=False,
        admit=bounds.check_prepared,
    )


def run_bare(
    payload: Any,
    transport: Transport,
    *,
    defaults: Mapping[str, Any] | None = None,
    bounds: CallerBounds | None = None,
    unsupported: UnsupportedFeatures = UNSUPPORTED,
    deadline: float | None = None,
) -> dict[str, Any]:
    """Run a bare Request.

    Takes what `parse_bare` takes, and a deadline in seconds of `time.monotonic`. Returns {"solution", "usage",
    "strategy", "attempts", "finish_reason"}, and "solutions" if n > 1. Raises InvalidRequest for invalid input, and
    ModelError if there is no solution.
    """
    request = parse_bare(payload, defaults=defaults, bounds=bounds, unsupported=unsupported)
    result = request.run(transport, deadline=deadline)
    response: dict[str, Any] = {
        "solution": result.solution,
        "usage": result.usage.as_dict(),
        "strategy": result.strategy,
        "attempts": result.attempts,
        "finish_reason": result.finish_reason,
    }
    if request.config.n > 1:
        response["solutions"] = result.solutions
    return response
